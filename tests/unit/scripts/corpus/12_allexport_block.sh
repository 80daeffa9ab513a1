#!/bin/bash
cd .

# secrets, if clients need them
set -a
. /opt/app/.env
SGLANG_LOG_MS=1
SGLANG_CACHE_DIR="/var/cache/a b"
set +a
RUN_NAME=nightly
export NCCL_DEBUG=WARN
exec python3 -m sglang.launch_server --port 30000 --served-model-name "$RUN_NAME"
