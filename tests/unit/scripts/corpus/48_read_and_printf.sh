#!/bin/bash
read -r SGLANG_DEVICES <<< "0,1"
printf -v SGLANG_NAME '%s-%s' decode 1
NUM=$(nvidia-smi --list-gpus | wc -l)
export SGLANG_DEVICES SGLANG_NAME
export SGLANG_TP=$((NUM + 4)) SGLANG_LOG_MS=1
(( NUM += 1 ))
exec python3 -m sglang.launch_server --tp "$SGLANG_TP"
