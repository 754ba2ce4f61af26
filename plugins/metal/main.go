//go:build !(darwin && arm64) && !(linux && metal_shim)

// Command rlx-backend-metal runs programs on Macs with Apple silicon. Built for another system, as here, it only prints
// an error.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(
		os.Stderr,
		"metal: needs a Mac with Apple silicon; elsewhere use --backend wgpu (also on Intel Macs) or cpu. For tests on Linux, build with -tags metal_shim; see docs/metal.md")
	os.Exit(1)
}
