#!/bin/bash
set -ex

pkill -9 sglang
sleep 3
ray stop --force

MODEL_PATH=${MODEL_PATH:-/models/oss}
PORT=${PORT:-30000}
LOG_LEVEL=${LOG_LEVEL:=info}
export CUDA_VISIBLE_DEVICES=7
export SGLANG_LOG_MS=${SGLANG_LOG_MS:-1} SGLANG_PORT=$PORT
export LOG_LEVEL

python -m sglang.launch_server --model-path "${MODEL_PATH}" --port "${PORT}"
