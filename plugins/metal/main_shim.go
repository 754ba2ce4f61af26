//go:build linux && metal_shim

// Command rlx-backend-metal, built with the tag metal_shim, runs Metal's kernels on the processor: see docs/metal.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/metal/shim"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

// level is the optimisation flag for compiling kernels; empty means the default. The linker can set it: -ldflags "-X
// main.level=-O0".
var level string

func main() {
	serve.Backend(serve.Config{
		Name: "metal", Backend: shim.New(shim.Options{Level: level}), Log: serve.NewLogger(slog.LevelInfo),
		Decode: format.DecodeProgram,
	})
}
