//go:build cgo && (darwin || amd64)

// Command rlx-backend-wgpu runs programs on GPUs through WebGPU: Vulkan, or Metal on macOS. rlxrun starts it; see
// spec/protocol.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
	"github.com/rlx-go/rlx/plugins/wgpu/backend"
)

func main() {
	log := serve.NewLogger(slog.LevelDebug)
	gpu.LogPhases(log)
	b := backend.New(backend.Options{})
	go b.Prepare() // while the host is still reading
	serve.Backend(serve.Config{
		Name: "wgpu", Backend: b, Log: log,
		Decode: format.DecodeProgram,
	})
}
