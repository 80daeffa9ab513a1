#!/bin/bash
export HF_TOKEN="hf_madeupmadeup"   # hub
export AWS_SECRET_ACCESS_KEY='made/up+key'
#export WANDB_API_KEY=0123456789abcdef
curl -s -H "Authorization: Bearer hf_madeupmadeup" http://127.0.0.1:1/ || true
export SGLANG_LOG_MS=1
exec python3 -m sglang.launch_server --port 30000 --api-key sk-made-up --admin-api-key=sk-also-made-up
