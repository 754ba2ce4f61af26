//go:build !(linux && (amd64 || arm64))

// Command rlx-backend-cuda runs programs on NVIDIA GPUs on Linux. Built for another system, as here, it only prints an
// error.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "cuda: needs Linux; elsewhere use --backend wgpu or cpu")
	os.Exit(1)
}
