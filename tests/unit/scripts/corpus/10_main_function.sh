#!/usr/bin/env bash
set -euo pipefail

log() {
    printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*" >&2
}

main() {
    local port="${PORT:-30000}"
    export SGLANG_CACHE_DIR="/var/cache/it's"
    export SGLANG_LOG_MS=1  # cheap
    log "starting on $port"
    exec python3 -m sglang.launch_server --port "$port" "$@"
}

main "$@"
