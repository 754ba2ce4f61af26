package pass

import (
	_ "github.com/rlx-go/rlx/core/grad" // the block grad
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// lower replaces each block by its own expansion (ir.Lower), until none is left. Models are written in blocks, targets
// run tensor ops.
//
//	y = linear x, w, b {act="relu"}
//
// becomes
//
//	m = matmul x, w {trans_b=true}
//	s = add m, b
//	y = relu s
//
// A block grad becomes the gradients that it stands for (package grad), once no other block is left:
//
//	d = grad loss, x   ->   the nodes of the backward pass
//
// The replacement is ir.Graph.LowerBlocks. Blocks that are loops become the op loop; short loops are unrolled at once
// (op.UnrollNodes), the pass loops decides about the others.
func lower(c *context, g *ir.Graph) (*ir.Graph, error) {
	g, err := g.LowerBlocks(func(n *ir.Node) { c.fired(n.OpName(), n) })
	if err != nil {
		return nil, err
	}
	g, _, err = c.unroll(g, func(n *ir.Node) bool { return n.Attrs.(op.LoopAttrs).Nodes() <= c.unrollNodes })
	return g, err
}
