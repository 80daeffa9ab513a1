#!/bin/bash

export NCCL_DEBUG=WARN
export NCCL_IB_DISABLE=0
export NCCL_SOCKET_IFNAME=bond1

python -m sglang.launch_server --model-path /models/ds --tokenizer-path /models/ds --host 0.0.0.0 --port 30000 --tp-size 8 

