package pass

import (
	"cmp"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// materialize stores the remaining const and iota nodes as params, so devices need no kernels and no steps for them.
// Dynamic ones and those larger than foldElems stay steps. It must be the last pass, because the others recognise
// constants.
//
//	s = const {value=0.125} : f32[]   ->   s = param "folded/..." : f32[]
func materialize(c *context, g *ir.Graph) (*ir.Graph, error) {
	return c.rebuild(g, func(out *ir.Graph, n *ir.Node) *ir.Node {
		if !Stored(n) {
			if n.Is(op.ConstDef, op.IotaDef) && n.Type.Shape.IsStatic() {
				c.missed(n.OpName(), n, "TooLarge")
			}
			return nil
		}
		arrays, own := n.EvalMemory()
		if err := cmp.Or(c.reserve(folding, arrays+own), c.reserve(stores, n.Type.Bytes(nil))); err != nil {
			out.Fail(err)
			return nil
		}
		defer c.release(folding, arrays+own)
		v := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		if err := n.Op.Eval(n.Attrs, nil, v); err != nil {
			out.Fail(err)
			return nil
		}
		c.fired(n.OpName(), n)
		return c.param(out, v.Tensor(), n.Type)
	})
}
