#!/bin/bash
umask 077
export SGLANG_LOG_MS=1
cat > engine.yaml <<'YAML'
api-key: not-a-real-key
# export SGLANG_LOG_MS=2
log-level: "info"   # it's fine
YAML
cat >> engine.yaml <<-EOF
	port: ${PORT:-30000}
	EOF
exec python3 -m sglang.launch_server --config engine.yaml
