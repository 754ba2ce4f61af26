// Package server answers the calls of a host with a device.Backend. Package serve connects it to the host that started
// the process.
package server

import (
	"log/slog"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/program"
)

// Config describes the backend that a server serves.
type Config struct {
	Backend device.Backend
	Decode  func([]byte) (*program.Program, error) // see serve.Config
	Log     *slog.Logger
	Beat    time.Duration // between heartbeats; 0 means the interval of the protocol
}
