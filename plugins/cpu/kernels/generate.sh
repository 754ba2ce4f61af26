#!/bin/sh
# Writes the generated assembly and its Go declarations from _asm. Needs the network once, for avo.
set -e
cd "$(dirname "$0")/_asm"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/asm" .
"$bin/asm" -folders | while read -r part folder; do
	"$bin/asm" -part "$part" -pkg "$folder" -out "../$folder/${part}_amd64.s" -stubs "../$folder/${part}_amd64.go"
	gofmt -w "../$folder/${part}_amd64.go"
done
# A package cannot include the headers of another.
for folder in attention quad; do cp ../product/amx_amd64.h "../$folder/"; done
cp ../product/gemm_amd64.h ../quad/
"$bin/asm" -neon .. # the files for arm64
