package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// The lowering stores the scores, which the op itself avoids.
var _ = ir.Lower(GridAttentionDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(GridAttentionAttrs)
	s, err := a.Sizes(n.InTypes())
	if err != nil {
		g.Fail(err)
		return in[0]
	}
	dim := ir.Static
	e := 3 * s.Heads * s.D
	windows, ok := s.B.Mul(dim(s.NH * s.NW))
	if !ok {
		g.Fail(fmt.Errorf("grid_attention: %v has too many windows", n.In[0].Type))
		return in[0]
	}
	// Windows become the batch: [windows, tokens, 3, H, D] -> [3, windows, H, tokens, D].
	x := padGrid(in[0], in[1], 1, s.NH*s.WH-s.GH)
	x = padGrid(x, in[1], 2, s.NW*s.WW-s.GW)
	x = Reshape(x, ir.Shape{s.B, dim(s.NH), dim(s.WH), dim(s.NW), dim(s.WW), dim(e)})
	x = Transpose(x, 0, 1, 3, 2, 4, 5)
	x = Reshape(x, ir.Shape{windows, dim(s.WH * s.WW), dim(3), dim(s.Heads), dim(s.D)})
	x = Transpose(x, 2, 0, 3, 1, 4)
	heads := ir.Shape{windows, dim(s.Heads), dim(s.WH * s.WW), dim(s.D)}
	part := func(i int) *ir.Node { return Reshape(Narrow(x, 0, i, 1), heads) }
	q, k, v := part(0), part(1), part(2)

	score := MatMul(q, k, MatMulAttrs{TransB: true})
	score = Mul(score, Const(g, a.EffectiveScale(s.D), ir.TypeOf(score.Type.DType)))
	if s.Positional {
		// relH[.., qy, qx, ky] = sum over d of q[.., qy, qx, d] * rh[qy, ky, d], and relW alike with qx as the batch.
		grid := Reshape(q, ir.Shape{windows, dim(s.Heads), dim(s.WH), dim(s.WW), dim(s.D)})
		relH := MatMul(grid, in[GridAttentionRH], MatMulAttrs{TransB: true})
		relW := Transpose(MatMul(Transpose(grid, 0, 1, 3, 2, 4), in[GridAttentionRW], MatMulAttrs{TransB: true}), 0, 1,
			3, 2, 4)
		full := ir.Shape{windows, dim(s.Heads), dim(s.WH), dim(s.WW), dim(s.WH), dim(s.WW)}
		sum := Add(Reshape(score, full), Reshape(relH, ir.Shape{full[0], full[1], full[2], full[3], full[4], dim(1)}))
		sum = Add(sum, Reshape(relW, ir.Shape{full[0], full[1], full[2], full[3], dim(1), full[5]}))
		score = Reshape(sum, score.Type.Shape)
	}
	o := MatMul(Softmax(score, -1), v, MatMulAttrs{})

	o = Reshape(o, ir.Shape{s.B, dim(s.NH), dim(s.NW), dim(s.Heads), dim(s.WH), dim(s.WW), dim(s.D)})
	o = Transpose(o, 0, 1, 4, 2, 5, 3, 6)
	o = Reshape(o, ir.Shape{s.B, dim(s.NH * s.WH), dim(s.NW * s.WW), dim(s.Heads * s.D)})
	o = Narrow(o, 1, 0, int(s.GH))
	return Narrow(o, 2, 0, int(s.GW))
})

// padGrid appends n rows or columns of the padding token.
func padGrid(x, pad *ir.Node, axis int, n int64) *ir.Node {
	if n == 0 {
		return x
	}
	shape := append(ir.Shape{}, x.Type.Shape...)
	shape[axis] = ir.Static(n)
	return Concat(axis, x, Expand(pad, shape))
}
