package hir

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// SwiGLUAttrs are the attributes of swiglu.
type SwiGLUAttrs struct {
	HasBias bool `attr:"has_bias"`
}

// SwiGLUDef is the gated feed-forward block of Llama and its relatives (Shazeer 2020, arXiv:2002.05202).
var SwiGLUDef = ir.Define(ir.Def[SwiGLUAttrs]{
	Name: "swiglu", MinIn: 4, MaxIn: 7, Block: true,
	Doc: "(up∘silu(gate))·downᵀ over the last axis, with up = x·up_wᵀ and gate = x·gate_wᵀ. Operands: x [..., in], up_w and gate_w [hidden, in], " +
		"down_w [out, hidden]; with has_bias then up_b and gate_b [hidden] and down_b [out], each added to its product.",
	Infer: func(s ir.Sig[SwiGLUAttrs]) (ir.Type, error) {
		x, want := s.In[0], 4
		if s.Attrs.HasBias {
			want = 7
		}
		if len(s.In) != want {
			return ir.Type{}, operandCount(len(s.In), s.Attrs.HasBias, want)
		}
		up, err := matrix("up weight", s.In[1], channels(x))
		if err != nil {
			return ir.Type{}, err
		}
		gate, err := matrix("gate weight", s.In[2], channels(x))
		if err == nil && gate != up {
			err = ir.Differ(gate, up, "up weight is %v and gate weight %v; want as many rows", s.In[1], s.In[2])
		}
		if err != nil {
			return ir.Type{}, err
		}
		out, err := matrix("down weight", s.In[3], up)
		for i, name := range []string{"up bias", "gate bias", "down bias"} {
			if err == nil && s.Attrs.HasBias {
				err = vector(name, s.In[4+i], []ir.Dim{up, gate, out}[i])
			}
		}
		if err != nil {
			return ir.Type{}, err
		}
		return ir.Type{DType: x.DType, Shape: last(x.Shape, out)}, nil
	},
})

var _ = ir.Lower(SwiGLUDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	var b [3]*ir.Node
	copy(b[:], in[4:])
	up := part(n, "up", Linear(in[0], in[1], b[0], ""))
	gate := part(n, "gate", Linear(in[0], in[2], b[1], "silu"))
	return Linear(part(n, "hidden", op.Mul(up, gate)), in[3], b[2], "")
})

// SwiGLU adds (up∘silu(gate))·downᵀ. The biases of the three projections are either all given or all nil.
func SwiGLU(x *ir.Node, up, gate, down Projection) *ir.Node {
	in := []*ir.Node{x, up.W, gate.W, down.W}
	if up.B != nil {
		in = append(in, up.B, gate.B, down.B)
	}
	return x.Graph.Add(SwiGLUDef, SwiGLUAttrs{up.B != nil}, in...)
}
