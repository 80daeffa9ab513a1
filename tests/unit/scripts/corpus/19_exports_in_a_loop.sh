pkill -9 sglang
export cann_path=/usr/local/toolkit/latest
source /usr/local/driver/bin/setenv.bash
source ${cann_path}/../set_env.sh
sysctl -w vm.swappiness=0
export PYTHONPATH=$PWD/python/:$PYTHONPATH

#export DEEP_NORMAL_MODE_USE_INT8_QUANT=1
export HCCL_BUFFSIZE=1536
P_HOST_IP=('10.0.0.60' '10.0.0.234')
export MF_STORE_URL="tcp://${P_HOST_IP[0]}:30110"

for i in "${!P_HOST_IP[@]}";
do
  export NODE_HOST=${P_HOST_IP[$i]} HCCL_ALGO="level0:NA;level1:ring"
done
#done
python -m sglang.launch_server \
--host 10.0.0.60 \
 --port 8001 \
--nnodes 2
