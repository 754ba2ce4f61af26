//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
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
	p, _, err := sched.Build(g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProgress: a plain run is told about on the way, not only at its ends, and a cancel at any point of it ends the run
// there and leaves the executable as good as new.
func TestProgress(t *testing.T) {
	const steps = 100
	p := sums(t, steps, 1<<18)
	x := load(t, shared, p, nil).(*executable)
	in := tensor.NewArray(dtype.F32, 1<<18)
	for i := range in.F {
		in.F[i] = float64(i % 7)
	}
	works := func() {
		t.Helper()
		for i, v := range onDevice(t, x, p, nil, map[string]*tensor.Array{"x": in})["y"].F {
			if v != float64(i%7)*(steps+1) {
				t.Fatalf("y[%d] is %v", i, v)
			}
		}
	}
	io := tensor.AlignedBytes(int(p.IOSize))
	var told []int
	if _, err := x.Run(context.Background(), device.Run{IO: io, Progress: func(step int) { told = append(told, step) }}); err != nil {
		t.Fatal(err)
	}
	if len(told) < 4 || told[0] != 0 || told[len(told)-1] != steps || !slices.IsSorted(told) {
		t.Errorf("progress is %v; want some of the steps from 0 to %d", told, steps)
	}
	for _, at := range told[:len(told)-1] {
		ctx, cancel := context.WithCancel(context.Background())
		x.pace = submissionTime // as on a device that takes this long for each step
		later := 0
		_, err := x.Run(ctx, device.Run{IO: io, Progress: func(step int) {
			if ctx.Err() != nil {
				later++
			}
			if step >= at {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || later > maxFlying {
			t.Errorf("cancelled at step %d: the error is %v, and progress was told %d times after it", at, err, later)
		}
		works()
	}
}

func TestFlowSizes(t *testing.T) {
	for _, c := range []struct {
		pace         time.Duration
		first, later int
	}{
		{0, firstDispatches, firstDispatches},
		{time.Microsecond, 25000, 25000}, // all of the run
		{250 * time.Microsecond, 100, 100},
		{500 * time.Microsecond, firstDispatches, 50},
		{5 * time.Millisecond, 5, 5},
		{time.Second, 1, 1},
	} {
		var f flow
		if f.begin(100, c.pace); f.size != c.first || f.limit != c.later {
			t.Errorf("at %v for a dispatch: %d, later up to %d; want %d, %d", c.pace, f.size, f.limit, c.first, c.later)
		}
	}
}
