#!/bin/bash
# edited on another system
export SGLANG_LOG_MS="1"
export SGLANG_A=1 SGLANG_B='two words' # why

export SGLANG_C="it's"
exec python3 -m sglang.launch_server --port 30001
