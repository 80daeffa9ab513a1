#!/usr/bin/env bash
export VLLM_PLUGINS="ascend"
export VLLM_BLOCK_SIZE=128
if [[ "${ENABLE_PLUGIN:-1}" == "1" ]]; then
  export VLLM_PLUGINS="ascend,kv"
fi
[ -n "${BIG:-}" ] && export VLLM_BLOCK_SIZE=256
export HF_HOME="${HF_HOME:-/scratch/hf}"
exec vllm serve /models/q --port 8000
