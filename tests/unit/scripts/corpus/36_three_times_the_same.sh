#!/bin/bash
export SGLANG_SM120_MMA_TARGET_CTAS=128
export SGLANG_LOG_MS=1 SGLANG_SM120_MMA_TARGET_CTAS=256
export UCX_TLS=rc_x
export UCX_TLS+=,tcp
# tuned:
export SGLANG_SM120_MMA_TARGET_CTAS=512
exec python3 -m sglang.launch_server
