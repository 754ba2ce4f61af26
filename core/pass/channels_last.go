package pass

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// channelsLast turns convolutions and pools, and what lies between them, to the layout with channels last, if the
// target prefers that:
//
//	a = conv2d x, w {layout="nchw"}       t = transpose x {perm=[0,2,3,1]}
//	b = relu a                            a = conv2d t, w {layout="nhwc"}
//	c = conv2d b, v {layout="nchw"}  ->   b = relu a
//	                                      c = conv2d b, v {layout="nhwc"}
//	                                      y = transpose c {perm=[0,3,1,2]}
//
// A value is turned if it is computed with its channels last. Where a value that is turned meets one that is not, a
// transpose remains, unless it moves only axes of 1. The pass chooses the values such that the transposes that remain
// cost as little as possible, less what the convolutions gain: this is a minimum cut. A part of the graph whose
// transposes would cost more than its convolutions gain therefore stays as it is. Weights stay as they are in any case,
// and so do inputs and outputs.
func channelsLast(c *context, g *ir.Graph) (*ir.Graph, error) {
	if c.target.ChannelsLast == 0 || !slices.ContainsFunc(g.Nodes, gains) {
		return g, nil
	}
	t := &turning{context: c, g: g, refused: map[*ir.Node]string{}}
	for {
		t.choose()
		out, again, err := t.rebuild()
		if err != nil {
			return nil, err
		}
		if !again {
			t.sites()
			return out, nil
		}
	}
}

// Units of cost. A convolution that is turned gains less for each element of its operand and its result than a
// transpose of this element costs. So one that stands alone stays as it is. One with fewer
// channels than the target asks for loses the missing share, unless its images have one pixel, for which both layouts
// are the same. A transpose between a convolution and its activation keeps the two apart.
const (
	transposeCost = 5
	convGain      = 4
	fuseGain      = 1
)

// mostElements limits the size that is assumed for a value, so that no sum of costs overflows.
const mostElements = 1 << 32

// turning chooses the values that are turned, and makes the new graph.
type turning struct {
	*context
	g        *ir.Graph
	refused  map[*ir.Node]string // why the target runs the turned form of a node less well
	channels []int               // number of axes of channels if the node can be turned, else 0, by ID
	turned   []bool              // by ID
}

// cost returns the cost of a transpose of x that moves k axes of channels.
func (t *turning) cost(x *ir.Node, k int) int64 {
	if onlyOnes(x.Type.Shape, toLast(x.Type.Rank(), k)) || x.Is(op.ConstDef) ||
		x.Is(op.ParamDef) && (t.mutable == nil || !t.mutable(x.Name)) {
		return 0
	}
	return transposeCost * t.elements(x)
}

func (t *turning) elements(x *ir.Node) int64 { return min(t.g.Syms.MaxElems(x.Type), mostElements) }

// gains reports whether n is faster with channels last.
func gains(n *ir.Node) bool {
	layout, ok := layoutOf(n)
	return ok && op.ChannelsLast(layout) != "" && !n.Is(op.PoolDef) && !n.Is(op.AdaptiveAvgPoolDef)
}

// onePixel reports whether the images of x have one pixel, so that their layout does not matter.
func onePixel(x *ir.Node) bool { return onlyOnes(x.Type.Shape, toLast(x.Type.Rank(), 1)) }

// choose sets channels and turned.
func (t *turning) choose() {
	t.channels, t.turned = make([]int, len(t.g.Nodes)), make([]bool, len(t.g.Nodes))
	for _, n := range t.g.Nodes {
		if t.refused[n] == "" {
			t.channels[n.ID] = t.channelsOf(n)
		}
	}
	reached := t.reached()
	vertex := make([]int, len(t.g.Nodes))
	vertices := 2
	for i := range vertex {
		vertex[i] = sink
		if t.channels[i] > 0 && reached[i] {
			vertex[i] = vertices
			vertices++
		} else {
			t.channels[i] = 0
		}
	}
	w := newNetwork(vertices)
	readers := make([][]int, len(t.g.Nodes)) // vertices that want the same layout, by ID of the operand
	for _, n := range t.g.Nodes {
		v := vertex[n.ID]
		if v != sink {
			t.gainOf(w, n, vertex)
		}
		for k, x := range n.In {
			switch {
			case x == nil || t.follows(n) && n.Is(op.TransposeDef):
			case v != sink && moves(n, k):
				readers[x.ID] = append(readers[x.ID], v)
			case v != sink || !t.follows(n):
				readers[x.ID] = append(readers[x.ID], sink)
			}
		}
		if n.Is(op.TransposeDef) {
			t.gainOfTranspose(w, n, vertex)
		}
	}
	for _, o := range t.g.Outputs {
		readers[o.Node.ID] = append(readers[o.Node.ID], sink)
	}
	for _, x := range t.g.Nodes {
		t.border(w, x, vertex[x.ID], readers[x.ID])
	}
	side := w.cut()
	for i, v := range vertex {
		t.turned[i] = v != sink && !side[v]
	}
}

// gainOf adds what is gained if n, which can be turned, is turned: by a convolution, or by an activation that has the
// layout of the convolution before it, which may then absorb it.
func (t *turning) gainOf(w *network, n *ir.Node, vertex []int) {
	v := vertex[n.ID]
	if gains(n) {
		gain := convGain * (t.elements(n) + t.elements(n.In[0]))
		c, least := n.Type.Shape[1], int64(t.target.ChannelsLast)
		if c.IsStatic() && c.Const < least && !(onePixel(n) && onePixel(n.In[0])) {
			w.edge(v, sink, gain*(least-c.Const)/least)
		} else {
			w.edge(source, v, gain)
		}
	}
	if n.Op.Elementwise && len(n.In) == 1 && gains(n.In[0]) {
		before := vertex[n.In[0].ID]
		w.edge(v, before, fuseGain*t.elements(n))
		w.edge(before, v, fuseGain*t.elements(n))
	}
}

// reached reports for each node whether a path of nodes that can be turned leads to one that gains.
func (t *turning) reached() []bool {
	near := make([][]*ir.Node, len(t.g.Nodes))
	var queue []*ir.Node
	for _, n := range t.g.Nodes {
		if t.channels[n.ID] == 0 {
			continue
		}
		if gains(n) {
			queue = append(queue, n)
		}
		for _, x := range n.Operands() {
			if t.channels[x.ID] > 0 {
				near[x.ID], near[n.ID] = append(near[x.ID], n), append(near[n.ID], x)
			}
		}
	}
	reached := make([]bool, len(t.g.Nodes))
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if !reached[n.ID] {
			reached[n.ID] = true
			queue = append(queue, near[n.ID]...)
		}
	}
	return reached
}

// border adds the cost of the transposes of x. At most one is needed in each direction, however many nodes read it.
func (t *turning) border(w *network, x *ir.Node, v int, readers []int) {
	cost := t.cost(x, max(t.channels[x.ID], 1))
	if cost == 0 || len(readers) == 0 {
		return
	}
	if v != sink {
		back := w.vertex()
		w.edge(v, back, cost)
		for _, r := range readers {
			w.edge(back, r, unlimited)
		}
	}
	forth := w.vertex()
	w.edge(forth, v, cost)
	for _, r := range readers {
		if r != sink {
			w.edge(r, forth, unlimited)
		}
	}
}

// gainOfTranspose adds the cost of a transpose that disappears if its operand or its result is turned.
func (t *turning) gainOfTranspose(w *network, n *ir.Node, vertex []int) {
	x := n.In[0]
	p, cost := perm(n), transposeCost*t.elements(n)
	shape, rank := x.Type.Shape, len(p)
	if onlyOnes(shape, p) {
		return
	}
	if v := vertex[x.ID]; v != sink {
		last := toLast(rank, t.channels[x.ID])
		if onlyOnes(permuted(shape, last), compose(p, inverted(last))) {
			w.edge(source, v, cost)
			return
		}
	}
	if v := vertex[n.ID]; v != sink && onlyOnes(shape, compose(toLast(rank, t.channels[n.ID]), p)) {
		w.edge(source, v, cost)
	}
}

func permuted(shape ir.Shape, p []int) ir.Shape {
	out := make(ir.Shape, len(p))
	for i, a := range p {
		out[i] = shape[a]
	}
	return out
}

// toLast returns the permutation that moves k axes of channels, which follow the batch, to the end.
func toLast(rank, k int) []int {
	p := make([]int, 0, rank)
	for a := range rank {
		if a == 0 || a > k {
			p = append(p, a)
		}
	}
	for a := 1; a <= k && a < rank; a++ {
		p = append(p, a)
	}
	return p
}

// toFirst returns the inverse of toLast.
func toFirst(rank, k int) []int { return inverted(toLast(rank, k)) }

func inverted(p []int) []int {
	q := make([]int, len(p))
	for i, a := range p {
		q[a] = i
	}
	return q
}

// compose returns the permutation of a transpose with inner, followed by one with outer.
func compose(outer, inner []int) []int {
	p := make([]int, len(outer))
	for i, a := range outer {
		p[i] = inner[a]
	}
	return p
}

// rebuild makes the graph. If the target refuses a node of it, rebuild adds the old node to refused and reports that
// the values must be chosen again.
func (t *turning) rebuild() (out *ir.Graph, again bool, err error) {
	b := &turnedGraph{turning: t, made: make([]*ir.Node, len(t.g.Nodes)), moved: map[movedKey]*ir.Node{}}
	out, err = t.g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		b.out, b.lookup = out, lookup
		before := len(out.Nodes)
		r := b.build(n)
		for _, made := range out.Nodes[before:] {
			if r == nil || t.refused[n] != "" {
				break
			}
			if why := t.refuse(n, made); why != "" {
				t.refused[n], again = why, true
			}
		}
		return r
	})
	return out, again, err
}

// sites records the nodes that are turned, and those that would gain and are not.
func (t *turning) sites() {
	for _, n := range t.g.Nodes {
		switch why := t.refused[n]; {
		case why != "":
			t.missed("turn", n, why)
		case gains(n) && t.turned[n.ID]:
			t.fired("turn", n)
		case gains(n):
			t.missed("turn", n, missCost)
		}
	}
}

// missCost is the reason why a convolution is not turned.
const missCost = "CostsMore"

// turnedGraph is the graph while it is made.
type turnedGraph struct {
	*turning
	out    *ir.Graph
	lookup func(n *ir.Node) *ir.Node // the value of an old node, in the old layout
	made   []*ir.Node                // the turned values, by ID of the old node
	moved  map[movedKey]*ir.Node
}

// movedKey is a value of the old graph with channels last.
type movedKey struct{ id, channels int }

// build returns the replacement of n, in the old layout, or nil if n is copied.
func (b *turnedGraph) build(n *ir.Node) *ir.Node {
	k := b.channels[n.ID]
	if !b.turned[n.ID] {
		if b.follows(n) {
			return b.follow(n)
		}
		return nil
	}
	y := b.turn(n, k)
	b.made[n.ID] = y
	return b.permute(y, toFirst(y.Type.Rank(), k))
}

// last returns an old value with its k axes of channels last.
func (b *turnedGraph) last(x *ir.Node, k int) *ir.Node {
	if b.turned[x.ID] && b.channels[x.ID] == k {
		return b.made[x.ID]
	}
	key := movedKey{x.ID, k}
	if b.moved[key] == nil {
		b.moved[key] = b.permute(b.lookup(x), toLast(x.Type.Rank(), k))
	}
	return b.moved[key]
}

// permute adds a transpose, if anything moves.
func (b *turnedGraph) permute(x *ir.Node, p []int) *ir.Node {
	shape := permuted(x.Type.Shape, p)
	switch {
	case slices.IsSorted(p):
		return x
	case x.Is(op.ConstDef):
		return op.Const(b.out, x.Attrs.(op.ConstAttrs).Value, ir.Type{DType: x.Type.DType, Shape: shape})
	case onlyOnes(x.Type.Shape, p):
		return reshaped(x, shape)
	case x.Is(op.TransposeDef):
		return b.permute(x.In[0], compose(p, perm(x)))
	}
	return op.Transpose(x, p...)
}
