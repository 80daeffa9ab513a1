#!/bin/bash
export SGLANG_RUN=run_`date +"%Y"`
export SGLANG_LOG_DIR=logs/`basename "$PWD"`/x
LRU_CACHE_CAPACITY=1 SGLANG_DAY=`echo "a b"` python3 -m sglang.launch_server >> log_`date +"%Y"`.log
