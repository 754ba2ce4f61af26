package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// CopyDef copies a value to its own storage.
var CopyDef = ir.Define(ir.Def[NoAttrs]{
	Name: "copy", Packed: true,
	Doc:      "x in storage of its own: it separates an output from an input or a weight, or a view from its parent.",
	Operands: "x",
	Infer:    func(s ir.Sig[NoAttrs]) (ir.Type, error) { return s.In[0], nil },
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		copyArray(out, in[0])
		return nil
	},
	FLOPs: noFLOPs[NoAttrs],
	Tol:   exact[NoAttrs],
	Cases: func() []ir.Case[NoAttrs] {
		cases := []ir.Case[NoAttrs]{{In: []ir.Type{f32()}}, {In: []ir.Type{f32(0)}}, {In: []ir.Type{f32(3, 257)}}}
		for _, d := range elementTypes() {
			cases = append(cases, ir.Case[NoAttrs]{In: []ir.Type{ir.TypeOf(d, 3, 5)}})
		}
		for _, d := range []dtype.DType{dtype.Q4_0, dtype.Q5_K, dtype.MXFP4} {
			cases = append(cases, ir.Case[NoAttrs]{In: []ir.Type{ir.TypeOf(d, 3, 5)}})
		}
		return cases
	},
})

// Copy adds a copy of x.
func Copy(x *ir.Node) *ir.Node { return x.Graph.Add(CopyDef, NoAttrs{}, x) }

var _ = gradient(CopyDef, func(_ *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node { return []*ir.Node{dy} })

// CopyOutputs returns g with a copy for each output that cannot have its own storage: an input, a param or a state (or
// a view of one), a part of a larger value, or a value whose storage another output has. A program needs these copies,
// because each of its outputs has its own bytes. leaf, if not nil, names further nodes whose outputs get copies, such
// as constants that will be weights.
func CopyOutputs(g *ir.Graph, leaf func(*ir.Node) bool) (*ir.Graph, error) {
	g, err := g.Rebuild(nil)
	if err != nil {
		return nil, err
	}
	taken := map[*ir.Node]bool{}
	for i, o := range g.Outputs {
		src := o.Node.Source()
		if src.Op.Effects || src.Updated() != nil || taken[src] || !o.Node.IsWhole() || leaf != nil && leaf(src) {
			g.Outputs[i].Node = Copy(o.Node)
			continue
		}
		taken[src] = true
	}
	return g, g.Err()
}
