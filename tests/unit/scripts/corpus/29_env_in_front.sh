#!/bin/bash
export SGLANG_LOG_MS=1
exec env SGLANG_HOST_IP=127.0.0.1 "SGLANG_QUOTED=a b" SGLANG_LOG_MS=2 \
  python3 -m sglang.launch_server --port 30000
