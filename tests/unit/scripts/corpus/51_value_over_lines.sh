#!/bin/bash
export SGLANG_PROMPT="first line
export NOT_A_KNOB=1
last line" SGLANG_LOG_MS=1
export \
  SGLANG_A=1 \
  SGLANG_B="two" \
  SGLANG_C=3
exec python3 -m sglang.launch_server
