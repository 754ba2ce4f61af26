#!/bin/sh
# Writes the generated assembly and its Go declarations from _asm. Needs the network once, for avo.
set -e
cd "$(dirname "$0")/_asm"
go run . -folders | while read -r part folder; do
	go run . -part "$part" -pkg "$folder" -out "../$folder/${part}_amd64.s" -stubs "../$folder/${part}_amd64.go"
	gofmt -w "../$folder/${part}_amd64.go"
done
# A package cannot include the headers of another.
for folder in attention quad; do cp ../product/amx_amd64.h "../$folder/"; done
cp ../product/gemm_amd64.h ../quad/
go run . -neon .. # the files for arm64
