NCCL_SOCKET_IFNAME=bond1 NCCL_DEBUG=WARN NCCL_IB_DISABLE=0 \
NCCL_IB_GID_INDEX=3 NCCL_IB_TC=104 \
NCCL_IB_HCA=mlx5_0,mlx5_3,mlx5_4 \
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128 \
TOKENIZERS_PARALLELISM=false \
python3 -m sglang.launch_server \
  --model-path /models/r1/ \
  --disaggregation-mode prefill \
  --port 30000
