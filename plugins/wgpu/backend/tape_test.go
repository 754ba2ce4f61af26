//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// TestTape checks that a run submits the commands that the previous run recorded, and that results are right after a
// change of sizes, after runs that observe steps, and after a cancelled run.
func TestTape(t *testing.T) {
	g := ir.NewGraph("test", ir.Sym{Name: "N", Min: 1, Max: 4096})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(3)}})
	y := op.Mul(op.Add(x, x), x)
	g.Return("y", y)
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	e := load(t, shared, p, nil)
	run := func(n int) {
		t.Helper()
		in := tensor.NewArray(dtype.F32, n, 3)
		for i := range in.Floats {
			in.Floats[i] = float64(i%11 + n)
		}
		for i, v := range onDevice(t, e, p, map[string]int64{"N": int64(n)},
			map[string]*tensor.Array{"x": in})["y"].Floats {
			if want := 2 * in.Floats[i] * in.Floats[i]; v != want {
				t.Fatalf("N %d: y[%d] is %v; want %v", n, i, v, want)
			}
		}
	}
	for _, n := range []int{5, 5, 5, 4000, 4000, 4000, 2, 5} {
		run(n)
	}
	run(7)
	recorded := func() bool { _, ok := gpu.Inspect(e).Recorded(); return ok }
	if run(7); !recorded() {
		t.Error("the next run is not recorded")
	}
	io := tensor.AlignedBytes(int(p.IOSize))
	syms := map[string]int64{"N": 7}
	for _, o := range []device.RunOptions{{Profile: true}, {CheckNaN: true},
		{Dump: []int{y.ID}, Observe: func(int, []int, []byte) error { return nil }}} {
		if _, err := e.Run(context.Background(), device.Run{Syms: syms, IO: io, Opts: o}); err != nil {
			t.Fatal(err)
		}
		if !recorded() {
			t.Errorf("%+v: the tape is gone", o)
		}
		run(7)
	}
	for range 2 { // a run without wanted outputs is recorded, too
		if _, err := e.Run(context.Background(), device.Run{Syms: syms, IO: io, Outputs: []bool{false}}); err != nil {
			t.Fatal(err)
		}
		if outputs, _ := gpu.Inspect(e).Recorded(); outputs == nil {
			t.Error("the next run is not recorded for the outputs that are wanted")
		}
	}
	run(7)
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := e.Run(ctx, device.Run{Syms: syms, IO: io, Progress: func(int) { cancel() }}); !errors.Is(
		err, context.Canceled) {
		t.Errorf("the error of a cancelled run is %v", err)
	}
	run(7)
	run(7)
}

// TestStream checks that a run that is submitted while it is recorded has the results of a recorded one. A step that
// the library rejects in a late submission is named, although the device already works on earlier ones.
func TestStream(t *testing.T) {
	const steps = 100
	p := sums(t, steps, 1024)
	x := load(t, shared, p, nil)
	name := p.Graph.Inputs()[0].Name
	in := tensor.NewArray(dtype.F32, 1024)
	for i := range in.Floats {
		in.Floats[i] = float64(i % 7)
	}
	run := func() *tensor.Array {
		t.Helper()
		for _, y := range onDevice(t, x, p, nil, map[string]*tensor.Array{name: in}) {
			return y
		}
		return nil
	}
	run() // sets the pace
	recorded := run()
	gpu.Inspect(x).Forget()
	if streamed := run(); !slices.Equal(streamed.Floats, recorded.Floats) || recorded.Floats[1] == 0 {
		t.Errorf("streamed: %v; recorded: %v", streamed.Floats[:8], recorded.Floats[:8])
	}
	groups := gpu.Inspect(x).Workgroups(steps - 10)
	right := *groups
	*groups = 1 << 31
	gpu.Inspect(x).Forget()
	_, err := x.Run(context.Background(), device.Run{IO: tensor.AlignedBytes(int(p.IOSize))})
	if !errors.Is(err, device.ErrDevice) || !refusesStep(p, err, 90) {
		t.Errorf("the error is %v", err)
	}
	*groups = right
	if again := run(); !slices.Equal(again.Floats, recorded.Floats) {
		t.Errorf("after it: %v; want %v", again.Floats[:8], recorded.Floats[:8])
	}
}

// TestRefused checks that commands that the library rejects give an error that names the step, and the device remains
// usable.
func TestRefused(t *testing.T) {
	p := sums(t, 5, 1024)
	x := load(t, shared, p, nil)
	io := tensor.AlignedBytes(int(p.IOSize))
	run := func(o device.RunOptions) error {
		_, err := x.Run(context.Background(), device.Run{IO: io, Opts: o})
		return err
	}
	if err := run(device.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	groups := gpu.Inspect(x).Workgroups(2)
	right := *groups
	for _, o := range []device.RunOptions{{}, {CheckNaN: true}} {
		*groups = 1 << 31
		gpu.Inspect(x).Forget()
		if err := run(o); !errors.Is(err, device.ErrDevice) || !refusesStep(p, err, 2) {
			t.Errorf("%+v: the error is %v", o, err)
		}
		*groups = right
		if err := run(o); err != nil {
			t.Errorf("%+v: after it: %v", o, err)
		}
	}
}

// refusesStep reports whether err says that step i cannot be submitted.
func refusesStep(p *program.Program, err error, i int) bool {
	var at *device.AtNode
	return errors.As(err, &at) && at.Node == p.Steps[i].Node && strings.Contains(err.Error(), "cannot be submitted")
}
