#!/bin/sh
# Measures a training step on a GPU: an adapter of rank 8 for a model of Llama 3.2 1B's shape with 8 layers, 512 tokens.
#   bench/train/gpu.sh [FOLDER] [BACKEND] [DEVICE]
# It needs Go, a C compiler and python3 with numpy; PYTHON names another one. FOLDER (default /tmp/train-gpu) receives
# the checkpoint, which is kept for the next time, and the programs. First it runs the conformance checks of the kernels
# of training, then it times a step and its ops, and at last steps of PyTorch, eager and compiled, if that is installed
# with transformers and peft. The exit status is 1 if a check failed.
set -eu
mkdir -p "${1:-/tmp/train-gpu}/bin"
folder=$(cd "${1:-/tmp/train-gpu}" && pwd) backend=${2:-wgpu} device=${3:-} python=${PYTHON:-python3} status=0
cd "$(dirname "$0")/../.."
export GOFLAGS=-trimpath
CGO_ENABLED=0 go build -o "$folder/bin/" ./cmd/rlxc ./cmd/rlxrun
CGO_ENABLED=0 go build -o "$folder/bin/rlx-backend-cpu" ./plugins/cpu
CGO_ENABLED=0 go build -o "$folder/bin/rlx-backend-cuda" ./plugins/cuda
CGO_ENABLED=1 go build -o "$folder/bin/rlx-backend-wgpu" ./plugins/wgpu
cp plugins/wgpu/rlx-backend-wgpu.sandbox plugins/cuda/rlx-backend-cuda.sandbox "$folder/bin/"
ops='adamw|sgd|attention_backward|rms_norm_backward|layer_norm_backward|group_norm_backward|rope_backward'
RLX_CONFORMANCE=all RLX_REQUIRE_GPU=1 CGO_ENABLED=1 go test -vet=off -timeout 30m ./plugins/wgpu/backend \
  -run "TestConformance/^($ops|softmax_cross_entropy|softmax_cross_entropy_backward)\$" || status=1
# the tokenizer is written last
[ -f "$folder/llama/tokenizer_config.json" ] || "$python" bench/train/checkpoint.py "$folder/llama"
PATH=$folder/bin:$PATH
rlxc "$folder/llama" --train lora=8 --train-tokens 512 --train-batch 1 --target "$backend" -o "$folder/lora.rlx"
set -- -b "$backend" ${device:+--device "$device"}
rlxrun bench "$folder/lora.rlx" --method train_step --profile "$@"
if "$python" -c 'import torch, transformers, peft; assert torch.cuda.is_available()' 2> /dev/null; then
  for how in "" --compile; do
    echo "PyTorch${how:+ compiled}, seconds of steps after 5 to warm up:"
    printf '5\n10\n' | "$python" bench/train/peer.py "$folder/llama" --mode lora=8 --tokens 512 --device cuda $how |
      tail -n 1
  done
else
  echo "PyTorch with CUDA, transformers and peft is not installed: not compared"
fi
[ $status = 0 ] || echo "a conformance check FAILED; see above"
exit $status
