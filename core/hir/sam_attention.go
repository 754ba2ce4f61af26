package hir

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// SAMAttentionAttrs are the attributes of sam_attention.
type SAMAttentionAttrs struct {
	Heads  int `attr:"heads"`
	Window int `attr:"window"` // side of the windows in tokens; 0 means the whole grid
}

// SAMAttentionDef is the attention of SAM's image encoder: multi-head self-attention over a grid of tokens, or over
// windows of it, with decomposed relative positions (MViTv2, arXiv:2112.01526, eq. 4):
//
//	score[q,k] = q·k/√D + q·rel_h[qy−ky+K−1] + q·rel_w[qx−kx+K−1]
//
// Windows that extend beyond the grid are padded with zero tokens after the norm. Attention treats these like other
// tokens (their keys and values are the qkv bias). Their results are dropped.
var SAMAttentionDef = ir.Define(ir.Def[SAMAttentionAttrs]{
	Name: "sam_attention", Operands: "x, wqkv, bqkv, rel_h, rel_w, wproj, bproj", Block: true,
	Doc: "Self-attention over a grid of tokens with decomposed relative positions and optional windows. x [B,gh,gw,C], " +
		"wqkv [3C,C], bqkv [3C], rel_h [2wh-1,D], rel_w [2ww-1,D], wproj [C,C], bproj [C] -> [B,gh,gw,C].",
	Infer: func(s ir.Sig[SAMAttentionAttrs]) (ir.Type, error) {
		x, a := s.In[0], s.Attrs
		if len(x.Shape) != 4 || !x.Shape[1:].IsStatic() {
			return ir.Type{}, fmt.Errorf("x is %v; want [B,gh,gw,C] with a static grid", x)
		}
		c := x.Shape[3].Const
		if a.Heads < 1 || c%int64(a.Heads) != 0 || a.Window < 0 {
			return ir.Type{},
				fmt.Errorf("%d heads over %d channels, window %d; heads must divide the channels, the window is >= 0",
					a.Heads, c, a.Window)
		}
		want := []ir.Type{1: ir.TypeOf(0, 3*c, c), 2: ir.TypeOf(0, 3*c), 5: ir.TypeOf(0, c, c), 6: ir.TypeOf(0, c)}
		wh, ww := a.window(x.Shape)
		want[3] = ir.TypeOf(0, 2*wh-1, c/int64(a.Heads))
		want[4] = ir.TypeOf(0, 2*ww-1, c/int64(a.Heads))
		def, _ := ir.Find("sam_attention")
		for i, w := range want {
			if i > 0 && (!s.In[i].Shape.Equal(w.Shape) || !s.In[i].DType.IsFloat()) {
				return ir.Type{}, fmt.Errorf("%s is %v; want floats of %v", def.OperandName(i), s.In[i], w.Shape)
			}
		}
		return x, nil
	},
})

// window returns the height and width, in tokens, of the region that each query attends to.
func (a SAMAttentionAttrs) window(x ir.Shape) (wh, ww int64) {
	if a.Window > 0 {
		return int64(a.Window), int64(a.Window)
	}
	return x[1].Const, x[2].Const
}

var _ = ir.Lower(SAMAttentionDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a := n.Attrs.(SAMAttentionAttrs)
	x := in[0]
	shape := x.Type.Shape
	c, heads := shape[3].Const, int64(a.Heads)
	d := c / heads
	wh, ww := a.window(shape)
	if !shape[0].IsStatic() { // passes recognise only a grid with a static batch; the op accepts any
		qkv := part(n, "qkv", Linear(x, in[1], in[2], ""))
		o := op.GridAttention(qkv, f32(in[2]), relativePositions(in[3], wh), relativePositions(in[4], ww),
			op.GridAttentionAttrs{Heads: a.Heads, Window: a.Window})
		return Linear(part(n, "heads", o), in[5], in[6], "")
	}
	if a.Window > 0 {
		x = WindowPartition(x, a.Window)
	}
	w := x.Type.Shape[0].Const // number of windows in the batch
	qkv := part(n, "qkv", Linear(x, in[1], in[2], ""))
	head := func(i int64) *ir.Node { // [w, heads, wh*ww, d]
		part := op.Narrow(qkv, 3, int(i*c), int(c))
		return op.Transpose(op.Reshape(part, ir.ShapeOf(w, wh*ww, heads, d)), 0, 2, 1, 3)
	}
	q, k, v := head(0), head(1), head(2)
	scale := op.Const(g, 1/math.Sqrt(float64(d)), ir.TypeOf(dtype.F32))
	scores := op.MatMul(op.Mul(q, scale), k, op.MatMulAttrs{TransB: true})

	// rel_h[b,h,qy,qx,ky] = q[b,h,qy,qx,:]·Rh[qy,ky,:], and likewise along x.
	grid := op.Reshape(q, ir.ShapeOf(w, heads, wh, ww, d))
	relH := op.MatMul(grid, relativePositions(in[3], wh), op.MatMulAttrs{TransB: true})
	relW := op.MatMul(op.Transpose(grid, 0, 1, 3, 2, 4), relativePositions(in[4], ww), op.MatMulAttrs{TransB: true})
	relW = op.Transpose(relW, 0, 1, 3, 2, 4)
	scores = op.Reshape(scores, ir.ShapeOf(w, heads, wh, ww, wh, ww))
	scores = op.Add(scores, op.Reshape(relH, ir.ShapeOf(w, heads, wh, ww, wh, 1)))
	scores = op.Add(scores, op.Reshape(relW, ir.ShapeOf(w, heads, wh, ww, 1, ww)))
	scores = op.Reshape(scores, ir.ShapeOf(w, heads, wh*ww, wh*ww))

	o := op.MatMul(op.Softmax(scores, 3), v, op.MatMulAttrs{})
	o = op.Reshape(op.Transpose(o, 0, 2, 1, 3), ir.ShapeOf(w, wh, ww, c))
	if a.Window > 0 {
		o = WindowReverse(o, a.Window, shape)
	}
	part(n, "heads", o)
	// The projection is applied to each token, so it may come after the windows are reversed, when there are no padding
	// tokens.
	return Linear(o, in[5], in[6], "")
})

// SAMAttention adds the attention of one block of SAM's image encoder.
func SAMAttention(x, wqkv, bqkv, relH, relW, wproj, bproj *ir.Node, attrs SAMAttentionAttrs) *ir.Node {
	return x.Graph.Add(SAMAttentionDef, attrs, x, wqkv, bqkv, relH, relW, wproj, bproj)
}

// relativePositions returns an [n,n,d] array whose entry (q,k) is row q-k+n-1 of a table [2n-1,d].
func relativePositions(table *ir.Node, n int64) *ir.Node {
	g, t := table.Graph, ir.TypeOf(dtype.I32, n, n)
	idx := op.Sub(op.Iota(g, 0, t), op.Iota(g, 1, t))
	idx = op.Add(idx, op.Const(g, float64(n-1), ir.TypeOf(dtype.I32)))
	return op.Gather(f32(table), idx, 0)
}

// WindowPartition pads x [B,gh,gw,C] with zeros at the bottom and right to whole windows. It returns the windows as a
// batch of shape [B*nh*nw,w,w,C].
func WindowPartition(x *ir.Node, window int) *ir.Node {
	s, w := x.Type.Shape, int64(window)
	b, gh, gw, c := s[0].Const, s[1].Const, s[2].Const, s[3].Const
	nh, nw := (gh+w-1)/w, (gw+w-1)/w
	if nh*w != gh || nw*w != gw {
		x = op.Pad(x, []int{0, 0, 0, 0}, []int{0, int(nh*w - gh), int(nw*w - gw), 0}, 0)
	}
	x = op.Transpose(op.Reshape(x, ir.ShapeOf(b, nh, w, nw, w, c)), 0, 1, 3, 2, 4, 5)
	return op.Reshape(x, ir.ShapeOf(b*nh*nw, w, w, c))
}

// WindowReverse undoes WindowPartition. It turns x [B*nh*nw,w,w,C] into the grid [B,gh,gw,C] without the padding.
func WindowReverse(x *ir.Node, window int, grid ir.Shape) *ir.Node {
	w := int64(window)
	b, gh, gw, c := grid[0].Const, grid[1].Const, grid[2].Const, x.Type.Shape[3].Const
	nh, nw := (gh+w-1)/w, (gw+w-1)/w
	x = op.Transpose(op.Reshape(x, ir.ShapeOf(b, nh, nw, w, w, c)), 0, 1, 3, 2, 4, 5)
	x = op.Reshape(x, ir.ShapeOf(b, nh*w, nw*w, c))
	if nh*w != gh {
		x = op.Narrow(x, 1, 0, int(gh))
	}
	if nw*w != gw {
		x = op.Narrow(x, 2, 0, int(gw))
	}
	return x
}
