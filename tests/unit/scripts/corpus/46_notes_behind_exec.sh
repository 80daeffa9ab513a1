#!/bin/bash
export SGLANG_LOG_MS=1
exec python3 -m sglang.launch_server --port 30000

export SGLANG_LOG_MS=2
export SGLANG_NEVER=1
exit
