package main

import (
	"fmt"
	"maps"
	"slices"
)

// folders says in which package each part is.
var folders = map[string]string{
	"copy": "vec", "images": "vec",
	"packed": "stored", "packed_decode": "stored",
	"math": "elementwise", "binary": "elementwise", "cast": "elementwise", "integers": "elementwise",
	"rows": "reduce", "folds": "reduce",
	"scores": "norm",
	"gemm":   "product", "gemm_stored": "product", "bf16": "product", "tiles": "product",
	"packed_integers": "product", "packed_bytes": "product",
	"packed_tiles": "product", "parts": "product", "packed_words": "product", "packed_eights": "product", "schemes": "product",
	"quads":  "quad",
	"attend": "attention",
	"fft":    "fft",
	"scan":   "scan", "recurrence": "scan",
	"winograd": "conv", "winograd_last": "conv", "last": "conv",
	"random": "sample",
}

// listFolders prints a line for each part for amd64: its name and its package.
func listFolders() {
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		fmt.Println(part, folders[part])
	}
}
