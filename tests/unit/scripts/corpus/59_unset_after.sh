#!/bin/bash
export https_proxy=http://10.0.0.1:7890
export http_proxy=http://10.0.0.1:7890

# install what is needed

unset https_proxy
unset http_proxy
export SGLANG_LOG_MS=1

exec python3 -m sglang.launch_server --model-path=/models/a --tp-size=1
