package hir

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// LinearAttrs are the attributes of linear.
type LinearAttrs struct {
	Act string `attr:"act"` // "" or an activation, see op.ParseActivation
}

// LinearDef computes act(x·wᵀ + bias) for x [..., in], w [out, in] as in checkpoints, and an optional bias [out].
var LinearDef = ir.Define(ir.Def[LinearAttrs]{
	Name: "linear", Operands: "x, w, bias?", Block: true,
	Doc:   "act(x·wᵀ + bias) over the last axis. x [..., in], w [out, in], bias [out].",
	Infer: inferLinear,
})

func inferLinear(s ir.Sig[LinearAttrs]) (ir.Type, error) {
	x := s.In[0]
	if err := op.CheckActivation(s.Attrs.Act); err != nil {
		return ir.Type{}, err
	}
	out, err := matrix("w", s.In[1], channels(x))
	if bias := s.In[2]; err == nil && bias.Present() {
		err = vector("bias", bias, out)
	}
	if err != nil {
		return ir.Type{}, err
	}
	return ir.Type{DType: x.DType, Shape: last(x.Shape, out)}, nil
}

var _ = ir.Lower(LinearDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	y := op.MatMul(in[0], in[1], op.MatMulAttrs{TransB: true})
	if in[2] != nil {
		y = op.Add(y, f32(in[2]))
	}
	return op.Activate(y, n.Attrs.(LinearAttrs).Act)
})

// Linear adds act(x·wᵀ + b). b may be nil.
func Linear(x, w, b *ir.Node, act string) *ir.Node {
	return x.Graph.Add(LinearDef, LinearAttrs{act}, x, w, b)
}

// MLPAttrs are the attributes of mlp.
type MLPAttrs struct {
	Act string `attr:"act"` // activation between the two layers
}

// MLPDef is the two-layer feed-forward block of transformers: linear(act(linear(x))).
var MLPDef = ir.Define(ir.Def[MLPAttrs]{
	Name: "mlp", Operands: "x, w1, b1, w2, b2", Block: true,
	Doc: "w2·act(w1·x + b1) + b2 over the last axis. x [..., in], w1 [hidden, in], b1, w2 [out, hidden], b2.",
	Infer: func(s ir.Sig[MLPAttrs]) (ir.Type, error) {
		x := s.In[0]
		err := op.CheckActivation(s.Attrs.Act)
		width := channels(x)
		for i := 1; err == nil && i < 5; i += 2 {
			if width, err = matrix([]string{1: "w1", 3: "w2"}[i], s.In[i], width); err == nil {
				err = vector([]string{1: "b1", 3: "b2"}[i], s.In[i+1], width)
			}
		}
		if err != nil {
			return ir.Type{}, err
		}
		return ir.Type{DType: x.DType, Shape: last(x.Shape, width)}, nil
	},
})

var _ = ir.Lower(MLPDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	h := part(n, "hidden", Linear(in[0], in[1], in[2], n.Attrs.(MLPAttrs).Act))
	return Linear(h, in[3], in[4], "")
})

// MLP adds linear(act(linear(x, w1, b1)), w2, b2).
func MLP(x, w1, b1, w2, b2 *ir.Node, act string) *ir.Node {
	return x.Graph.Add(MLPDef, MLPAttrs{act}, x, w1, b1, w2, b2)
}
