#! /bin/bash

# set -x

set_env(){
    # bridge
    export PT_WEIGHT_SHARING=${PT_WEIGHT_SHARING:-"0"}
    export PT_LAZY_MODE="1"
    if [ "${NUM_CARDS:-1}" -gt 1 ]; then
        export PT_LAZY_COLLECTIVES=true
    fi

    # memory
    export VLLM_GRAPH_RESERVED_MEM=0.2
}

set_env
export VLLM_SKIP_WARMUP=true
python3 -m vllm.entrypoints.openai.api_server --port 8000
