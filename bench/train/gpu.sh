#!/bin/sh
# Measures a training step on a GPU: an adapter of rank 8 for a model of Llama 3.2 1B's shape with 8 layers, 512 tokens.
#   bench/train/gpu.sh [FOLDER] [BACKEND] [DEVICE]
# It needs Go, a C compiler and python3 with numpy. FOLDER (default /tmp/train-gpu) receives the checkpoint and the
# programs. First it runs the conformance checks of the gradients' kernels, then it times a step and its ops.
set -eu
folder=${1:-/tmp/train-gpu} backend=${2:-wgpu} device=${3:-}
mkdir -p "$folder/bin"
export GOFLAGS=-trimpath
CGO_ENABLED=0 go build -o "$folder/bin/" ./cmd/rlxc ./cmd/rlxrun
CGO_ENABLED=1 go build -o "$folder/bin/rlx-backend-wgpu" ./plugins/wgpu
cp plugins/wgpu/rlx-backend-wgpu.sandbox "$folder/bin/"
ops='rms_norm_backward|layer_norm_backward|group_norm_backward|rope_backward'
RLX_CONFORMANCE=all RLX_REQUIRE_GPU=1 CGO_ENABLED=1 go test -vet=off ./plugins/wgpu/backend \
  -run "TestConformance/^($ops|softmax_cross_entropy|softmax_cross_entropy_backward)\$" || echo "conformance FAILED"
[ -f "$folder/llama/model.safetensors" ] || "${PYTHON:-python3}" bench/train/checkpoint.py "$folder/llama"
PATH=$folder/bin:$PATH
[ -f "$folder/lora.rlx" ] || rlxc "$folder/llama" --train lora=8 --train-tokens 512 --train-batch 1 --target "$backend" \
  -o "$folder/lora.rlx"
set -- -b "$backend" ${device:+--device "$device"}
rlxrun bench "$folder/lora.rlx" --method train_step --profile "$@"
