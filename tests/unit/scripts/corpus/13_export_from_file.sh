system=$(uname)
if [ "$system" = 'Linux' ]; then

  export $(grep -v '^#' /dev/null | xargs -d '\n')

elif [ "$system" = 'Darwin' ]; then

  export $(grep -v '^#' /dev/null | xargs -0)

fi
export VLLM_PORT=8000

CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} vllm serve /models/small --host 0.0.0.0
