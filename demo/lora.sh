#!/bin/sh
# Trains a low-rank adapter of demo/llama, which has learned Shakespeare's plays, on the pages in docs/, and measures
# the model on CONTRIBUTING.md without and with it: demo/lora.sh FOLDER
# It needs rlxc and rlxrun in the path, and a minute or two on two cores. The curve of the loss is FOLDER/loss.svg.
set -e
here=$(dirname "$0")
mkdir -p "$1"
cat "$here"/../docs/*.md > "$1/docs.txt"
rlxc "$here/llama" --train lora=8 --train-tokens 128 --train-batch 4 -o "$1/train.rlx"
rlxrun train "$1/train.rlx" --text "$1/docs.txt" --eval "$here/../CONTRIBUTING.md" -n 300 --lr 2e-3 \
  --plot "$1/loss.svg" --save "$1/adapter"
rlxc "$here/llama" --lora 8 -o "$1/llama.rlx"
rlxrun perplexity "$1/llama.rlx" --text "$here/../CONTRIBUTING.md"
rlxrun perplexity "$1/llama.rlx" --lora "$1/adapter" --text "$here/../CONTRIBUTING.md"
