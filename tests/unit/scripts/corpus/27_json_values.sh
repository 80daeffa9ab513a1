#!/bin/bash
export SGLANG_NIXL_PARAMS='{"num_threads": "4", "path": "/a b"}'
export SGLANG_EPLB="{\"mode\": \"auto\", \"n\": 2}"
export SGLANG_BARE={"a":1}
export SGLANG_LIST='[1, 2, 3]'
exec python3 -m sglang.launch_server --extra-args '{"x": {"y": 1}}'
