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
// of 16 channels, borders, strides, tiles that end early, and a NaN, which must stay where the reference has it. Every
// other one has an infinite weight, which the padding must not meet.
func TestConvolutions(t *testing.T) {
	type pair = []int
	cases := []convolution{
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
		// K is divided into parts
		{[]int64{1, 192, 7, 7}, []int64{20, 192, 3, 3}, false, true, dtype.F32, nil, pair{1, 1}, nil, -1, op.NCHW},
		{[]int64{3, 260, 4, 5}, []int64{9, 260, 2, 2}, false, false, dtype.F32, nil, nil, nil, -1, op.NCHW},
		{[]int64{2, 7, 5, 260}, []int64{20, 260, 3, 3}, false, true, dtype.F32, pair{2, 1}, pair{1, 1}, nil, -1,
			op.NHWC},
		{[]int64{2, 1024, 6}, []int64{12, 1024, 1}, false, true, dtype.F16, nil, nil, nil, -1, op.NCW},
		// more taps than a word has bits
		{[]int64{1, 8, 50}, []int64{12, 8, 35}, false, true, dtype.F32, nil, pair{17}, nil, -1, op.NCW},
		{[]int64{2, 41, 12}, []int64{16, 12, 37}, false, false, dtype.F32, pair{2}, pair{18}, nil, -1, op.NWC},
		// x is a matrix
		{[]int64{2, 20, 6, 6}, []int64{24, 20, 1, 1}, false, true, dtype.F16, nil, nil, nil, -1, op.NCHW},
		{[]int64{2, 5, 3, 20}, []int64{24, 20, 1, 1}, false, true, dtype.F32, nil, nil, nil, -1, op.NHWC},
		// one pixel
		{[]int64{1, 40, 1, 1}, []int64{10, 40, 1, 1}, false, true, dtype.F32, nil, nil, nil, -1, op.NCHW},
		{[]int64{3, 10, 1}, []int64{33, 10, 1}, false, false, dtype.F32, nil, nil, nil, -1, op.NCW},
		{[]int64{2, 4, 3, 2}, []int64{12, 4, 3, 2}, false, true, dtype.F16, nil, nil, nil, -1, op.NCHW},
		{[]int64{100, 1, 1, 64}, []int64{8, 64, 1, 1}, false, true, dtype.F32, nil, nil, nil, -1, op.NHWC},
		// few channels for each of several groups: one element after another
		{[]int64{2, 6, 9, 8}, []int64{12, 2, 3, 3}, false, true, dtype.F32, nil, pair{1, 1}, nil, -1, op.NCHW},
		{[]int64{2, 6, 5, 16}, []int64{16, 1, 3, 3}, false, true, dtype.F32, nil, pair{1, 1}, nil, -1, op.NHWC},
		{[]int64{2, 6, 5, 16}, []int64{24, 8, 3, 2}, false, true, dtype.F32, pair{2, 1}, pair{1, 0}, nil, -1, op.NHWC},
		{[]int64{1, 5, 4, 9}, []int64{12, 3, 3, 3}, false, false, dtype.F32, nil, pair{1, 1}, pair{1, 2}, -1, op.NHWC},
		{[]int64{2, 19, 3}, []int64{8, 3, 5}, false, true, dtype.F32, pair{2}, pair{2}, nil, -1, op.NWC},
	}
	for _, i := range devicetest.Some(t, 3, uint64(len(cases))) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { cases[i].check(t, i, "", false, false, false) })
		if !cases[i].transpose {
			act := []string{"relu", "", "silu", "leaky_relu(slope=0.25)"}[i%4]
			t.Run(fmt.Sprint(i, " fused"), func(t *testing.T) { cases[i].check(t, i, act, i%2 == 1, i%3 != 0, true) })
		}
	}
}

// convolution is a convolution of a test.
type convolution struct {
	x, w      []int64
	transpose bool
	bias      bool
	weight    dtype.DType
	stride    []int
	padding   []int
	dilation  []int
	tile      int // of kernels.Tiles, or -1: as the sizes choose
	layout    string
}

// build returns the graph of a convolution, or of a fused one if anything follows it. The weight is an input or, if it
// is fixed and of f32, a weight.
func (c convolution) build(act string, addend, residual, fixed bool) (g *ir.Graph, y *ir.Node) {
	g = ir.NewGraph("convolution")
	source := op.Input
	if fixed && c.weight == dtype.F32 {
		source = op.Param
	}
	x, w := op.Input(g, "x", ir.TypeOf(dtype.F32, c.x...)), source(g, "w", ir.TypeOf(c.weight, c.w...))
	var bias *ir.Node
	if c.bias {
		bias = op.Input(g, "bias", ir.TypeOf(dtype.F32, c.w[0]))
		if c.transpose {
			bias.Type = ir.TypeOf(dtype.F32, c.w[1])
		}
	}
	if c.transpose {
		def := []*ir.OpDef{op.ConvTranspose1DDef, op.ConvTranspose2DDef, op.ConvTranspose3DDef}[len(c.x)-3]
		y = g.Add(def, op.ConvTransposeAttrs{Layout: c.layout, Stride: c.stride}, x, w, bias)
		g.Return("y", y)
		return g, y
	}
	groups := c.x[1] / c.w[1]
	if c.layout[len(c.layout)-1] == 'C' || c.layout[len(c.layout)-1] == 'c' {
		groups = c.x[len(c.x)-1] / c.w[1]
	}
	a := op.ConvAttrs{Layout: c.layout, Stride: c.stride, Padding: c.padding, Dilation: c.dilation, Groups: int(groups)}
	y = g.Add([]*ir.OpDef{op.Conv1DDef, op.Conv2DDef, op.Conv3DDef}[len(c.x)-3], a, x, w, bias)
	if act != "" || addend || residual {
		t := y.Type
		var more [2]*ir.Node
		for k, has := range []bool{addend, residual} {
			if has {
				more[k] = op.Input(g, []string{"addend", "residual"}[k], t)
			}
		}
		y = op.FusedConv(x, w, bias, more[0], more[1], a.Fused(act))
	}
	g.Return("y", y)
	return g, y
}

// check compares a convolution with the reference.
func (c convolution) check(t *testing.T, seed uint64, act string, addend, residual, fixed bool) {
	g, y := c.build(act, addend, residual, fixed)
	p, _, err := sched.Build(
		g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 7))
	in, list := map[string]*tensor.Array{}, make([]*tensor.Array, len(y.In))
	for k, n := range y.Operands() {
		a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		for k := range a.Floats {
			a.Floats[k] = float64(r.IntN(201)-100) / 128 // exact in bf16
		}
		in[n.Name], list[k] = a, a
	}
	in["x"].Floats[len(in["x"].Floats)/2] = math.NaN()
	if seed%2 == 0 {
		in["w"].Floats[0] = math.Inf(1)
	}
	want := tensor.NewArray(dtype.F32, y.Type.Shape.Eval(nil)...)
	if err := y.Op.Eval(y.Attrs, list, want); err != nil {
		t.Fatal(err)
	}
	var opts Options
	if c.tile >= 0 {
		opts.Tile = &kernels.Tiles()[c.tile]
	}
	var weights []byte
	if len(g.Params()) > 0 {
		weights = tensor.AlignedBytes(int(p.WeightsExtent()))
		for k, v := range in["w"].Floats {
			tensor.View[float32](weights)[k] = float32(v)
		}
		delete(in, "w")
	}
	b := New(opts)
	got := onDevice(t, load(t, b, p, weights), p, nil, in)["y"].Floats
	for k, v := range got {
		w := want.Floats[k]
		if w == v || math.IsNaN(w) && math.IsNaN(v) {
			continue
		}
		if !(math.Abs(v-w) <= 1e-4) {
			t.Fatalf("element %d of %v is %v; want %v", k, y.Type, v, w)
		}
	}
}
