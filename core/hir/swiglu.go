package hir

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// SwiGLUDef is the gated feed-forward block of Llama and its relatives (Shazeer 2020, arXiv:2002.05202).
var SwiGLUDef = ir.Define(ir.Def[op.NoAttrs]{
	Name: "swiglu", Operands: "x, up_w, gate_w, down_w, up_b?, gate_b?, down_b?", Block: true,
	Doc: "(up∘silu(gate))·downᵀ over the last axis, with up = x·up_wᵀ and gate = x·gate_wᵀ. Operands: x [..., in], up_w and gate_w [hidden, in], " +
		"down_w [out, hidden]; if they are given, up_b and gate_b [hidden] and down_b [out] are added to their products.",
	Infer: func(s ir.Sig[op.NoAttrs]) (ir.Type, error) {
		x := s.In[0]
		up, err := matrix("up_w", s.In[1], channels(x))
		if err != nil {
			return ir.Type{}, err
		}
		gate, err := matrix("gate_w", s.In[2], channels(x))
		if err == nil && gate != up {
			err = ir.Differ(gate, up, "up_w is %v and gate_w %v; want as many rows", s.In[1], s.In[2])
		}
		if err != nil {
			return ir.Type{}, err
		}
		out, err := matrix("down_w", s.In[3], up)
		for i, name := range []string{"up_b", "gate_b", "down_b"} {
			if b := s.In[4+i]; err == nil && b.Present() {
				err = vector(name, b, []ir.Dim{up, gate, out}[i])
			}
		}
		if err != nil {
			return ir.Type{}, err
		}
		return ir.Type{DType: x.DType, Shape: last(x.Shape, out)}, nil
	},
})

var _ = ir.Lower(SwiGLUDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	up := part(n, "up", Linear(in[0], in[1], in[4], ""))
	gate := part(n, "gate", Linear(in[0], in[2], in[5], "silu"))
	return Linear(part(n, "hidden", op.Mul(up, gate)), in[3], in[6], "")
})

// SwiGLU adds (up∘silu(gate))·downᵀ. The biases of the projections may be nil.
func SwiGLU(x *ir.Node, up, gate, down Projection) *ir.Node {
	return x.Graph.Add(SwiGLUDef, op.NoAttrs{}, x, up.Weight, gate.Weight, down.Weight, up.Bias, gate.Bias, down.Bias)
}
