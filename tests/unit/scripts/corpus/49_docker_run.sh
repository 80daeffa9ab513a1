#!/bin/bash
export HF_HOME=/data/hf
exec docker run --gpus '"device=0"' \
  --shm-size 32g \
  -e OMP_NUM_THREADS=1 \
  -e HF_HOME="$HF_HOME" \
  -v ~/.cache/huggingface:/root/.cache/huggingface \
  lmsysorg/sglang:latest \
  python3 -m sglang.launch_server --port 8000
