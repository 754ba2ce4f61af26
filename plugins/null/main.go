// Command rlx-backend-null is the skeleton of a backend: it starts, describes itself, and runs nothing. To write a
// backend, copy this folder, rename it, give ServeConfig a Decode function, and fill in device.go.
//
// Like every backend it imports plugins/rpc and core/device, never another backend or a compiler package.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/plugins/rpc"
)

func main() {
	rpc.Serve(rpc.ServeConfig{
		Name:    "null",
		Backend: Backend{},
		Log:     rpc.NewLogger(slog.LevelInfo),
	})
}
