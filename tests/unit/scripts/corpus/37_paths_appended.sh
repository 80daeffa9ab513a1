#!/bin/bash
set -e
export LD_LIBRARY_PATH=/opt/nccl/build/lib:/usr/local/cuda/lib64:$LD_LIBRARY_PATH
export PYTHONPATH="/opt/sglang/python${PYTHONPATH:+:$PYTHONPATH}"
export no_proxy="$no_proxy,localhost, 127.0.0.1"
export NCCL_SOCKET_IFNAME="^lo,docker"
export SGLANG_ROOT=/opt/sglang
export SGLANG_KERNELS=$SGLANG_ROOT/kernels
exec python3 -m sglang.launch_server
