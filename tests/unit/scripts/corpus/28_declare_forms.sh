#!/bin/bash
declare -x SGLANG_LOG_MS=1 SGLANG_PLAIN="a b"
typeset -x SGLANG_TYPED=2
declare -rx SGLANG_FIXED=3
export -- SGLANG_DASHES=4
declare -gx SGLANG_GLOBAL=5
declare NOT_EXPORTED=6
exec python3 -m sglang.launch_server --port 30000
