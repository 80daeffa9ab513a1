#!/bin/bash
export http_proxy=http://proxy:3128
export SGLANG_LOG_MS=1
exec env -u http_proxy UCX_TLS=tcp numactl --cpunodebind=0 --membind=0 \
  python3 -m sglang.launch_server --port 30000
