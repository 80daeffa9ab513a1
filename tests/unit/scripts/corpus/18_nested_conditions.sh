#!/usr/bin/env bash

# ========= needs =========
# HF_TOKEN
# MODEL
export SGLANG_USE_AITER=1

PREFILL_SIZE=196608
if [[ "$ISL" == "8192" && "$OSL" == "1024" ]]; then
	if [[ "$CONC" -gt "32" ]]; then
		PREFILL_SIZE=32768
		export SGLANG_BIG=1
	fi
fi

set -x
python3 -m sglang.launch_server --model-path=/models/ds --port=30000 \
--chunked-prefill-size=$PREFILL_SIZE

