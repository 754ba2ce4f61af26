package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// SchemePacked is the scheme of weights of a packed type.
const SchemePacked = "packed"

// DequantMatMulAttrs are the attributes of dequant_matmul.
type DequantMatMulAttrs struct {
	Scheme      string `attr:"scheme"`
	Block       int    `attr:"block"`       // rows of w that share a scale: int8, int8_asym, int4
	Activations string `attr:"activations"` // ActivationsF32 or ActivationsQ8
}

// Optional operands of dequant_matmul.
const (
	DequantMatMulScale = 2 + iota
	DequantMatMulZero
	DequantMatMulGlobal
)

// DequantMatMulDef multiplies by weights that are stored in a few bits each.
var DequantMatMulDef = ir.Define(ir.Def[DequantMatMulAttrs]{
	Name: "dequant_matmul", Packed: true,
	Doc: "The product of x (f32[..,k]) and quantised weights, f32[..,n]. scheme says how these are stored. \"packed\": w is [n,k/32] or [n,k/256] of a packed type, and the product x . w^T. " +
		"All others have w [k,n], k and n static, and scales for each block of rows, [ceil(k/block),n], or each column, [n]: " +
		"\"int8\" (w i8, scale f32): w scale. \"int8_asym\" (w i8, scale f32, zero f32): (w - zero) scale. \"int4\" (w u8[ceil(k n/2)], scale f32): " +
		"two's complement, weight i of k n in half i%2 of byte i/2, the low half first. \"fp8_e4m3\", \"fp8_e5m2\" (w u8, scale f32[n] or left out): OCP's 8-bit floats. " +
		"\"nvfp4\" (w as int4, scale u8[ceil(k/16),n], global f32[]): E2M1 times a scale in E4M3 times global. " +
		activationsDoc,
	Operands: "x, w, scale?, zero?, global?",
	Infer: func(s ir.Sig[DequantMatMulAttrs]) (ir.Type, error) {
		a, x, w := s.Attrs, s.In[0], s.In[1]
		if err := checkActivations(a.Activations); err != nil {
			return ir.Type{}, err
		}
		if x.DType != dtype.F32 || x.Rank() == 0 {
			return ir.Type{}, fmt.Errorf("x is %v; want f32 of rank 1 or more", x)
		}
		for k, t := range s.In[2:] {
			name := dequantNames[k]
			if t.DType.IsPacked() {
				return ir.Type{}, fmt.Errorf("%s is %v; want a type that is not packed", name, t)
			}
			if a.Scheme == SchemePacked && t.Present() {
				return ir.Type{}, fmt.Errorf("has an operand %s; want none with scheme %q", name, a.Scheme)
			}
		}
		k := x.Shape[x.Rank()-1]
		lead := x.Shape[:x.Rank()-1]
		if a.Scheme != SchemePacked {
			scheme, ok := weightSchemes[a.Scheme]
			if !ok {
				return ir.Type{},
					fmt.Errorf("scheme is %q; want packed, int8, int8_asym, int4, fp8_e4m3, fp8_e5m2 or nvfp4",
						a.Scheme)
			}
			n, err := scheme.check(a, s.In, k)
			return ir.Type{DType: x.DType, Shape: slices.Concat(lead, ir.Shape{n})}, err
		}
		depth, err := packedDepth("w", w)
		switch {
		case err != nil:
			return ir.Type{}, err
		case a.Block != 0 || w.Rank() != 2:
			return ir.Type{}, fmt.Errorf("w is %v and block %d; want w of rank 2 and block 0 with scheme %q", w,
				a.Block, a.Scheme)
		case k != depth:
			return ir.Type{}, ir.Differ(k, depth, "x is %v and w %v, of rows of %v; want equal sizes to sum over", x, w,
				depth)
		}
		return ir.Type{DType: x.DType, Shape: slices.Concat(lead, w.Shape[:1])}, nil
	},
	Eval: func(a DequantMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, n := in[0], out.Shape[len(out.Shape)-1]
		k := x.Shape[len(x.Shape)-1]
		values, weights, buf := rounded8(x, k, a.Activations), make([]float64, k), make([]float32, k)
		scheme := weightSchemes[a.Scheme]
		for j := range n {
			if a.Scheme == SchemePacked {
				packedRow(weights, buf, in[1], j)
			} else {
				scheme.column(weights, a, in, j, n)
			}
			for m := range out.Len() / n {
				out.Floats[m*n+j] = dot(values[m*k:(m+1)*k], weights, k)
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[DequantMatMulAttrs], _ ir.Type) int64 {
		return dequantMemory(s.Syms, s.In[0], s.Attrs.Activations)
	},
	FLOPs: func(_ DequantMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		return 2 * numel(out) * in[0].Shape[in[0].Rank()-1].Const
	},
	Tol: func(_ DequantMatMulAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, in[0].Shape[in[0].Rank()-1].Const)
	},
	Cases: func() []ir.Case[DequantMatMulAttrs] {
		c := func(scheme string, block int, in ...ir.Type) ir.Case[DequantMatMulAttrs] {
			return ir.Case[DequantMatMulAttrs]{Attrs: DequantMatMulAttrs{scheme, block, ActivationsF32}, In: in}
		}
		var cases []ir.Case[DequantMatMulAttrs]
		for i, d := range dtype.Packed() { // one row, few and many
			blocks := int64(2)
			if d.Values() == 32 {
				blocks = 9
			}
			k := blocks * int64(d.Values())
			for _, t := range []ir.Type{f32(k), f32(2, int64(i%3+1), k), f32(33, k)} {
				cases = append(cases, c(SchemePacked, 0, t, ir.TypeOf(d, int64(13+5*(i%3)), blocks)))
			}
		}
		cases = append(cases, c(SchemePacked, 0, f32(0, 64), ir.TypeOf(dtype.Q4_0, 3, 2)),
			c(SchemePacked, 0, f32(2, 0), ir.TypeOf(dtype.Q8_0, 3, 0)),
			c(SchemePacked, 0, f32(2, 256), ir.TypeOf(dtype.Q4_K, 0, 1)))
		for i := range cases {
			if i%3 != 2 {
				cases = append(cases, cases[i])
				cases[len(cases)-1].Attrs.Activations = ActivationsQ8
			}
		}
		cases = append(cases, c("int8", 8, f32(3, 20), i8(20, 7), f32(3, 7)),
			c("int8", 32, f32(64), i8(64, 33), f32(2, 33)),
			c("int8_asym", 8, f32(3, 20), i8(20, 7), f32(3, 7), f32(3, 7)), c("int4", 4, f32(3, 5), u8(18), f32(2, 7)),
			c("int4", 32, f32(2, 96), u8(1584), f32(3, 33)),
			c("fp8_e4m3", 0, f32(3, 20), u8(20, 7)), c("fp8_e4m3", 0, f32(2, 2, 20), u8(20, 7), f32(7)),
			c("fp8_e5m2", 0, f32(20), u8(20, 7), f32(7)), c("fp8_e5m2", 0, f32(3, 20), u8(20, 7)),
			c("nvfp4", 0, f32(3, 40), u8(140), u8(3, 7), ir.Type{}, f32()),
			c("nvfp4", 0, f32(16), u8(8), u8(1, 1), ir.Type{}, f32()))
		for i := range cases {
			bytes := ir.Range{Lo: 0, Hi: 0x60} // no NaN
			switch cases[i].Attrs.Scheme {
			case "int8", "int8_asym":
				cases[i].Fill = []ir.Range{{Lo: -2, Hi: 2}, {Lo: -128, Hi: 127}, {Lo: -0.01, Hi: 0.01}, {Lo: -3, Hi: 3}}
			case "int4":
				cases[i].Fill = []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0, Hi: 255}, {Lo: -0.3, Hi: 0.3}}
			case "fp8_e4m3", "fp8_e5m2":
				cases[i].Fill = []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0x20, Hi: 0x44}, {Lo: -1, Hi: 1}}
			case "nvfp4":
				cases[i].Fill = []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0, Hi: 255}, bytes, {}, {Lo: -0.1, Hi: 0.1}}
			}
		}
		return cases
	},
})

// DequantMatMul adds the product of x and packed weights w [n,k/32] or [n,k/256].
func DequantMatMul(x, w *ir.Node, activations string) *ir.Node {
	return x.Graph.Add(DequantMatMulDef, DequantMatMulAttrs{Scheme: SchemePacked, Activations: activations}, x, w)
}

// Only x has a gradient: dy times the weights. Those whose scales are separate are decoded first. Rounding the
// activations counts as the identity.
var _ = gradient(DequantMatMulDef, func(n *ir.Node, a DequantMatMulAttrs, dy *ir.Node) []*ir.Node {
	g, x, w := n.Graph, n.In[0], n.In[1]
	dx := []*ir.Node{nil, nil, ir.NoGradient, ir.NoGradient, ir.NoGradient}
	if a.Scheme == SchemePacked {
		dx[0] = DequantMatMulBackward(dy, w)
		return dx
	}
	lead := dy
	if dy.Type.Rank() == 1 {
		lead = Reshape(dy, ir.Shape{ir.Static(1), dy.Type.Shape[0]})
	}
	// the product with the unit matrix is the weights
	k := x.Type.Shape[x.Type.Rank()-1]
	in := append([]*ir.Node{unitMatrix(g, k)}, n.In[1:]...)
	columns := g.Add(DequantMatMulDef, DequantMatMulAttrs{a.Scheme, a.Block, ActivationsF32}, in...)
	dx[0] = Reshape(MatMul(lead, columns, MatMulAttrs{TransB: true}), x.Type.Shape)
	return dx
})

// unitMatrix returns the unit matrix f32[n,n].
func unitMatrix(g *ir.Graph, n ir.Dim) *ir.Node {
	row := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{n, ir.Static(1)}})
	column := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{n}})
	return Cast(Eq(row, column), dtype.F32)
}
