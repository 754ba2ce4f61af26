//go:build !(linux && metal_shim)

// Command rlx-backend-metal does not run on Metal yet; it says so.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "metal: there is no backend for Metal yet; use wgpu, which runs on Metal. For tests on Linux, build with -tags metal_shim; see docs/metal.md")
	os.Exit(1)
}
