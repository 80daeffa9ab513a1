#!/bin/bash
export SGLANG_TAB=$'a\tb' SGLANG_QUOTE=$'it\'s'
export SGLANG_HEX=$'\x41\102\\' # three ways
export SGLANG_LOCALE=$"hello"
exec python3 -m sglang.launch_server
