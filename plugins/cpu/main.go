// Command rlx-backend-cpu runs programs on the processor. rlxrun starts it; see spec/protocol.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/rpc"
)

func main() {
	rpc.Serve(rpc.ServeConfig{
		Name: "cpu", Backend: backend.Backend{}, Log: rpc.NewLogger(slog.LevelInfo),
		Decode: format.DecodeProgram,
	})
}
