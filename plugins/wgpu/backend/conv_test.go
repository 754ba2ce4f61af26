//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// TestConvolutions compares the convolutions that are made as products with the reference in float64: blocks of 4 and
// of 16 channels, borders, strides, tiles that end early, and a NaN, which must stay where the reference has it.
func TestConvolutions(t *testing.T) {
	type pair = []int
	cases := []struct {
		x, w      []int64
		transpose bool
		bias      bool
		weight    dtype.DType
		stride    pair
		padding   pair
		dilation  pair
		tile      int // of kernels.Tiles, or -1: as the sizes choose
		layout    string
	}{
		{[]int64{1, 12, 11, 32}, []int64{20, 32, 3, 3}, false, false, dtype.F32, nil, pair{1, 1}, nil, -1, op.NHWC},
		{[]int64{2, 9, 14, 16}, []int64{132, 16, 3, 2}, false, true, dtype.F16, pair{2, 1}, pair{1, 0}, pair{1, 2}, 1,
			op.NHWC},
		{[]int64{1, 10, 7, 12}, []int64{8, 12, 2, 3}, false, true, dtype.F32, pair{1, 2}, pair{2, 1}, nil, 2, op.NHWC},
		{[]int64{1, 5, 6, 4}, []int64{4, 4, 1, 1}, false, true, dtype.BF16, nil, nil, nil, 3, op.NHWC},
		{[]int64{1, 9, 8, 16}, []int64{16, 20, 2, 2}, true, true, dtype.F32, pair{2, 2}, nil, nil, -1, op.NHWC},
		{[]int64{2, 5, 7, 12}, []int64{12, 4, 3, 1}, true, false, dtype.F16, pair{3, 1}, nil, nil, 1, op.NHWC},
		{[]int64{1, 4, 5, 8}, []int64{8, 4, 2, 3}, true, true, dtype.F32, pair{2, 3}, nil, nil, 3, op.NHWC},
		{[]int64{1, 45, 16}, []int64{20, 16, 5}, false, true, dtype.F32, pair{2}, pair{3}, nil, -1, op.NWC},
		{[]int64{1, 5, 6, 7, 8}, []int64{12, 8, 3, 2, 3}, false, true, dtype.F32, pair{1, 2, 1}, pair{1, 0, 1},
			pair{1, 2, 1}, -1, op.NDHWC},
		{[]int64{1, 3, 2, 5, 8}, []int64{8, 4, 2, 1, 3}, true, true, dtype.F32, pair{2, 1, 3}, nil, nil, 1, op.NDHWC},
		{[]int64{2, 8, 12, 11}, []int64{20, 8, 3, 3}, false, true, dtype.F32, nil, pair{1, 1}, nil, -1, op.NCHW},
		{[]int64{1, 16, 14, 9}, []int64{33, 16, 3, 2}, false, false, dtype.F16, pair{2, 1}, pair{1, 0}, pair{1, 2}, 1,
			op.NCHW},
		{[]int64{3, 4, 8, 8}, []int64{64, 4, 2, 2}, false, true, dtype.F32, pair{2, 2}, nil, nil, 5, op.NCHW},
		{[]int64{2, 4, 5, 6, 7}, []int64{9, 4, 3, 3, 3}, false, true, dtype.BF16, nil, pair{1, 1, 1}, nil, -1,
			op.NCDHW},
		{[]int64{2, 8, 5, 6, 8}, []int64{20, 8, 3, 3, 3}, false, true, dtype.F32, pair{1, 2, 1}, pair{1, 1, 1}, nil, -1,
			op.NCDHW},
		{[]int64{1, 32, 6, 16}, []int64{70, 32, 3, 3}, false, false, dtype.F32, pair{1, 2}, pair{2, 1}, pair{2, 1}, 1,
			op.NCHW},
		// so many pixels that weights are arranged
		{[]int64{2, 4, 70, 64}, []int64{5, 4, 3, 2}, false, true, dtype.F16, nil, pair{1, 1}, nil, -1, op.NCHW},
		{[]int64{1, 96, 90, 16}, []int64{4, 16, 2, 2}, false, false, dtype.F32, nil, pair{1, 1}, nil, -1, op.NHWC},
		// and x is copied
		{[]int64{2, 16, 70, 65}, []int64{5, 16, 3, 2}, false, true, dtype.F16, nil, pair{1, 2}, pair{2, 1}, -1,
			op.NCHW},
		{[]int64{1, 183, 95, 32}, []int64{4, 32, 2, 3}, false, true, dtype.F32, pair{2, 1}, pair{0, 1}, nil, -1,
			op.NHWC},
		{[]int64{1, 16, 5, 40, 45}, []int64{6, 16, 2, 3, 3}, false, false, dtype.F32, nil, pair{1, 0, 1}, nil, -1,
			op.NCDHW},
		{[]int64{2, 16, 67}, []int64{24, 16, 1}, false, true, dtype.F32, nil, nil, nil, -1, op.NCW},
	}
	for _, i := range devicetest.Some(t, 8, uint64(len(cases))) {
		c := cases[i]
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			g := ir.NewGraph("convolution")
			x, w := op.Input(g, "x", ir.TypeOf(dtype.F32, c.x...)), op.Input(g, "w", ir.TypeOf(c.weight, c.w...))
			var bias *ir.Node
			if c.bias {
				bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, c.w[0]))
				if c.transpose {
					bias.Type = ir.TypeOf(dtype.F32, c.w[1])
				}
			}
			def, attrs := []*ir.OpDef{op.Conv1DDef, op.Conv2DDef, op.Conv3DDef}[len(c.x)-3],
				any(op.ConvAttrs{Layout: c.layout, Stride: c.stride, Padding: c.padding, Dilation: c.dilation})
			if c.transpose {
				def, attrs = []*ir.OpDef{op.ConvTranspose1DDef, op.ConvTranspose2DDef,
					op.ConvTranspose3DDef}[len(c.x)-3], op.ConvTransposeAttrs{Layout: c.layout, Stride: c.stride}
			}
			operands := []*ir.Node{x, w}
			if bias != nil {
				operands = append(operands, bias)
			}
			y := g.Add(def, attrs, operands...)
			g.Return("y", y)
			p, _, err := sched.Build(g, sched.Options{Target: "portable"})
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(i, 7))
			in, list := map[string]*tensor.Array{}, []*tensor.Array{}
			for _, n := range p.Graph.Inputs() {
				a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
				for k := range a.Floats {
					a.Floats[k] = float64(r.IntN(201)-100) / 128 // exact in bf16
				}
				in[n.Name], list = a, append(list, a)
			}
			in["x"].Floats[len(in["x"].Floats)/2] = math.NaN()
			want := tensor.NewArray(dtype.F32, y.Type.Shape.Eval(nil)...)
			if err := y.Op.Eval(y.Attrs, list, want); err != nil {
				t.Fatal(err)
			}
			var opts Options
			if c.tile >= 0 {
				opts.Tile = &kernels.Tiles()[c.tile]
			}
			b := New(opts)
			got := onDevice(t, load(t, b, p, nil), p, nil, in)["y"].Floats
			for k, v := range got {
				if w := want.Floats[k]; math.IsNaN(w) != math.IsNaN(v) || math.Abs(v-w) > 1e-4 {
					t.Fatalf("element %d of %v is %v; want %v", k, y.Type, v, w)
				}
			}
		})
	}
}
