// Package serve is the backend's side of the protocol between hosts and backends (spec/protocol.md). The main function
// of a backend calls Backend:
//
//	func main() {
//		log := serve.NewLogger(slog.LevelInfo)
//		serve.Backend(serve.Config{Name: "npu", Backend: npu.Backend{}, Decode: format.DecodeProgram, Log: log})
//	}
//
// The package links no host, and needs no cgo.
package serve

import (
	"log/slog"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

// Config describes a backend to serve.
type Config struct {
	Name    string // as in rlx-backend-NAME
	Backend device.Backend
	// Decode decodes and verifies what the host's Options.Encode wrote. If it is nil, the backend cannot load programs.
	Decode func([]byte) (*program.Program, error)
	Log    *slog.Logger // from NewLogger; may be nil
}
