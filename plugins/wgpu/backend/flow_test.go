//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// sums is a program of n steps, y = x + x + ... with one addition a step.
func sums(t *testing.T, n int, size int64) *program.Program {
	t.Helper()
	g := ir.NewGraph("sums")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, size))
	y := x
	for range n {
		y = op.Add(y, x)
	}
	g.Return("y", y)
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProgress checks that a plain run reports progress while it goes on. Cancelled at some of these points, it ends
// there, and later runs are right.
func TestProgress(t *testing.T) {
	const steps = 100
	p := sums(t, steps, 1<<18)
	x := load(t, shared, p, nil)
	in := tensor.NewArray(dtype.F32, 1<<18)
	for i := range in.Floats {
		in.Floats[i] = float64(i % 7)
	}
	works := func() {
		t.Helper()
		for i, v := range onDevice(t, x, p, nil, map[string]*tensor.Array{"x": in})["y"].Floats {
			if v != float64(i%7)*(steps+1) {
				t.Fatalf("y[%d] is %v", i, v)
			}
		}
	}
	io := tensor.AlignedBytes(int(p.IOSize))
	var reported []int
	if _, err := x.Run(
		context.Background(),
		device.Run{IO: io, Progress: func(step int) { reported = append(reported, step) }}); err != nil {
		t.Fatal(err)
	}
	if len(reported) < 4 || reported[0] != 0 || reported[len(reported)-1] != steps || !slices.IsSorted(reported) {
		t.Errorf("progress is %v; want some of the steps from 0 to %d", reported, steps)
	}
	for i := range min(5, len(reported)-1) { // the first, the last but one, and some between them
		at := reported[i*(len(reported)-2)/max(1, min(5, len(reported)-1)-1)]
		ctx, cancel := context.WithCancel(context.Background())
		inFlight := gpu.Inspect(x).Slow()
		later := 0
		_, err := x.Run(ctx, device.Run{IO: io, Progress: func(step int) {
			if ctx.Err() != nil {
				later++
			}
			if step >= at {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || later > inFlight {
			t.Errorf("cancelled at step %d: the error is %v, and progress was reported %d times after it", at, err,
				later)
		}
		works()
	}
}
