#!/bin/bash
readonly PORT=30000
export PORT
readonly SGLANG_FIXED=1
declare -r UNUSED=2
export SGLANG_FIXED SGLANG_LOG_MS=1
exec python3 -m sglang.launch_server --port "$PORT"
