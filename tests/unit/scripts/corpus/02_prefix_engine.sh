export TORCHINDUCTOR_CACHE_DIR=~/.inductor

CUDA_VISIBLE_DEVICES=6 python -m sglang.launch_server \
    --model-path /models/vl \
    --disaggregation-mode prefill \
    --port 30000
