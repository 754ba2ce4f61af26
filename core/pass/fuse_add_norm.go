package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// Reasons why a sum and its norm stay two steps.
const (
	missRegion = "Region"    // an operand of the sum is an elementwise op, with which the sum forms a region
	missGain   = "LaterGain" // gamma or beta is computed after the sum
)

// addNorms computes a sum that has other readers than a norm together with the norm, in one step that writes both. This
// saves reading the sum once, and a step:
//
//	s = add x, r
//	y = layer_norm s, γ, β {eps}   ->   s, y = fused_add_layer_norm x, r, γ, β {eps}
//	z = add s, f                        z = add s, f
//
// The step stands where the sum was, before all readers of it. What the norm reads besides, if it comes later, moves
// there: params, constants, and casts and reshapes of these. If several norms read the sum, the first is fused.
//
// Only targets with kernels for the step get it.
func addNorms(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses, native := g.UseCounts(), c.target.Ops()
	norms := map[*ir.Node]*ir.Node{} // the first norm of each sum that has other readers
	for _, n := range g.Nodes {
		if !n.Is(op.LayerNormDef, op.RmsNormDef) || !slices.Contains(native, fusedAdd(n).Name) {
			continue
		}
		if s := n.In[0]; s.Is(op.AddDef) && uses[s.ID] > 1 && norms[s] == nil {
			norms[s] = n
		}
	}
	if len(norms) == 0 {
		return g, nil
	}
	made := map[*ir.Node]*ir.Node{} // nodes of g that were made before Rebuild comes to them
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if m := made[n]; m != nil {
			return m
		}
		norm := norms[n]
		if norm == nil {
			return nil
		}
		rule := "add-" + map[bool]string{true: "layer-norm", false: "rms-norm"}[norm.Is(op.LayerNormDef)]
		if why := addNormMiss(norm, uses); why != "" {
			c.missed(rule, n, why)
			return nil
		}
		var early map[*ir.Node]*ir.Node
		sum := c.replace(out, rule, n, func() *ir.Node {
			early = map[*ir.Node]*ir.Node{}
			return addNorm(out, norm, early, lookup)
		})
		for old, m := range early {
			if sum != nil {
				made[old] = m
			}
		}
		return sum
	})
}

// fusedAdd returns the op of a norm with the sum that it reads.
func fusedAdd(norm *ir.Node) *ir.OpDef {
	if norm.Is(op.LayerNormDef) {
		return op.FusedAddLayerNormDef
	}
	return op.FusedAddRmsNormDef
}

// addNormMiss returns the reason not to fuse a norm with the sum that it reads, or "".
func addNormMiss(norm *ir.Node, uses []int) string {
	s := norm.In[0]
	if !s.In[0].Type.Equal(s.In[1].Type) {
		return missResidual
	}
	for _, x := range s.In {
		if x.Op.Elementwise && uses[x.ID] == 1 {
			return missRegion
		}
	}
	for _, x := range norm.In[1:] {
		if !movable(x, s.ID) {
			return missGain
		}
	}
	return ""
}

// movable reports whether a node comes before the node with ID before, or can be computed there.
func movable(n *ir.Node, before int) bool {
	switch {
	case n.ID < before, n.Is(op.ParamDef, op.ConstDef):
		return true
	case n.Is(op.CastDef, op.ReshapeDef):
		return movable(n.In[0], before)
	}
	return false
}

// addNorm adds the step of a norm and the sum that it reads, and returns the sum. It notes in early the nodes that it
// makes before their turn, and the norm.
func addNorm(out *ir.Graph, norm *ir.Node, early map[*ir.Node]*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
	s := norm.In[0]
	var get func(n *ir.Node) *ir.Node
	get = func(n *ir.Node) *ir.Node {
		if n.ID < s.ID {
			return lookup(n)
		}
		if early[n] == nil {
			m := out.AddDeclared(n.Op, n.Attrs, n.Type, n.MapIn(get)...)
			m.Name = n.Name
			early[n] = m
		}
		return early[n]
	}
	x, r, gamma, beta := get(s.In[0]), get(s.In[1]), get(norm.In[1]), get(norm.In[2])
	var sum, y *ir.Node
	if norm.Is(op.LayerNormDef) {
		sum, y = op.FusedAddLayerNorm(x, r, gamma, beta, norm.Attrs.(op.LayerNormAttrs).Eps)
	} else {
		sum, y = op.FusedAddRmsNorm(x, r, gamma, beta, norm.Attrs.(op.RmsNormAttrs).Eps)
	}
	early[norm] = y
	return sum
}
