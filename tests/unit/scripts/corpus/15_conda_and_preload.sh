#!/bin/sh

. /opt/conda/bin/activate && conda activate sglang
export PRELOADS=${CONDA_PREFIX:-"$(dirname $(dirname /opt/conda/bin/conda))/"}/lib/libomp.so:/lib/tc.so
SGLANG_CPU_OMP_THREADS_BIND=${SGLANG_CPU_OMP_THREADS_BIND:-all} python3 -m sglang.launch_server --model /models/small --device cpu --port 30000