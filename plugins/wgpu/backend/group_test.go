//go:build cgo && (darwin || amd64)

package backend

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestGroupedProducts checks that products of one row, with the norm before them and the multiplication after them,
// give the same result in one dispatch as in separate ones, which run when there are more rows.
func TestGroupedProducts(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 3, []struct {
		k        int64
		columns  []int64
		weights  []dtype.DType
		norm     bool
		bias     bool
		act      string
		multiply string // "mul", or a region
		add      bool
	}{
		{k: 384, columns: []int64{40, 8, 12}, weights: []dtype.DType{dtype.F32, dtype.BF16, dtype.F16}, norm: true,
			bias: true},
		{k: 1536, columns: []int64{2049, 3}, weights: []dtype.DType{dtype.BF16, dtype.BF16}, norm: true},
		{k: 2048, columns: []int64{37, 37}, weights: []dtype.DType{dtype.BF16, dtype.F32}, norm: true, act: "silu",
			multiply: "mul"},
		{k: 4100, columns: []int64{5, 5}, weights: []dtype.DType{dtype.F32, dtype.F16}, act: "gelu", multiply: "mul"},
		{k: 256, columns: []int64{6, 6}, weights: []dtype.DType{dtype.Q8_0, dtype.Q4_0}, norm: true,
			multiply: "v0=silu(i0); v1=mul(i1,v0)"},
		{k: 512, columns: []int64{33, 33}, weights: []dtype.DType{dtype.Q6_K, dtype.Q4_K},
			multiply: "v0=gelu_tanh(i1); v1=mul(v0,i0)"},
		{k: 512, columns: []int64{2049}, weights: []dtype.DType{dtype.Q5_K}, norm: true, add: true},
		{k: 1024, columns: []int64{3, 5, 2}, weights: []dtype.DType{dtype.Q4_1, dtype.Q5_0, dtype.Q8_0}, norm: true},
	}) {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g := ir.NewGraph("products", ir.Sym{Name: "T", Min: 1, Max: 3})
			rows := ir.MustDim("T")
			h := op.Input(g, "h", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), rows, ir.Static(c.k)}})
			x := h
			if c.norm {
				x = op.RmsNorm(h, op.Input(g, "gamma", ir.TypeOf(dtype.F32, c.k)),
					op.Input(g, "beta", ir.TypeOf(dtype.F32, c.k)), 1e-5)
			}
			var results []*ir.Node
			for i, n := range c.columns {
				w := op.Input(g, fmt.Sprint("w", i), ir.TypeOf(c.weights[i], n, c.k/int64(c.weights[i].Values())))
				if c.weights[i].IsPacked() {
					results = append(results, op.DequantMatMul(x, w, op.ActivationsF32))
					continue
				}
				a := op.FusedMatMulAttrs{TransB: true}
				if i == 1 {
					a.Act = c.act
				}
				var bias *ir.Node
				if c.bias {
					bias = op.Input(g, fmt.Sprint("bias", i), ir.TypeOf(dtype.F32, n))
				}
				results = append(results, op.FusedMatMul(x, w, bias, nil, a))
			}
			switch c.multiply {
			case "":
			case "mul":
				results = []*ir.Node{op.Mul(results[0], results[1])}
			default:
				results = []*ir.Node{
					g.Add(op.ElementwiseRegionDef, op.ElementwiseRegionAttrs{Expr: c.multiply}, results...)}
			}
			if c.add {
				results[0] = op.Add(op.Input(g, "r", results[0].Type), results[0])
			}
			for i, y := range results {
				g.Return(fmt.Sprint("y", i), y)
			}
			compareGrouped(t, g, 1e-5*math.Sqrt(float64(c.k)))
		})
	}
}

// TestGroupedRope checks that ropes and appends in one dispatch give the same results as separate ones.
func TestGroupedRope(t *testing.T) {
	for _, c := range devicetest.SomeOf(t, 2, []struct {
		name             string
		attrs            op.RopeAttrs
		heads, sequences int64
	}{
		{"base", op.RopeAttrs{HeadDim: 8, Style: "neox", Layout: op.BSE, Base: 1e4}, 3, 1},
		{"frequencies", op.RopeAttrs{HeadDim: 12, Rot: 4, Style: "gptj", Layout: op.BSE, Factor: 1.5}, 5, 1},
		{"single elements", op.RopeAttrs{HeadDim: 6, Style: "neox", Layout: op.BSE, Base: 1e4}, 3, 1},
		{"sequences", op.RopeAttrs{HeadDim: 8, Style: "neox", Layout: op.BSE, Base: 1e4}, 3, 2},
	}) {
		t.Run(c.name, func(t *testing.T) {
			g := ir.NewGraph("ropes", ir.Sym{Name: "T", Min: 1, Max: 3})
			rows, width := ir.MustDim("T"), int64(c.attrs.HeadDim)
			input := func(name string, heads int64) *ir.Node {
				return op.Input(
					g, name,
					ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(c.sequences), rows, ir.Static(heads * width)}})
			}
			q, k, v := input("q", c.heads), input("k", 2), input("v", 2)
			pos, room := op.Input(g, "pos", ir.TypeOf(dtype.I32)), int64(1)
			if c.sequences > 1 { // a place for each, and a cache with room for more
				pos, room = op.Add(op.Input(g, "each", ir.TypeOf(dtype.I32, c.sequences)),
					op.Neg(op.Iota(g, 0, ir.TypeOf(dtype.I32, c.sequences)))), c.sequences+1
			}
			o := op.RopeOperands{Position: pos}
			if c.attrs.Base == 0 {
				o.Frequencies = op.Input(g, "f", ir.TypeOf(dtype.F32, 2))
			}
			cache := func(name string) *ir.Node { return op.State(g, name, ir.TypeOf(dtype.F32, room, 5, 2*width), 0) }
			g.Return("q1", op.Rope(q, o, c.attrs))
			keys := op.KVAppend(cache("keys"), op.Rope(k, o, c.attrs), pos, 1)
			values := op.KVAppend(cache("values"), v, pos, 1)
			g.Return("keys1", op.Neg(keys))
			g.Return("values1", op.Neg(values))
			compareGrouped(t, g, 1e-5)
		})
	}
}

// compareGrouped compares a graph that has groups with the reference.
func compareGrouped(t *testing.T, g *ir.Graph, tolerance float64) {
	t.Helper()
	p, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	exe := load(t, shared, p, nil)
	if gpu.Inspect(exe).Groups() == 0 {
		t.Fatalf("no group in %d steps", len(p.Steps))
	}
	for rows := int64(1); rows <= 3; rows++ {
		syms, r := map[string]int64{"T": rows}, rand.New(rand.NewPCG(uint64(rows), 5))
		in := map[string]*tensor.Array{}
		for _, n := range p.Graph.Inputs() {
			a := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(syms)...)
			for i := range a.Floats {
				a.Floats[i] = float64(r.IntN(201)-100) / 128 // exact in bf16
			}
			for i := range a.Ints {
				a.Ints[i] = 2
			}
			if n.Type.DType.IsPacked() {
				quant.Random(a.Bytes, n.Type.DType, r.Uint32)
			}
			in[n.Name] = a
		}
		want, err := interp.Run(g, syms, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		var state []device.State
		if p.StateSize > 0 {
			s, err := shared.NewState(context.Background(), "", p.StateSize)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			state = append(state, s)
		}
		for name, got := range onDevice(t, exe, p, syms, in, state...) {
			for i, v := range got.Floats {
				if w := want[name].Floats[i]; !(math.Abs(v-w) <= tolerance*max(1, math.Abs(w))) {
					t.Fatalf("%d rows: %s[%d] is %v; want %v", rows, name, i, v, w)
				}
			}
		}
	}
}
