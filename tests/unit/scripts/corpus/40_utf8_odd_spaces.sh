#!/bin/bash
# 启动 服务
export SGLANG_NOTE="a b" SGLANG_BARE=x y
export SGLANG_NAME='模型一' # 名字
echo "==================启动==================" > /dev/null
exec python3 -m sglang.launch_server --served-model-name "模型"
