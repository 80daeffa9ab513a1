#!/bin/bash

export CUDA_VISIBLE_DEVICES=0

cmd=$(cat <<- EOF
python -m sglang.launch_server --model-path /models/q \\
--port 6011
EOF
)

if [ "-d" = "$1" ]; then
  cmd="nohup ${cmd} > sglang.log 2>&1 &"
fi

eval $cmd
