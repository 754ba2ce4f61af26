//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestTransfers checks that inputs and results of all sizes arrive, through one staging buffer and through several.
// Outputs that are not wanted stay as they are. If a step refuses a value, only that run fails.
func TestTransfers(t *testing.T) {
	const most = 15000
	g := ir.NewGraph("test", ir.Sym{Name: "N", Min: 1, Max: most})
	a := op.Input(g, "a", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(3)}})
	i := op.Input(g, "i", ir.TypeOf(dtype.I32, 1))
	b := op.Input(g, "b", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N")}})
	c := op.Input(g, "c", ir.TypeOf(dtype.F32, 1))
	table := op.Const(g, 7, ir.TypeOf(dtype.F32, 5, 1))
	for k, y := range []*ir.Node{op.Neg(a), op.Add(op.Gather(table, i, 0), c), op.Mul(b, c), op.Add(c, c), op.Mul(a, a),
		op.Add(a, a), op.Abs(a)} {
		g.Return(fmt.Sprint("y", k), y)
	}
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, limit := range []int64{0, 1 << 18} {
		e := load(t, New(Options{MaxBuffer: limit}), p, make([]byte, p.WeightsExtent()))
		buffers, _ := gpu.Inspect(e).Buffers()
		if limit > 0 && len(buffers) < count+4 { // two more for the io space, two more for results
			t.Fatalf("%d buffers, and %d with at most %d bytes each", count, len(buffers), limit)
		}
		count = len(buffers)
		for k, c := range []struct {
			n      int
			index  int32
			wanted []bool
			opts   device.RunOptions
		}{
			{n: most}, {n: most}, {n: 5}, {n: 5},
			{n: most, wanted: []bool{false, true, false, false, true, false, true}},
			{n: most, wanted: []bool{false, true, false, false, true, false, true}},
			{n: 5, index: 9}, {n: 5, index: 9}, {n: 5}, {n: most, index: -1},
			{n: most, opts: device.RunOptions{CheckNaN: true}},
			{n: 5000, opts: device.RunOptions{Profile: true}},
			{n: most, index: 5, opts: device.RunOptions{Profile: true}}, {n: 1, wanted: make([]bool, 7)}, {n: most},
		} {
			syms := map[string]int64{"N": int64(c.n)}
			bound, err := p.Bind(syms)
			if err != nil {
				t.Fatal(err)
			}
			io := tensor.AlignedBytes(int(p.IOSize))
			for i := range io {
				io[i] = 0x7b
			}
			at := func(o int64, n int) []float32 { return tensor.View[float32](io[o : o+4*int64(n)]) }
			x, y := at(bound.Inputs[0].Offset, 3*c.n), at(bound.Inputs[2].Offset, c.n)
			for i := range x {
				x[i] = float32(i%1000 + k)
			}
			for i := range y {
				y[i] = float32(i%99 - k)
			}
			tensor.View[int32](io[bound.Inputs[1].Offset:][:4])[0] = c.index
			s := float32(k + 1)
			at(bound.Inputs[3].Offset, 1)[0] = s
			_, err = e.Run(context.Background(), device.Run{Syms: syms, IO: io, Outputs: c.wanted, Opts: c.opts})
			if bad := c.index < 0 || c.index >= 5; bad != errors.Is(err, device.ErrInput) || !bad && err != nil {
				t.Fatalf("run %d: index %d: the error is %v", k, c.index, err)
			} else if bad {
				continue
			}
			for j, want := range []func(i int) float32{
				func(i int) float32 { return -x[i] }, func(int) float32 { return 7 + s },
				func(i int) float32 { return y[i] * s },
				func(int) float32 { return 2 * s }, func(i int) float32 { return x[i] * x[i] },
				func(i int) float32 { return 2 * x[i] }, func(i int) float32 { return max(x[i], -x[i]) },
			} {
				o := bound.Outputs[j]
				for i, got := range at(o.Offset, int(o.Bytes/4)) {
					if c.wanted != nil && !c.wanted[j] {
						if got == want(i) {
							t.Fatalf("run %d, N %d: y%d was not wanted and is there", k, c.n, j)
						}
					} else if got != want(i) {
						t.Fatalf("run %d, N %d: y%d[%d] is %v; want %v", k, c.n, j, i, got, want(i))
					}
				}
			}
		}
	}
}
