// Command rlx-backend-null is the skeleton of a backend: it starts, describes itself, and runs nothing. To write a
// backend, copy this folder, rename it, and fill in device.go.
//
// Like every backend it imports plugins/rpc, format and core/device, never another backend or a compiler package.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

func main() {
	serve.Backend(serve.Config{
		Name:    "null",
		Backend: Backend{},
		Decode:  format.DecodeProgram,
		Log:     serve.NewLogger(slog.LevelInfo),
	})
}
