#!/bin/bash
if [[ $# -lt 0 ]]; then
    exit 1
fi
UCX_TLS=tcp \
    #LMCACHE_CONFIG_FILE=$file \
    LMCACHE_LOCAL_CPU=False \
    LMCACHE_REMOTE_SERDE="naive" \
    vllm serve /models/llama --port 8100 \
    --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
