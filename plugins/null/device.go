package main

import (
	"context"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/target"
)

// Backend has no devices and runs no ops. It says both with the errors that hosts and users know how to read.
type Backend struct{}

// Info is called once, right after the start. A backend whose driver is missing answers as this one does, with no
// devices, rather than failing: `rlxrun devices` then lists it as present but without a device.
func (Backend) Info(context.Context) (device.Info, error) {
	return device.Info{
		Name:    "null",
		Version: "1",
		Target:  &target.Description{Name: "null", Version: "1", Types: []dtype.DType{dtype.F32}}, // and a rule for each kernel
	}, nil
}

// Load makes a program ready to run. What the backend cannot run is said here, with the op's name, not during a run:
// the user can then choose another backend before anything was computed. A backend that can would place
// l.Program.ArenaSize bytes, look up a kernel for each of l.Program.Steps, upload or keep l.Weights, and return a
// device.Executable whose Run calls r.Progress(i) before step i, looks at ctx between steps, and reads and writes
// r.IO at the program's places.
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

// NewState allocates memory that outlives runs, for programs that keep a cache, for example.
func (Backend) NewState(context.Context, string, int64) (device.State, error) {
	return nil, diag.New(device.ErrUnavailable, "null", "this backend has no devices")
}
