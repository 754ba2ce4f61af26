package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// LoraMatMulAttrs are the attributes of lora_matmul.
type LoraMatMulAttrs struct {
	Scale float64 `attr:"scale"`
}

// LoraMatMulDef defines a linear layer with a low-rank adapter. It is a block of three products. The last one adds the
// first.
var LoraMatMulDef = ir.Define(ir.Def[LoraMatMulAttrs]{
	Name:     "lora_matmul",
	Doc:      "Takes x [..,K], w [K,N], a [K,r] and b [r,N]. The result is x.w + scale (x.a).b, a linear layer with a low-rank adapter (Hu et al. 2021). Types are those of matmul.",
	Block:    true,
	Operands: "x, w, a, b",
	Infer: func(s ir.Sig[LoraMatMulAttrs]) (ir.Type, error) {
		if v := s.Attrs.Scale; math.IsNaN(v) || math.IsInf(v, 0) {
			return ir.Type{}, fmt.Errorf("scale is %v; want a finite number", v)
		}
		for i, name := range []string{"w", "a", "b"} {
			if t := s.In[i+1]; t.Rank() != 2 {
				return ir.Type{}, fmt.Errorf("%s is %v; want rank 2", name, t)
			}
		}
		out, err := inferMatMul(MatMulAttrs{}, s.In[0], s.In[1])
		if err != nil {
			return ir.Type{}, err
		}
		down, err := inferMatMul(MatMulAttrs{}, s.In[0], s.In[2])
		if err != nil {
			return ir.Type{}, err
		}
		up, err := inferMatMul(MatMulAttrs{}, down, s.In[3])
		if err == nil && !up.Equal(out) {
			err = ir.TypesDiffer(up, out, "x.a.b is %v and x.w %v; want one type", up, out)
		}
		return out, err
	},
	Eval: func(a LoraMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		low := tensor.NewArray(
			out.DType, append(append([]int{}, in[0].Shape[:len(in[0].Shape)-1]...), in[2].Shape[1])...)
		evalMatMul(MatMulAttrs{}, in[0], in[2], low)
		evalMatMul(MatMulAttrs{}, low, in[3], out)
		adapter := append([]float64{}, out.Floats...)
		evalMatMul(MatMulAttrs{}, in[0], in[1], out)
		for i, v := range adapter {
			out.Floats[i] += a.Scale * v
		}
		return nil
	},
	Memory: func(s ir.Sig[LoraMatMulAttrs], out ir.Type) int64 {
		low := ir.Type{DType: out.DType,
			Shape: append(append(ir.Shape{}, out.Shape[:out.Rank()-1]...), s.In[2].Shape[1])}
		return 8 * (s.Syms.MaxElems(out) + s.Syms.MaxElems(low))
	},
	FLOPs: func(_ LoraMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		k, r, n := in[2].Shape[0].Const, in[2].Shape[1].Const, in[1].Shape[1].Const
		return 2 * numel(out) / max(n, 1) * (k*n + k*r + r*n)
	},
	Tol: func(_ LoraMatMulAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		t := summed(out.DType, in[2].Shape[0].Const*max(1, in[2].Shape[1].Const))
		if !out.DType.IsFloat() || out.DType.Size() < 4 { // x.a and x.w are rounded in between
			t.Abs += 4 * t.Rel
		}
		return t
	},
	Cases: func() []ir.Case[LoraMatMulAttrs] {
		c := func(scale float64, x, w, a, b ir.Type) ir.Case[LoraMatMulAttrs] {
			return ir.Case[LoraMatMulAttrs]{Attrs: LoraMatMulAttrs{scale}, In: []ir.Type{x, w, a, b}}
		}
		return []ir.Case[LoraMatMulAttrs]{
			c(1, f32(1, 1), f32(1, 1), f32(1, 1), f32(1, 1)), c(0.5, f32(3, 7), f32(7, 5), f32(7, 2), f32(2, 5)),
			c(2, f32(2, 3, 9), f32(9, 5), f32(9, 4), f32(4, 5)),
			c(0.25, f32(0, 7), f32(7, 5), f32(7, 2), f32(2, 5)), c(1, f32(3, 7), f32(7, 5), f32(7, 0), f32(0, 5)),
			c(0.5, f64(3, 7), f64(7, 5), f64(7, 2), f64(2, 5)),
			c(0.5, f32(3, 7), bf16(7, 5), f32(7, 2), f32(2, 5)),
		}
	},
})

var _ = ir.Lower(LoraMatMulDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	low := MatMul(in[0], in[2], MatMulAttrs{})
	low = Mul(low, number(n.Attrs.(LoraMatMulAttrs).Scale, low))
	return Add(MatMul(low, in[3], MatMulAttrs{}), MatMul(in[0], in[1], MatMulAttrs{}))
})

// LoraMatMul returns a node that computes x·w + scale (x·a)·b.
func LoraMatMul(x, w, a, b *ir.Node, scale float64) *ir.Node {
	return x.Graph.Add(LoraMatMulDef, LoraMatMulAttrs{scale}, x, w, a, b)
}
