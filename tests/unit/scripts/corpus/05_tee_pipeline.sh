set -ex

export SGLANG_USE_AITER=1

# adjust these to the machine
export GLOO_SOCKET_IFNAME=enp1s0f1
export SGLANG_HOST_IP=10.0.0.31
export MC_GID_INDEX=2


python -m sglang.launch_server \
  --model-path /models/r1 \
  --disaggregation-mode prefill \
  --host $SGLANG_HOST_IP \
  --port 30002 \
  2>&1 | tee prefill.log
