#!/bin/bash
set -e

if [ -f "./.env" ]; then
    source ./.env
fi
export VLLM_LOGGING_LEVEL=INFO

python \
		-m vllm.entrypoints.openai.api_server \
		--host "${HOST:-0.0.0.0}" \
    --port "${PORT:-8000}"
