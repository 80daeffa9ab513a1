#!/bin/bash -l
#SBATCH -J sglang
#SBATCH --time=23:59:00
#SBATCH --gres=gpu:4

eval "$(true shell hook --shell bash)"
export OUTLINES_CACHE_DIR="/tmp/cache/${SLURM_JOB_ID:-0}"
export MASTER_ADDR=$(hostname | head -n 1)
PORT=30000

echo "starting on $(hostname) at port $PORT"
python3 -m sglang.launch_server --port $PORT --tp 4
