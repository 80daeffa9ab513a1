#!/bin/bash
set -m

cleanup() {
  local code=$?
  if [[ -n "${SERVER_PID:-}" ]] && kill -0 "$SERVER_PID" 2>/dev/null; then
    kill -TERM "-${SERVER_PID}" 2>/dev/null || true
  fi
  return $code
}
trap cleanup EXIT INT TERM

export SGLANG_LOG_MS=1
export NCCL_CUMEM_ENABLE=0

python3 -m sglang.launch_server --port 30000 > server.log 2>&1 &
SERVER_PID=$!
wait "$SERVER_PID"
