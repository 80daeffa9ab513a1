# start the server
unset http_proxy
unset https_proxy

python3 -m sglang.launch_server \
    --model-path "/models/small/" \
    --port 30000 \
    --tp 1
