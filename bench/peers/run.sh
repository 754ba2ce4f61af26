#!/usr/bin/env bash
# Times SAM's image encoder on OpenVINO, ONNX Runtime, PyTorch and RLX, in turn, and prints a table.
#
#   bench/peers/run.sh [FLAGS OF compare.py]
#   such as --rounds 5 -n 3 --threads 2 --precision bf16 --peers openvino,rlx
#   bench/peers/run.sh --backend wgpu --model sam_vit_h       on a GPU, beside PyTorch
#
# Works in $RLX_PEERS_DIR (default out/peers), which takes about 8 GB, most of it Python packages. Existing files are
# reused, except for the commands and the artifact, which are built anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=${RLX_PEERS_DIR:-$root/out/peers}
mkdir -p "$work"

python=$work/venv/bin/python
[ -x "$python" ] || python3 -m venv "$work/venv"
if [ ! -e "$work/venv/installed" ]; then
  "$python" -m pip install --quiet -r bench/peers/requirements.txt
  touch "$work/venv/installed"
fi

make build >&2
export CGO_ENABLED=0 PYTHONDONTWRITEBYTECODE=1
go build -trimpath -o "$work/" ./bench/peak ./bench/synth

echo "commit $(git describe --always --dirty)"
"$python" bench/peers/compare.py --files "$work" --bin bin --peak "$work/peak" --synth "$work/synth" \
  --markdown "$work/table.md" --json "$work/table.json" "$@"
