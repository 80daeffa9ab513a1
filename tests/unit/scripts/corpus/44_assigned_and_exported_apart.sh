#!/bin/bash
HF_HOME=/data/hf
XDG_CACHE_HOME="/data/cache dir"
export HF_HOME XDG_CACHE_HOME
export SGLANG_LATER
SGLANG_LATER=set
export SGLANG_UNUSED=1
export -n SGLANG_UNUSED
mkdir -p "$XDG_CACHE_HOME"
exec python3 -m sglang.launch_server
