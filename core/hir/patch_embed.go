package hir

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// PatchEmbedAttrs has no fields, because the weight determines the size of the patches.
type PatchEmbedAttrs struct{}

// PatchEmbedDef cuts an image into square patches and maps each to a token. It is a convolution whose stride is the
// size of its kernel.
var PatchEmbedDef = ir.Define(ir.Def[PatchEmbedAttrs]{
	Name: "patch_embed", Operands: "x, w, bias", Block: true,
	Doc: "Tokens of an image. x [B,C,H,W], w [D,C,p,p], bias [D] -> [B,H/p,W/p,D]; p must divide H and W.",
	Infer: func(s ir.Sig[PatchEmbedAttrs]) (ir.Type, error) {
		x, w := s.In[0], s.In[1]
		if len(x.Shape) != 4 || len(w.Shape) != 4 || !x.Shape[1:].IsStatic() || w.Shape[1] != x.Shape[1] ||
			w.Shape[2] != w.Shape[3] {
			return ir.Type{}, fmt.Errorf("image %v and weight %v; want [B,C,H,W] and [D,C,p,p]", x, w)
		}
		p := w.Shape[2].Const
		if p < 1 || x.Shape[2].Const%p != 0 || x.Shape[3].Const%p != 0 {
			return ir.Type{}, fmt.Errorf("patches of %d do not tile %v", p, x)
		}
		err := vector("bias", s.In[2], w.Shape[0])
		return ir.Type{DType: dtype.F32,
				Shape: ir.Shape{x.Shape[0], ir.Static(x.Shape[2].Const / p), ir.Static(x.Shape[3].Const / p),
					w.Shape[0]}},
			err
	},
})

// The lowering makes one row per patch, with its elements in the order of the weight (channel, y, x). So the
// convolution is one matrix product.
var _ = ir.Lower(PatchEmbedDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x, w := in[0], in[1]
	b, c, p := x.Type.Shape[0], x.Type.Shape[1].Const, w.Type.Shape[2].Const
	gh, gw, d := n.Type.Shape[1].Const, n.Type.Shape[2].Const, w.Type.Shape[0].Const
	batch := func(dims ...int64) ir.Shape { return append(ir.Shape{b}, ir.ShapeOf(dims...)...) }
	rows := op.Reshape(x, batch(c, gh, p, gw, p))
	rows = op.Transpose(rows, 0, 2, 4, 1, 3, 5)
	rows = op.Reshape(rows, batch(gh, gw, c*p*p))
	return Linear(rows, op.Reshape(w, ir.ShapeOf(d, c*p*p)), in[2], "")
})

// PatchEmbed adds the tokens of an image whose channels are last.
func PatchEmbed(x, w, b *ir.Node) *ir.Node {
	return x.Graph.Add(PatchEmbedDef, PatchEmbedAttrs{}, x, w, b)
}
