#!/bin/bash
export SGLANG_LOG_MS=1
(export SGLANG_ELSEWHERE=1; true)
(
  cd . || exit 1
  SGLANG_INNER=2 python3 -m sglang.launch_server --port 30000
) > server.log 2>&1 &
wait
