// Command rlx-backend-cpu runs programs on the processor. rlxrun starts it; see spec/protocol.md.
package main

import (
	"log/slog"

	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/plugins/rpc/serve"
)

func main() {
	serve.Backend(serve.Config{
		Name: "cpu", Backend: backend.Backend{}, Log: serve.NewLogger(slog.LevelInfo),
		Decode: format.DecodeProgram,
	})
}
