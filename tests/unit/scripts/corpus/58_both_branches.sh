#!/bin/bash
if [ "${ROLE:-decode}" = prefill ]; then
  export SGLANG_ROLE=prefill SGLANG_SAME=1
else
  export SGLANG_ROLE=decode SGLANG_SAME=1
fi
export SGLANG_LOG_MS=1
unset SGLANG_NOTHING
exec python3 -m sglang.launch_server --disaggregation-mode "$SGLANG_ROLE"
