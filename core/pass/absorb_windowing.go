package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// Reasons why windows are not absorbed.
const (
	missWindows = "NotWindows"  // the divided tokens and the joined tokens do not match
	missPadding = "PaddingUsed" // the padding is not zeros
)

// absorbWindows moves the division into windows into grid_attention. Cutting and joining windows copies the tokens
// twice each, and for SAM's 64 x 64 grid with windows of 14, padding tokens cost a fifth of the linear layer.
//
//	p = pad x [B,gh,gw,C] with zeros to whole windows
//	t = p as [B,nh,w,nw,w,C], transposed to [B*nh*nw,w,w,C]
//	q = t·W + b
//	o = grid_attention q, pad {heads}
//	y = o transposed back, without the padding
//	->
//	q = x·W + b
//	y = grid_attention q, b {heads, window=w}
//
// The linear layer works on each token separately, so it can be moved before the cut. For a padding token it gives
// 0·W + b = b, or zeros without a bias. This is the op's pad operand.
func absorbWindows(c *context, g *ir.Graph) (*ir.Graph, error) {
	uses := g.UseCounts()
	cut := map[*ir.Node]bool{} // grids whose padding is removed next; reverseAt starts at the narrow instead
	for _, n := range g.Nodes {
		if n.Is(op.NarrowDef) && uses[n.In[0].ID] == 1 {
			cut[n.In[0]] = true
		}
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		ga, grid, ok := reverseAt(n, uses)
		if !ok || cut[n] {
			return nil
		}
		f, miss := windowsAt(ga, grid, uses)
		if miss != "" {
			c.missed("windows", n, miss)
			return nil
		}
		return c.replace(out, "windows", n, func() *ir.Node { return f.build(out, ga, lookup) })
	})
}

// build adds the op with windows that replaces ga.
func (f windowForm) build(out *ir.Graph, ga *ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
	qkv := op.MatMul(op.Reshape(lookup(f.x), f.shape), lookup(f.lin.w), f.lin.mm.Attrs.(op.MatMulAttrs))
	pad := op.Const(out, 0, ga.In[1].Type)
	if f.lin.bias != nil {
		pad = lookup(f.lin.bias)
		qkv = op.Add(qkv, pad)
	}
	var rh, rw *ir.Node
	if h, w := ga.In[op.GridAttentionRH], ga.In[op.GridAttentionRW]; h != nil {
		rh, rw = lookup(h), lookup(w)
	}
	attrs := ga.Attrs.(op.GridAttentionAttrs)
	attrs.Window = int(ga.In[0].Type.Shape[1].Const)
	return op.GridAttention(qkv, pad, rh, rw, attrs)
}

// joinWindows exchanges window rows and token rows. It is its own inverse.
var joinWindows = []int{0, 1, 3, 2, 4, 5}

// reverseAt recognises windows that are joined to a grid [B,gh,gw,E]. n is the last node of the pattern. If the windows
// extend past the edge, that is the narrow to the size of the grid. The transpose before it is not recognised then,
// because windowsAt compares the sizes.
func reverseAt(n *ir.Node, uses []int) (ga *ir.Node, grid ir.Shape, ok bool) {
	if n.Type.Rank() != 4 {
		return nil, nil, false
	}
	x := n
	for x.Is(op.NarrowDef) {
		a := x.Attrs.(op.NarrowAttrs)
		if a.Axis != 1 && a.Axis != 2 || a.Start != 0 || x != n && uses[x.ID] != 1 {
			return nil, nil, false
		}
		x = x.In[0]
	}
	if !x.Is(op.ReshapeDef) || x != n && uses[x.ID] != 1 {
		return nil, nil, false
	}
	t := strip(x)
	if !t.Is(op.TransposeDef) || !slices.Equal(perm(t), joinWindows) || !n.Type.Shape.IsStatic() {
		return nil, nil, false
	}
	ga = strip(t.In[0])
	if !ga.Is(op.GridAttentionDef) || ga.Attrs.(op.GridAttentionAttrs).Window != 0 {
		return nil, nil, false
	}
	w, s, full := ga.Type.Shape, t.In[0].Type.Shape, x.Type.Shape
	ok = w[1] == w[2] && s[3] == w[1] && s[4] == w[1] && s[5] == w[3] &&
		full.Equal(ir.ShapeOf(s[0].Const, s[1].Const*s[3].Const, s[2].Const*s[4].Const, s[5].Const))
	for y := x; y != ga; y = y.In[0] { // all nodes from the joined grid to the op
		ok = ok && (y == n || uses[y.ID] == 1)
	}
	return ga, n.Type.Shape, ok
}

type windowForm struct {
	lin linearForm
	// x has the tokens before they were padded and cut, with the shape [B,gh,gw,C].
	x     *ir.Node
	shape ir.Shape
}

// windowsAt recognises how the operand of ga was cut from a grid.
func windowsAt(ga *ir.Node, grid ir.Shape, uses []int) (f windowForm, miss string) {
	if uses[ga.ID] != 1 {
		return f, rw.MultiConsumer
	}
	lin, ok := linearOf(strip(ga.In[0]), uses)
	if !ok || lin.mm.Attrs.(op.MatMulAttrs).TransA || lin.w.Type.Rank() != 2 {
		return f, missWindows
	}
	f.lin = lin
	for y := ga.In[0]; ; y = y.In[0] {
		if uses[y.ID] != 1 {
			return f, rw.MultiConsumer
		}
		if !y.Is(op.ReshapeDef) {
			break
		}
	}
	t := strip(lin.x)
	if !t.Is(op.TransposeDef) || !slices.Equal(perm(t), joinWindows) {
		return f, missWindows
	}
	// t.In[0] has the shape [B,nh,w,nw,w,C].
	s, w := t.In[0].Type.Shape, ga.In[0].Type.Shape[1]
	c := lin.x.Type.Shape[lin.x.Type.Rank()-1]
	if s[2] != w || s[4] != w || s[5] != c || !ga.In[0].Type.Shape[0].Is(s[0].Const*s[1].Const*s[3].Const) {
		return f, missWindows
	}
	f.x = strip(t.In[0])
	f.shape = ir.ShapeOf(s[0].Const, s[1].Const*w.Const, s[3].Const*w.Const, c.Const)
	if f.x.Is(op.PadDef) && f.x.Type.Shape.Equal(f.shape) {
		a := f.x.Attrs.(op.PadAttrs)
		if a.Value != 0 || slices.ContainsFunc(a.Before, func(n int) bool { return n != 0 }) || a.After[0] != 0 ||
			a.After[3] != 0 {
			return f, missPadding
		}
		f.x = f.x.In[0]
		f.shape = f.x.Type.Shape
	}
	if !f.shape[:3].Equal(grid[:3]) || ceilDiv(grid[1].Const, w.Const) != s[1].Const ||
		ceilDiv(grid[2].Const, w.Const) != s[3].Const {
		return f, missWindows
	}
	return f, ""
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
