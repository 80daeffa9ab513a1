#!/usr/bin/env bash
set -euo pipefail
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
ROOT_DIR="$(cd "$SCRIPT_DIR/.." && pwd)"
mkdir -p "logs" && cd logs

source "$ROOT_DIR/.venv/bin/activate"
export HF_HOME="${HF_HOME:-$ROOT_DIR/.hf}"
export PYTHONPATH="$ROOT_DIR"
export TOKENIZERS_PARALLELISM=false
exec python3 -m sglang.launch_server
