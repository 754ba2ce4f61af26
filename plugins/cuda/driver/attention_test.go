package driver

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// gridCase is a grid_attention of inputs.
type gridCase struct {
	batch, gh, gw, window, heads, d int
	rel                             bool
}

// TestGridAttention compares attention in windows at bf16 and f16 with its definition: windows that fill the grid,
// extend past its edge or are the whole grid, head dims that end within a tile, and terms for relative positions.
func TestGridAttention(t *testing.T) {
	for _, c := range []gridCase{
		{1, 16, 16, 8, 2, 64, true}, {2, 20, 17, 14, 3, 64, true}, {1, 16, 64, 0, 2, 64, true},
		{1, 64, 64, 0, 1, 64, true}, {1, 24, 24, 12, 2, 80, false}, {1, 9, 13, 0, 2, 128, true},
		{1, 30, 20, 9, 1, 16, true},
	} {
		for _, p := range halves {
			t.Run(fmt.Sprintf("%s/%+v", p, c), func(t *testing.T) { c.test(t, shared, p) })
		}
	}
}

// graph returns a graph of the attention and its inputs.
func (c gridCase) graph() (g *ir.Graph, y *ir.Node) {
	g = ir.NewGraph("grid")
	width := int64(3 * c.heads * c.d)
	typ := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }
	qkv := op.Input(g, "qkv", typ(int64(c.batch), int64(c.gh), int64(c.gw), width))
	pad := op.Input(g, "pad", typ(width))
	var rh, rw *ir.Node
	if c.rel {
		h, w := int64(c.gh), int64(c.gw)
		if c.window > 0 {
			h, w = int64(c.window), int64(c.window)
		}
		rh, rw = op.Input(g, "rh", typ(h, h, int64(c.d))), op.Input(g, "rw", typ(w, w, int64(c.d)))
	}
	y = g.Add(op.GridAttentionDef, op.GridAttentionAttrs{Heads: c.heads, Window: c.window}, qkv, pad, rh, rw)
	g.Return("y", y)
	return g, y
}

func (c gridCase) test(t *testing.T, on device.Backend, precision string) {
	g, y := c.graph()
	r := loadOn(t, on, g, precision)
	rng := rand.New(rand.NewPCG(uint64(c.d), uint64(c.gw)))
	in := make([]*tensor.Array, 4)
	for i, n := range r.program.Graph.Inputs() {
		in[i] = normal(rng, n.Type)
		if i > 1 {
			for k := range in[i].Floats {
				in[i].Floats[k] = float64(float32(0.1 * in[i].Floats[k]))
			}
		}
		r.set(n.Name, in[i])
	}
	compareAttention(t, r, y, in, precision)
}

// normal returns normally distributed values of a type.
func normal(rng *rand.Rand, typ ir.Type) *tensor.Array {
	a := tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
	for k := range a.Floats {
		a.Floats[k] = float64(float32(rng.NormFloat64()))
	}
	a.Round()
	return a
}

// compareAttention runs a program and compares its result with the definition of y, an attention.
func compareAttention(t *testing.T, r *graphRun, y *ir.Node, in []*tensor.Array, precision string) {
	t.Helper()
	want := tensor.NewArray(dtype.F32, y.Type.Shape.Eval(nil)...)
	if err := y.Op.Eval(y.Attrs, in, want); err != nil {
		t.Fatal(err)
	}
	got := r.run(t)
	size, wrong, worst := 0.0, 0.0, 0.0
	for i, v := range got.Floats {
		d := math.Abs(v - want.Floats[i])
		size, wrong, worst = size+want.Floats[i]*want.Floats[i], wrong+d*d, max(worst, d)
		if math.IsNaN(v) {
			t.Fatalf("y[%d] is NaN", i)
		}
	}
	relative := math.Sqrt(wrong / size)
	t.Logf("relative error %.2g, largest %.2g", relative, worst)
	if most := map[string]float64{"bf16": 1e-2, "f16": 1.25e-3, "f32": 1e-6}[precision]; wrong > 0 &&
		!(relative <= most) {
		t.Errorf("the error is %.3g of the result; want at most %v", relative, most)
	}
}

// BenchmarkGridAttention times the attention of ViT-B's encoder by the device's clock, with the first shaders alone:
// the rounding of q, k and v or their terms, and the terms for relative positions. With fma, there are two shaders.
func BenchmarkGridAttention(b *testing.B) {
	for i := range 6 {
		window, precision := int64(i%2*14), []string{"bf16", "f32", "fma"}[i/2]
		b.Run(fmt.Sprint(precision, "/window", window), func(b *testing.B) {
			const side, heads, d = 64, 12, 64
			g := ir.NewGraph("grid")
			typ := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }
			w := window
			if w == 0 {
				w = side
			}
			g.Return("y", g.Add(op.GridAttentionDef, op.GridAttentionAttrs{Heads: heads, Window: int(window)},
				op.Input(g, "qkv", typ(1, side, side, 3*heads*d)), op.Input(g, "pad", typ(3*heads*d)),
				op.Input(g, "rh", typ(w, w, d)), op.Input(g, "rw", typ(w, w, d))))
			before := 0.0
			names := []string{"rounding", "rows", "columns", "attention"}
			if precision == "fma" {
				names = []string{"terms", "attention"}
			}
			for i, name := range names {
				r := loadOn(b, gpu.New(timed(precision, i+1)), g, strings.Replace(precision, "fma", "f32", 1))
				rng := rand.New(rand.NewPCG(1, 2))
				for _, n := range r.program.Graph.Inputs() {
					x := tensor.NewArray(dtype.F32, n.Type.Shape.Eval(nil)...)
					for k := range x.Floats {
						x.Floats[k] = rng.Float64() - 0.5
					}
					r.set(n.Name, x)
				}
				r.run(b)
				best := fastest(b, r.exe)
				b.ReportMetric(1e6*(best-before), "us-"+name)
				before = best
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// timed returns a device on which only the first shaders of a program run, if few is not 0. Precision fma is f32
// without kernels for matrix units.
func timed(precision string, few int) *api {
	a := newAPI(openLibrary, cacheFolder())
	a.few = few
	if precision == "fma" {
		a.change = withoutMatrix
	}
	return a
}
