#!/bin/bash

trap "echo 'interrupted'; exit" SIGINT

DEVICE_ID=7
export VLLM_LOGGING_LEVEL=INFO

for attempt in 1 2; do
    echo "start $attempt"
    CUDA_VISIBLE_DEVICES=$DEVICE_ID vllm serve /models/q --port 8848 --api-key "$API_KEY"

    echo "it has ended; again in 5 s"
    sleep 5
done
