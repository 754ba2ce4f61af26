//go:build cgo && (darwin || amd64)

// Command rlx-backend-wgpu runs programs on GPUs through WebGPU: Vulkan, or Metal on macOS. rlxrun starts it; see
// spec/protocol.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc"
	"github.com/rlx-go/rlx/plugins/wgpu/backend"
)

func main() {
	b := backend.New(backend.Options{})
	go b.Prepare() // while the host is still reading
	rpc.Serve(rpc.ServeConfig{
		Name: "wgpu", Backend: b, Log: rpc.NewLogger(slog.LevelInfo),
		Decode: format.DecodeProgram,
	})
}
