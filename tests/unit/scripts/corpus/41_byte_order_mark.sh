#!/bin/bash
export SGLANG_LOG_MS=1
exec python3 -m sglang.launch_server
