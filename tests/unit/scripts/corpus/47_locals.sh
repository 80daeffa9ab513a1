#!/bin/bash
launch() {
  local devices="${1:-0}"
  local -x SGLANG_ONLY_HERE=1
  local LOG_LEVEL=info
  [ -n "$devices" ] || return 1
  export CUDA_VISIBLE_DEVICES="$devices"
  python3 -m sglang.launch_server --log-level "$LOG_LEVEL"
}
export LOG_LEVEL=warning
launch 0,1
