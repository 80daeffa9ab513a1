#!/usr/bin/env bash
ulimit -n 1024 2>/dev/null >/dev/null || true
alias python='echo no'
here=`pwd`
export LANG=C.UTF-8 SGLANG_HERE=$here
#nohup   python -m sglang.launch_server --port 8081  &
         python -m sglang.launch_server --port 8081  # another port does not work
