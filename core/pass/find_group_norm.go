package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// findGroupNorm recognises a group norm that an exporter writes as the instance norm of a view with a channel for each
// group. A gain and a shift of each channel follow, which foundRules make gamma and beta:
//
//	r = reshape x                      x [N,C,H,W], r [N,G,C/G*H*W]
//	i = instance_norm r, 1, 0
//	y = reshape i              ->      y = group_norm x, 1, 0 {groups=G}
func findGroupNorm(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	if !n.Is(op.ReshapeDef) || !n.In[0].Is(op.InstanceNormDef) || !n.In[0].In[0].Is(op.ReshapeDef) {
		return nil
	}
	norm := n.In[0]
	x, view := norm.In[0].In[0], norm.Type.Shape
	gamma, ok := scalarOf(norm.In[1])
	beta, okBeta := scalarOf(norm.In[2])
	if !ok || !okBeta || !x.Type.Equal(n.Type) || x.Type.Rank() < 3 || view[0] != x.Type.Shape[0] {
		return nil
	}
	groups, channels := view[1], x.Type.Shape[1]
	if !groups.IsStatic() || !channels.IsStatic() || groups.Const < 1 || channels.Const%groups.Const != 0 {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node {
		in := lookup(x)
		vector := ir.Type{DType: x.Type.DType, Shape: ir.Shape{channels}}
		return op.GroupNorm(in, op.Const(in.Graph, gamma, vector), op.Const(in.Graph, beta, vector), int(groups.Const),
			norm.Attrs.(op.InstanceNormAttrs).Eps)
	}
}

// channelsFor returns v if it broadcasts along all axes of x but that of its channels, axis 1.
func channelsFor(v, x *ir.Node) *ir.Node {
	s, rank := v.Type.Shape, x.Type.Rank()
	first := rank - len(s) // the axis of x that the first one of v meets
	if first < 0 || first > 1 || v.Type.DType != x.Type.DType {
		return nil
	}
	for i, d := range s {
		if axis := first + i; axis == 1 && d != x.Type.Shape[1] || axis != 1 && !d.Is(1) {
			return nil
		}
	}
	return v
}
