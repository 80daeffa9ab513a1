#!/bin/bash

# export CUDA_VISIBLE_DEVICES=0,2

. ./.env
NOW=$(date "+%Y-%m-%d_%H-%M-%S")
LOG_FILE="server_$NOW.log"
exec > "$LOG_FILE" 2>&1
export CUDA_VISIBLE_DEVICES=0
exec 3>&1

echo "devices: $CUDA_VISIBLE_DEVICES"
vllm serve "${MODEL_PATH:-/models/q}" \
  --port 8000 \
  --reasoning-parser deepseek_r1 
  # --tensor-parallel-size 2 \
