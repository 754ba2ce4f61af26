//go:build !(cgo && (darwin || amd64))

// Command rlx-backend-wgpu needs cgo and a processor that the WebGPU library is built for; built without them, it says
// so.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(
		os.Stderr,
		"wgpu: built without WebGPU, which needs a C compiler and amd64, or macOS: build with CGO_ENABLED=1 go build ./plugins/wgpu")
	os.Exit(1)
}
