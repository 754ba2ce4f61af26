package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// findRoll recognises the parts of a value, the second before the first, as they shift windows:
//
//	a = narrow x {axis=1, start=3, len=N-3}
//	b = narrow x {axis=1, len=3}
//	y = concat a, b {axis=1}                  ->   y = roll x {axes=[1], shifts=[-3]}
func findRoll(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	if !n.Is(op.ConcatDef) || len(n.In) != 2 || !n.In[0].Is(op.NarrowDef) || !n.In[1].Is(op.NarrowDef) {
		return nil
	}
	axis := n.Attrs.(op.ConcatAttrs).Axis
	a, b := n.In[0].Attrs.(op.NarrowAttrs), n.In[1].Attrs.(op.NarrowAttrs)
	x := n.In[0].In[0]
	if n.In[1].In[0] != x || a.Axis != axis || b.Axis != axis || b.Start != 0 || a.Start != b.Len ||
		!x.Type.Shape[axis].Is(int64(a.Len+b.Len)) {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node {
		return op.Roll(lookup(x), []int{axis}, []int{-b.Len})
	}
}

// mergeRolls makes one roll of two rolls along different axes.
func mergeRolls(c *rw.Context) *ir.Node {
	a, b := c.Root().Attrs.(op.RollAttrs), c.Node("r").Attrs.(op.RollAttrs)
	if len(a.Axes) == 0 || len(b.Axes) == 0 {
		return nil
	}
	if a.Axes[0] < b.Axes[0] {
		a, b = b, a
	}
	if b.Axes[len(b.Axes)-1] >= a.Axes[0] {
		return nil
	}
	axes, shifts := append(append([]int{}, b.Axes...), a.Axes...), append(append([]int{}, b.Shifts...), a.Shifts...)
	return op.Roll(c.Map(c.Node("r").In[0]), axes, shifts)
}
