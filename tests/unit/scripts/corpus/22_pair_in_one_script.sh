#!/bin/bash
export SGLANG_DISAGGREGATION_WAITING_TIMEOUT=300
export UCX_TLS=rc_x,cuda_copy

CUDA_VISIBLE_DEVICES=0 UCX_NET_DEVICES=mlx5_0:1 \
python3 -m sglang.launch_server --disaggregation-mode prefill --port 30000 &

CUDA_VISIBLE_DEVICES=1 UCX_NET_DEVICES=mlx5_1:1 \
python3 -m sglang.launch_server --disaggregation-mode decode --port 30001 &
wait
