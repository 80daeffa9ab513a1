#!/bin/bash
PREFIX="SM_VLLM_"
ARGS=(--port 8080)
while IFS='=' read -r key value; do
    arg_name=$(echo "${key#"${PREFIX}"}" | tr '[:upper:]' '[:lower:]' | tr '_' '-')
    ARGS+=("--${arg_name}")
    if [ -n "$value" ]; then
        ARGS+=("$value")
    fi
done < <(env | grep "^${PREFIX}")
MODEL_DIR=/models/ds-v4/
export SGLANG_MODEL=${MODEL_DIR%/} SGLANG_SHORT="${MODEL_DIR:0:7}"
export SGLANG_NAME=${PREFIX//_/-}
export SGLANG_LOG_MS=1
exec python3 -m vllm.entrypoints.openai.api_server "${ARGS[@]}"
