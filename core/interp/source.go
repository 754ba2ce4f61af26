package interp

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ReturnAll makes every value of a graph an output, called value.ID, except states. In a graph that is compiled
// afterwards no value is lost in a fusion.
func ReturnAll(g *ir.Graph) {
	for _, n := range g.Nodes {
		if !n.Op.Effects && !n.Op.Tuple && n.Updated() == nil {
			g.Return(valueName(n), n)
		}
	}
}

func valueName(n *ir.Node) string { return fmt.Sprintf("value.%d", n.ID) }

// SameSteps evaluates every node of a graph, the source, on the operands that a compiled form of it computed, so that
// errors do not accumulate. got has the outputs that ReturnAll added. same compares the results of a node. SameSteps
// returns its first error, with the node's name and op. States have their initial values.
func SameSteps(g *ir.Graph, syms map[string]int64, inputs map[string]*tensor.Array, params Params,
	got map[string]*tensor.Array,
	same func(n *ir.Node, in, got, want []*tensor.Array) error) error {
	known := make([]*tensor.Array, len(g.Nodes))
	for _, n := range g.Nodes {
		if n.Op == ir.ResultDef { // its tuple node checks all results
			continue
		}
		in := make([]*tensor.Array, len(n.In))
		for k, x := range n.Operands() {
			in[k] = known[x.ID]
		}
		want, err := compute(n, in, syms, inputs, params, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
		results := make([]*tensor.Array, len(want))
		for k, v := range n.Values() {
			results[k] = got[valueName(v)]
			if n.Op.Effects || n.Op.Updates {
				results[k] = want[k]
			}
			known[v.ID] = results[k]
		}
		if n.Op.Effects || n.Op.Updates {
			continue
		}
		if err := same(n, in, results, want); err != nil {
			return fmt.Errorf("%s (%s of %v): %w", n.Label(), n.OpName(), n.InTypes(), err)
		}
	}
	return nil
}
