#!/usr/bin/env bash
set -euo pipefail
export SGLANG_HOST_IP=127.0.0.1
cat > start-later.sh <<'SCRIPT'
#!/usr/bin/env bash
export SGLANG_HOST_IP=10.0.0.1
export SGLANG_ONLY_THERE=1
case "$SPEC" in
  mtp) FLAGS=(--speculative-algorithm EAGLE) ;;
esac
exec python3 -m sglang.launch_server "${FLAGS[@]}"
SCRIPT
chmod 700 start-later.sh
exec python3 -m sglang.launch_server --port 30000
