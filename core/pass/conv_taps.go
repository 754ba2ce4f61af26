package pass

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// tapRules removes the outer taps of convolutions that lie on padding at every position. They add nothing. A network for
// segmentation has such taps where a dilation is about as large as its image: with a dilation of 12, only the middle
// one of three taps ever lies on one of 4 rows.
//
//	y = conv2d x, w {padding=[12,12], dilation=[12,12]} : f32[1,8,4,4]
//	->
//	v = narrow w {axis=2, start=1, len=1}
//	u = narrow v {axis=3, start=1, len=1}
//	y = conv2d x, u {padding=[0,0], dilation=[1,1]} : f32[1,8,4,4]
//
// The weight must be known at compile time: cutting it in each run could cost more than the taps.
func (c *context) tapRules() []rw.Rule {
	match := rw.If(rw.OneOf(rw.Op(op.Conv1DDef), rw.Op(op.Conv2DDef), rw.Op(op.Conv3DDef)), func(n *ir.Node) bool {
		return c.fixed(n.In[1])
	})
	return []rw.Rule{{Name: "conv-taps", Match: match, To: withoutTaps}}
}

// fixed reports whether n is a param that no session replaces and whose value can be read.
func (c *context) fixed(n *ir.Node) bool {
	if !n.Is(op.ParamDef) || n.Type.DType.IsPacked() {
		return false
	}
	_, folded := c.report.Folded[n.Name]
	return folded || c.params != nil && (c.mutable == nil || !c.mutable(n.Name))
}

func withoutTaps(c *rw.Context) *ir.Node {
	n := c.Root()
	a := n.Attrs.(op.ConvAttrs)
	g, err := a.Geometry()
	if err != nil {
		return nil
	}
	kernel := g.Kernels(n.In[1].Type.Shape.Eval(nil))
	_, _, size := g.Sizes(n.Graph.Syms.Largest(n.In[0].Type.Shape))
	_, _, made := g.Sizes(n.Graph.Syms.Largest(n.Type.Shape))
	var cut [3]int
	found := false
	for i := range cut {
		cut[i] = emptyTaps(size[i], made[i], kernel[i], g.Stride[i], g.Padding[i], g.Dilation[i])
		found = found || cut[i] > 0
	}
	if !found {
		return nil
	}
	w := c.Map(n.In[1])
	a.Padding, a.Dilation = nil, nil
	for axis := range g.Axes {
		i := axis + 3 - g.Axes
		dilation := g.Dilation[i]
		if kernel[i]-2*cut[i] == 1 {
			dilation = 1
		}
		a.Padding, a.Dilation = append(a.Padding, g.Padding[i]-cut[i]*g.Dilation[i]), append(a.Dilation, dilation)
		if cut[i] > 0 {
			w = op.Narrow(w, axis+2, cut[i], kernel[i]-2*cut[i])
		}
	}
	in := n.MapIn(c.Map)
	in[1] = w
	return c.Out.Add(n.Op, a, in...)
}

// emptyTaps returns how many taps at each end of an axis lie on padding at every position, for the largest sizes of the
// image and of the result. In a smaller image they do, too.
func emptyTaps(size, made, kernel, stride, padding, dilation int) int {
	used := func(tap int) bool {
		before := padding - tap*dilation
		first := max(0, (before+stride-1)/stride) // the first position where the tap is not before the image
		return first < made && first*stride-before < size
	}
	cut := 0
	for 2*(cut+1) < kernel && (cut+1)*dilation <= padding && !used(cut) && !used(kernel-1-cut) {
		cut++
	}
	return cut
}
