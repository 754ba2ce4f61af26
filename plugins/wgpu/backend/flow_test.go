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

// TestProgress: a plain run reports progress on the way, not only at its ends, and a cancel at any point of it ends the run
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
	var reported []int
	if _, err := x.Run(context.Background(), device.Run{IO: io, Progress: func(step int) { reported = append(reported, step) }}); err != nil {
		t.Fatal(err)
	}
	if len(reported) < 4 || reported[0] != 0 || reported[len(reported)-1] != steps || !slices.IsSorted(reported) {
		t.Errorf("progress is %v; want some of the steps from 0 to %d", reported, steps)
	}
	for _, at := range reported[:len(reported)-1] {
		ctx, cancel := context.WithCancel(context.Background())
		x.pace = submissionTime // as on a device that takes this long for each step
		x.tape.release()
		x.tape = nil
		later := 0
		_, err := x.Run(ctx, device.Run{IO: io, Progress: func(step int) {
			if ctx.Err() != nil {
				later++
			}
			if step >= at {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || later > maxInFlight {
			t.Errorf("cancelled at step %d: the error is %v, and progress was reported %d times after it", at, err, later)
		}
		works()
	}
}

func TestFlowSizes(t *testing.T) {
	for _, c := range []struct {
		pace time.Duration
		size int
	}{
		{0, firstDispatches},
		{time.Microsecond, 100}, // all of the run
		{250 * time.Microsecond, 100},
		{300 * time.Microsecond, 50}, // two halves
		{5 * time.Millisecond, 5},
		{time.Second, 1},
	} {
		var f flow
		if f.begin(100, c.pace); f.size != c.size {
			t.Errorf("at %v for a dispatch: %d; want %d", c.pace, f.size, c.size)
		}
	}
}

func TestPatience(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	start := time.Now()
	for _, c := range []struct{ due, at, nap time.Duration }{
		{0, 0, 0}, {0, 1900 * us, 0}, {0, 3 * ms, 20 * us}, {0, 150 * ms, 200 * us}, // not known when
		{27 * ms, 0, 200 * us}, {27 * ms, 25900 * us, 100 * us}, {27 * ms, 26100 * us, 0}, {27 * ms, 27900 * us, 0},
		{27 * ms, 28100 * us, 20 * us}, {27 * ms, 150 * ms, 200 * us}, {500 * us, 0, 0}, {500 * us, 1800 * us, 0},
	} {
		var due time.Time
		if c.due > 0 {
			due = start.Add(c.due)
		}
		if got := (patience{start, due}).nap(start.Add(c.at)); got != c.nap {
			t.Errorf("due after %v, asked after %v: naps %v; want %v", c.due, c.at, got, c.nap)
		}
	}
}
