export logfile="./router_$(date +'%Y-%m-%d-%H:%M').log"
export RUST_LOG=info

nohup \
python -u -m sglang_router.launch_router \
    --pd-disaggregation \
    --prefill http://10.0.0.1:30000 8998\
    --decode http://10.0.0.2:30001 \
> $logfile 2>&1 & \

