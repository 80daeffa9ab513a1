#!/bin/bash
set -euo pipefail

VARIANT="${1:-baseline}"
export SGLANG_ENABLE_SPEC_V2=1

COMMON_ARGS=(
  --model-path /models/ds   # one for all
  --port 30000
  --trust-remote-code
)

case "$VARIANT" in
  baseline)
    # for comparison
    exec python3 -m sglang.launch_server "${COMMON_ARGS[@]}"
    ;;
  ngram)
    export SGLANG_NGRAM_DEPTH=18
    exec python3 -m sglang.launch_server "${COMMON_ARGS[@]}" \
      --speculative-algorithm NGRAM
    ;;
esac
