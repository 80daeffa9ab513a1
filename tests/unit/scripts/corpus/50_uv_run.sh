#!/usr/bin/env bash
export UV_CACHE_DIR=/data/uv
export SGLANG_LOG_MS=1
exec uv run --no-sync python -m sglang.launch_server --port 30000
