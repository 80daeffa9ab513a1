#!/bin/sh
export SGLANG_A=1; export SGLANG_B="b; c"; cd . ;export SGLANG_D=4 ;  exec python3 -m sglang.launch_server --port 1