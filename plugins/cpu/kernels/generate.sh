#!/bin/sh
# Writes the generated assembly and its Go declarations from _asm. Needs the network once, for avo.
set -e
cd "$(dirname "$0")/_asm"
for part in gemm copy math attention rows folds random recurrence scan binary cast integers bf16 tiles attend conv fft packed packed_decode packed_integers packed_bytes packed_tiles packed_words quads schemes; do
	go run . -part $part -pkg kernels -out ../${part}_amd64.s -stubs ../${part}_amd64.go
done
gofmt -w ../*_amd64.go
go run . -neon .. # the files for arm64
