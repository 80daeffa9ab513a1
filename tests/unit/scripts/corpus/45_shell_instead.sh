#!/usr/bin/env bash
set -euo pipefail

if [[ -n "${ONLY_SHELL:-}" ]]; then
  echo "a shell"
  exec /bin/bash
fi
if [ "${1:-}" = "--patches-only" ]; then
    exit 0
fi

PORT="${PORT:-8000}"
export VLLM_ATTENTION_BACKEND=FLASHINFER
exec python -m vllm.entrypoints.openai.api_server \
  --port "${PORT}" \
  ${VLLM_EXTRA_ARGS:-}
