#!/bin/bash
# größer ist besser
export SGLANG_NOTE="café" SGLANG_LOG_MS=1
export SGLANG_BARE=éÿ
exec python3 -m sglang.launch_server
