#!/usr/bin/env bash
# Times SAM ViT-B's encoder on OpenVINO, ONNX Runtime, PyTorch and ours, alternating, and prints a table.
#
#   bench/peers/run.sh [FLAGS OF compare.py]      such as --rounds 5 -n 3 --threads 2 --precision bf16 --peers openvino,rlx
#
# Works in $RLX_PEERS_DIR (default out/peers), which takes about 8 GB, most of it Python packages. What is there is reused,
# except for the commands and the artifact, which are built anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=${RLX_PEERS_DIR:-$root/out/peers}
golden=$root/testdata/goldens/sam_vit_b
mkdir -p "$work"

python=$work/venv/bin/python
[ -x "$python" ] || python3 -m venv "$work/venv"
if [ ! -e "$work/venv/installed" ]; then
  "$python" -m pip install --quiet -r bench/peers/requirements.txt
  touch "$work/venv/installed"
fi

make build >&2
export CGO_ENABLED=0 PYTHONDONTWRITEBYTECODE=1
go build -trimpath -o "$work/peak" ./bench/peak
[ -e "$work/sam_vit_b.safetensors" ] || go run ./bench/synth -manifest "$golden/manifest.json" -o "$work/sam_vit_b.safetensors"
[ -e "$work/image.npy" ] || go run ./bench/synth -name sam_vit_b.image -shape 1,3,1024,1024 -scale 2 -o "$work/image.npy"
bin/rlxc "$work/sam_vit_b.safetensors" -o "$work/sam_vit_b.rlx" >&2
[ -e "$work/encoder.onnx" ] || "$python" bench/peers/export.py "$work/sam_vit_b.safetensors" "$golden/case.json" "$work/encoder.onnx" >&2

echo "commit $(git describe --always --dirty)"
"$python" bench/peers/compare.py --files "$work" --golden "$golden" --bin bin --peak "$work/peak" \
  --markdown "$work/table.md" --json "$work/table.json" "$@"
