package sam2

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/nn"
)

// decode maps embeddings, finer features, points [1,N,2], labels [1,N] and a mask [1,1,4g,4g] to low_res_masks
// [1,M,4g,4g], iou [1,M] and object_score [1,1], the logit that there is an object.
func decode(c config, root nn.Scope) { decodePrompts(c, root, ir.Static(1), true) }

// decodeBatch is like decode for prompts [P,N,2] in one image, without mask prompts.
func decodeBatch(c config, root nn.Scope) { decodePrompts(c, root, ir.Named("P"), false) }

func decodePrompts(c config, root nn.Scope, prompts ir.Dim, masked bool) {
	r := c.Decode(root, ir.Static(1), prompts, ir.Named("N"), masked)
	if c.dynamic {
		r.Masks, r.IoU = stable(c, r.Masks, r.IoU)
	}
	root.Graph.Return("low_res_masks", r.Masks)
	root.Graph.Return("iou", r.IoU)
	root.Graph.Return("object_score", r.Object)
}

// stable replaces mask 0 of each prompt by the one of the others with the highest predicted quality, if mask 0 is not
// stable: if it covers much less at a logit of delta than at -delta.
func stable(c config, masks, iou *ir.Node) (*ir.Node, *ir.Node) {
	g, n := masks.Graph, int(c.Masks)
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F32)) }
	own, quality := op.Narrow(masks, 1, 0, 1), op.Narrow(iou, 1, 0, 1)
	area := func(threshold float64) *ir.Node {
		inside := op.Where(op.Gt(own, number(threshold)), number(1), number(0))
		return op.ReduceSum(inside, false, 2, 3)
	}
	inner, outer := area(c.delta), area(-c.delta)
	ok := op.Ge(op.Where(op.Gt(outer, number(0)), op.Div(inner, outer), number(1)), number(c.threshold)) // [P,1]
	best := op.ArgMax(op.Narrow(iou, 1, 1, n-1), 1, true)
	for i := 1; i < n; i++ {
		chosen := op.Eq(best, op.Const(g, float64(i-1), ir.TypeOf(dtype.I32)))
		take := op.And(chosen, op.Not(ok))
		quality = op.Where(take, op.Narrow(iou, 1, i, 1), quality)
		take = op.Reshape(take, append(append(ir.Shape{}, take.Type.Shape...), ir.Static(1), ir.Static(1)))
		own = op.Where(take, op.Narrow(masks, 1, i, 1), own)
	}
	return op.Concat(1, own, op.Narrow(masks, 1, 1, n-1)), op.Concat(1, quality, op.Narrow(iou, 1, 1, n-1))
}
