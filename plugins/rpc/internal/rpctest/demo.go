//go:build linux || darwin

package rpctest

import (
	"context"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/target"
)

// demoBackend is the backend of the transcript.
type demoBackend struct{ Reference }

func (demoBackend) Info(context.Context) (device.Info, error) {
	to, err := target.Parse("target demo 1\ntypes f32 i32\nrun gather(f32, i32)\nrun neg(f32)")
	return device.Info{Name: "demo", Version: "1", Target: to, SetsWeights: true,
		RowBounds: &device.RowBounds{Products: []int{8}},
		Devices:   []device.Device{{ID: "0", Name: "Demonstration", Type: "software"}}}, err
}

func (b demoBackend) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	e, err := b.Reference.Load(ctx, l)
	if err != nil {
		return nil, err
	}
	return demoExecutable{e.(*refExecutable)}, nil
}

type demoExecutable struct{ *refExecutable }

func (demoExecutable) Kernels() []device.Kernel {
	return []device.Kernel{{Op: "gather", Native: true}, {Op: "neg", Native: true}}
}

func (e demoExecutable) Run(ctx context.Context, r device.Run) (device.Stats, error) {
	st, err := e.refExecutable.Run(ctx, r)
	if _, typed := diag.CodeOf(err); err != nil && !typed { // an index is out of range
		err = diag.New(device.ErrInput, "", "%w", err)
	}
	return st, err
}
