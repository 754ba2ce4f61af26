package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FusedMatMulAttrs are the attributes of fused_matmul.
type FusedMatMulAttrs struct {
	Act         string `attr:"act"` // "" or an activation, with its attributes where it has any, such as leaky_relu(slope=0.01)
	TransA      bool   `attr:"trans_a"`
	TransB      bool   `attr:"trans_b"`
	HasBias     bool   `attr:"has_bias"`
	HasResidual bool   `attr:"has_residual"`
}

// MatMul returns the attributes of the product alone.
func (a FusedMatMulAttrs) MatMul() MatMulAttrs { return MatMulAttrs{a.TransA, a.TransB} }

// Bias returns the index of the bias operand, or -1.
func (a FusedMatMulAttrs) Bias() int {
	if a.HasBias {
		return 2
	}
	return -1
}

// Residual returns the index of the residual operand, or -1.
func (a FusedMatMulAttrs) Residual() int {
	switch {
	case !a.HasResidual:
		return -1
	case a.HasBias:
		return 3
	}
	return 2
}

// FusedMatMulDef defines a linear layer with its epilogue.
var FusedMatMulDef = ir.Define(ir.Def[FusedMatMulAttrs]{
	Name: "fused_matmul",
	Doc: "act(x . w + bias) + residual, with operands x, w, then bias [N] if has_bias, then residual (of the result's type) if " +
		"has_residual. The product is matmul's, batch broadcast included; nothing is rounded in between.",
	MinIn: 2, MaxIn: 4,
	InPlace: []int{2, 3}, // the residual: a bias never has the shape of the result
	Infer: func(s ir.Sig[FusedMatMulAttrs]) (ir.Type, error) {
		a, want := s.Attrs, 2
		if err := CheckActivation(a.Act); err != nil {
			return ir.Type{}, err
		}
		if a.HasBias {
			want++
		}
		if a.HasResidual {
			want++
		}
		if len(s.In) != want {
			return ir.Type{}, fmt.Errorf("%d operands; want %d for has_bias=%v and has_residual=%v", len(s.In), want, a.HasBias, a.HasResidual)
		}
		t, err := inferMatMul(a.MatMul(), s.In[0], s.In[1])
		if err == nil && a.HasBias {
			err = vectorOf("bias", s.In[a.Bias()], t.DType, t.Shape[t.Rank()-1])
		}
		if err == nil && a.HasResidual && !s.In[a.Residual()].Equal(t) {
			err = ir.TypesDiffer(s.In[a.Residual()], t, "residual is %v; want %v, the type of the product", s.In[a.Residual()], t)
		}
		return t, err
	},
	Eval: func(a FusedMatMulAttrs, in []*tensor.Array, out *tensor.Array) error {
		var residual []float64
		if a.HasResidual {
			residual = slices.Clone(in[a.Residual()].F) // the product may overwrite the residual
		}
		evalMatMul(a.MatMul(), in[0], in[1], out)
		if a.HasBias {
			bias := in[a.Bias()].F
			for i := range out.F {
				out.F[i] += bias[i%len(bias)]
			}
		}
		if def, attrs, _ := ParseActivation(a.Act); def != nil {
			// The product is not rounded before the activation.
			exact := &tensor.Array{Shape: out.Shape, F: out.F}
			if err := def.Eval(attrs, []*tensor.Array{exact}, exact); err != nil {
				return err
			}
		}
		for i, r := range residual {
			out.F[i] += r
		}
		return nil
	},
	Memory: func(s ir.Sig[FusedMatMulAttrs], out ir.Type) int64 {
		if !s.Attrs.HasResidual {
			return 0
		}
		return 8 * s.Syms.MaxElems(out)
	},
	FLOPs: func(a FusedMatMulAttrs, in []ir.Type, out ir.Type) int64 {
		return numel(out) * (2*depth(a.MatMul(), in[0]) + int64(len(in)-2))
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
			c(FusedMatMulAttrs{HasBias: true}, f32(1, 1), f32(1, 1), f32(1)),
			c(FusedMatMulAttrs{HasBias: true, TransB: true}, f32(2, 3, 65), f32(19, 65), f32(19)),
			c(FusedMatMulAttrs{HasBias: true, TransA: true}, f32(5, 3), f32(5, 7), f32(7)),
			c(FusedMatMulAttrs{HasResidual: true, TransB: true}, f32(3, 17), f32(5, 17), f32(3, 5)),
			c(FusedMatMulAttrs{HasBias: true, HasResidual: true, TransB: true, Act: "gelu"}, f32(2, 9, 33), f32(65, 33), f32(65), f32(2, 9, 65)),
			c(FusedMatMulAttrs{HasBias: true, TransB: true, Act: "relu"}, f32(0, 5), f32(3, 5), f32(3)),
			c(FusedMatMulAttrs{HasBias: true, Act: "silu"}, f32(3, 0), f32(0, 5), f32(5)),
			c(FusedMatMulAttrs{HasBias: true, TransB: true, Act: "gelu"}, f32(7, 16), bf16(9, 16), f32(9)),
			c(FusedMatMulAttrs{HasBias: true, TransB: true, Act: "gelu"}, f32(7, 16), f16(9, 16), f32(9)),
			c(FusedMatMulAttrs{HasBias: true, HasResidual: true}, f16(3, 5), f16(5, 7), f16(7), f16(3, 7)),
			c(FusedMatMulAttrs{HasBias: true}, f32(2, 1, 3, 4), f32(5, 4, 6), f32(6)),
		}
		for _, name := range append(Activations(), "") {
			act := name
			if def, ok := ir.Find(name); ok {
				act = FormatActivation(def, def.Cases()[0].Attrs)
			}
			cases = append(cases, c(FusedMatMulAttrs{Act: act, HasBias: true, TransB: true}, f32(5, 8), f32(9, 8), f32(9)))
		}
		return cases
	},
})

// FusedMatMul returns a node that computes act(x·w + bias) + residual. bias and residual may be nil. It sets has_bias and has_residual.
func FusedMatMul(x, w, bias, residual *ir.Node, attrs FusedMatMulAttrs) *ir.Node {
	attrs.HasBias, attrs.HasResidual = bias != nil, residual != nil
	return x.Graph.Add(FusedMatMulDef, attrs, ir.WithOptional(residual, ir.WithOptional(bias, x, w)...)...)
}

var _ = ir.Lower(FusedMatMulDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(FusedMatMulAttrs)
	y := MatMul(in[0], in[1], a.MatMul())
	if a.HasBias {
		y = Add(y, in[a.Bias()])
	}
	y = Activate(y, a.Act)
	if a.HasResidual {
		y = Add(y, in[a.Residual()])
	}
	return y
})
