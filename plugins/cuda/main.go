//go:build linux && (amd64 || arm64)

// Command rlx-backend-cuda runs programs on NVIDIA GPUs through CUDA's driver. rlxrun starts it; see spec/protocol.md
// and docs/cuda.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/cuda/driver"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

func main() {
	log := serve.NewLogger(slog.LevelDebug)
	gpu.LogPhases(log)
	b := driver.New()
	go b.Prepare() // opens the device while the host is still reading the artifact
	serve.Backend(serve.Config{
		Name: "cuda", Backend: b, Log: log,
		Decode: format.DecodeProgram,
	})
}
