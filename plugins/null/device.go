package main

import (
	"context"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// Backend has no devices and runs no ops. It reports both with errors that hosts and users understand.
type Backend struct{}

// Info is called once, right after the start. If a driver is missing, return no devices rather than an error, as here:
// `rlxrun devices` then still lists the backend.
func (Backend) Info(context.Context) (device.Info, error) {
	return device.Info{
		Name:    "null",
		Version: "1",
		Target:  &target.Description{Name: "null", Version: "1", Types: []dtype.DType{dtype.F32}}, // a real backend has a rule per kernel
	}, nil
}

// Load prepares a program. If the backend lacks a kernel, Load returns an error that names the op, so that the user can choose another
// backend before anything is computed. A real backend allocates l.Program.ArenaSize bytes, finds a kernel for each of l.Program.Steps,
// uploads or keeps l.Weights, and returns a device.Executable. Its Run calls r.Progress(i) before step i, checks ctx between steps, and
// reads and writes r.IO at the program's places.
func (Backend) Load(_ context.Context, l device.Load) (device.Executable, error) {
	if l.Device != "" {
		return nil, diag.New(device.ErrUnavailable, "null", "device %q: this backend has no devices", l.Device)
	}
	for _, s := range l.Program.Steps {
		n := l.Program.Graph.Nodes[s.Node]
		return nil, diag.New(device.ErrUnsupported, "null", "%s: op %s is not one it runs (it runs none)", n.Label(), n.Op.Name).
			WithHint("choose another backend with --backend")
	}
	return nil, diag.New(device.ErrUnavailable, "null", "this backend has no devices")
}

// NewState allocates memory that outlives runs, for example for a key-value cache.
func (Backend) NewState(context.Context, string, int64) (device.State, error) {
	return nil, diag.New(device.ErrUnavailable, "null", "this backend has no devices")
}
