#!/bin/bash
export "SGLANG_A=a b"
export 'SGLANG_B=$HOME' SGLANG_C=pre"mid dle"'end'
export SGLANG_D="a"\ b\"c SGLANG_E=""
exec python3 -m sglang.launch_server
