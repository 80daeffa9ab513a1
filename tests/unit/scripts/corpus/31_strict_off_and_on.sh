#!/bin/bash --login
# strict
set -euo pipefail
# off for conda, on again
set +euo pipefail
conda activate llmenv
set -euo pipefail
export OMP_NUM_THREADS=36 KMP_BLOCKTIME=1

exec numactl -C0-35 -m0 python -m sglang.launch_server --port 30000
