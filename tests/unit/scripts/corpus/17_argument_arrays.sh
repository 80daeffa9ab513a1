#!/usr/bin/env bash
set -euo pipefail
MODEL_TYPE="${MODEL_TYPE:-}"
export SGLANG_ENABLE_JIT_DEEPGEMM=1

LAUNCH_ARGS=(
    --model-path /models/q       # local
    --served-model-name "a b"
    # --disable-radix-cache
    --port "${PORT:-30000}"
)

# only for packed models
if [ "${MODEL_TYPE}" = "gguf" ]; then
    LAUNCH_ARGS+=(--load-format gguf --quantization gguf)
fi
[[ -n "${EXTRA:-}" ]] && LAUNCH_ARGS+=(--extra '{"thinking": false}')

exec python3 -m sglang.launch_server "${LAUNCH_ARGS[@]}" "$@"
