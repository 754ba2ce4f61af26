package op

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FusedMatMulAttrs are the attributes of fused_matmul.
type FusedMatMulAttrs struct {
	// "" or an activation with its attributes, if it has any, such as leaky_relu(slope=0.01)
	Act    string `attr:"act"`
	TransA bool   `attr:"trans_a"`
	TransB bool   `attr:"trans_b"`
}

// Optional operands of fused_matmul.
const (
	FusedMatMulBias = 2 + iota
	FusedMatMulResidual
)

// MatMul returns the attributes of the product alone.
func (a FusedMatMulAttrs) MatMul() MatMulAttrs { return MatMulAttrs{a.TransA, a.TransB} }

// FusedMatMulDef defines a linear layer with its epilogue.
var FusedMatMulDef = ir.Define(ir.Def[FusedMatMulAttrs]{
	Name: "fused_matmul",
	Doc: "act(x . w + bias) + residual, with bias [N] and residual (of the result's type) if they are given. The product is matmul's, batch " +
		"broadcast included; nothing is rounded in between.",
	Operands: "x, w, bias?, residual?",
	InPlace:  []int{FusedMatMulResidual},
	Infer: func(s ir.Sig[FusedMatMulAttrs]) (ir.Type, error) {
		if err := CheckActivation(s.Attrs.Act); err != nil {
			return ir.Type{}, err
		}
		bias, residual := s.In[FusedMatMulBias], s.In[FusedMatMulResidual]
		t, err := inferMatMul(s.Attrs.MatMul(), s.In[0], s.In[1])
		if err == nil && bias.Present() {
			err = vectorOf("bias", bias, t.DType, t.Shape[t.Rank()-1])
		}
		if err == nil && residual.Present() && !residual.Equal(t) {
			err = ir.TypesDiffer(residual, t, "residual is %v; want %v, the type of the product", residual, t)
		}
		return t, err
	},
	Eval: func(a FusedMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		var residual []float64
		if r := in[FusedMatMulResidual]; r != nil {
			residual = slices.Clone(r.Floats) // the product may overwrite the residual
		}
		evalMatMul(a.MatMul(), in[0], in[1], out)
		if bias := in[FusedMatMulBias]; bias != nil {
			for i := range out.Floats {
				out.Floats[i] += bias.Floats[i%len(bias.Floats)]
			}
		}
		if def, attrs, _ := ParseActivation(a.Act); def != nil {
			// The product is not rounded before the activation.
			exact := &tensor.Array{Shape: out.Shape, Floats: out.Floats}
			if err := def.Eval(attrs, []*tensor.Array{exact}, exact); err != nil {
				return err
			}
		}
		for i, r := range residual {
			out.Floats[i] += r
		}
		return nil
	},
	Memory: func(s ir.Sig[FusedMatMulAttrs], out ir.Type) int64 {
		if !s.In[FusedMatMulResidual].Present() {
			return 0
		}
		return 8 * s.Syms.MaxElems(out)
	},
	FLOPs: func(a FusedMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		return numel(
			out) * (2*depth(a.MatMul(), in[0]) +
			int64(btoi(in[FusedMatMulBias].Present())+btoi(in[FusedMatMulResidual].Present())))
	},
	Tol: func(a FusedMatMulAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, depth(a.MatMul(), in[0]))
	},
	Cases: func() []ir.Case[FusedMatMulAttrs] {
		c := func(a FusedMatMulAttrs, in ...ir.Type) ir.Case[FusedMatMulAttrs] {
			return ir.Case[FusedMatMulAttrs]{Attrs: a, In: in}
		}
		cases := []ir.Case[FusedMatMulAttrs]{
			c(FusedMatMulAttrs{}, f32(3, 5), f32(5, 7)),
			c(FusedMatMulAttrs{}, f32(1, 1), f32(1, 1), f32(1)),
			c(FusedMatMulAttrs{TransB: true}, f32(2, 3, 65), f32(19, 65), f32(19)),
			c(FusedMatMulAttrs{TransA: true}, f32(5, 3), f32(5, 7), f32(7)),
			c(FusedMatMulAttrs{TransB: true}, f32(3, 17), f32(5, 17), ir.Type{}, f32(3, 5)),
			c(FusedMatMulAttrs{TransB: true, Act: "gelu"}, f32(2, 9, 33), f32(65, 33), f32(65), f32(2, 9, 65)),
			c(FusedMatMulAttrs{TransB: true, Act: "relu"}, f32(0, 5), f32(3, 5), f32(3)),
			c(FusedMatMulAttrs{Act: "silu"}, f32(3, 0), f32(0, 5), f32(5)),
			c(FusedMatMulAttrs{TransB: true, Act: "gelu"}, f32(7, 16), bf16(9, 16), f32(9)),
			c(FusedMatMulAttrs{TransB: true, Act: "gelu"}, f32(7, 16), f16(9, 16), f32(9)),
			c(FusedMatMulAttrs{}, f16(3, 5), f16(5, 7), f16(7), f16(3, 7)),
			c(FusedMatMulAttrs{}, f32(2, 1, 3, 4), f32(5, 4, 6), f32(6)),
		}
		for _, name := range append(Activations(), "") {
			act := name
			if def, ok := ir.Find(name); ok {
				act = FormatActivation(def, def.Cases()[0].Attrs)
			}
			cases = append(cases, c(FusedMatMulAttrs{Act: act, TransB: true}, f32(5, 8), f32(9, 8), f32(9)))
		}
		return cases
	},
})

// FusedMatMul returns a node that computes act(x·w + bias) + residual. bias and residual may be nil.
func FusedMatMul(x, w, bias, residual *ir.Node, attrs FusedMatMulAttrs) *ir.Node {
	return x.Graph.Add(FusedMatMulDef, attrs, x, w, bias, residual)
}

var _ = ir.Lower(FusedMatMulDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(FusedMatMulAttrs)
	y := MatMul(in[0], in[1], a.MatMul())
	if bias := in[FusedMatMulBias]; bias != nil {
		y = Add(y, bias)
	}
	y = Activate(y, a.Act)
	if residual := in[FusedMatMulResidual]; residual != nil {
		y = Add(y, residual)
	}
	return y
})
