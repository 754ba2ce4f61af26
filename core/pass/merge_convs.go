package pass

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// mergeConvs makes one convolution of convolutions of the same image that are added, with the norms and factors that
// follow them. Networks such as RepVGG and MobileOne are trained with several branches and exported with them:
//
//	a = conv2d x, w {padding=[1,1]}         p = pad v {before=[0,0,1,1], after=[0,0,1,1]}
//	b = conv2d x, v                         u = add w, p
//	y = add a, b                       ->   y = conv2d x, u {padding=[1,1]}
//
// The image itself may be added, too: its kernel has a 1 for each channel. The kernel of one convolution must cover
// those of all others, and all weights must be known at compile time. A sum of an image and one convolution stays,
// since the sum is free in fused_conv.
func mergeConvs(c *context, g *ir.Graph) (*ir.Graph, error) {
	m := &merging{context: c, uses: g.UseCounts(), branches: make([]*branch, len(g.Nodes))}
	for _, n := range g.Nodes {
		m.branches[n.ID] = m.branchOf(n)
	}
	merged, part := make([]bool, len(g.Nodes)), make([]bool, len(g.Nodes))
	some := false
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		b := m.branches[n.ID]
		if b == nil || part[n.ID] || b.conv == nil || b.parts < 2 {
			continue
		}
		merged[n.ID], some = true, true
		m.eachPart(n, b.x, func(n *ir.Node) { part[n.ID] = true })
	}
	if !some {
		return g, nil
	}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		if !merged[n.ID] {
			return nil
		}
		b := m.branches[n.ID]
		return c.replace(out, "branches", n, func() *ir.Node {
			k := &mergedKernel{merging: m, branch: b, out: out, lookup: lookup, kernel: kernelOf(b.conv)}
			p := k.of(n)
			return out.Add(b.conv.Op, b.conv.Attrs, lookup(b.x), k.grown(p), p.bias)
		})
	})
}

// merging finds branches.
type merging struct {
	*context
	uses     []int
	branches []*branch // by ID; nil for other nodes
}

// A branch is a value that one convolution of x could compute: a convolution, x itself, or what sums, and norms and
// factors of channels, make of these.
type branch struct {
	x     *ir.Node
	conv  *ir.Node // has the kernel that covers all others; nil if the branch has no convolution
	image bool     // x itself takes part
	parts int      // convolutions, norms and factors
}

// branchOf returns the branch that n is. Those of its operands are known.
func (m *merging) branchOf(n *ir.Node) *branch {
	if n.Type.DType != dtype.F32 || n.Type.Rank() < 3 || n.Type.Rank() > 5 || !n.Type.Shape[1].IsStatic() {
		return nil
	}
	switch {
	case n.Is(op.Conv1DDef, op.Conv2DDef, op.Conv3DDef):
		size, ok := n.In[1].Type.Shape.Numel()
		if op.ChannelsLast(n.Attrs.(op.ConvAttrs).Layout) == "" || n.In[1].Type.DType != dtype.F32 || !ok ||
			size.Const > foldElems || !m.constant(n.In[1]) ||
			n.In[op.ConvBias] != nil && !m.constant(n.In[op.ConvBias]) {
			return nil
		}
		return &branch{x: n.In[0], conv: n, parts: 1}
	case n.Is(op.BatchNormDef):
		for _, v := range n.In[1:] {
			if !m.constant(v) {
				return nil
			}
		}
		return m.along(n.In[0], n, 1)
	case n.Is(op.MulDef, op.AddDef, op.SubDef):
		if x, _ := m.withVector(n); x != nil {
			if n.Is(op.MulDef) {
				return m.along(x, n, 1)
			}
			return m.along(x, n, 0)
		}
		if !n.Is(op.MulDef) {
			return m.sum(n)
		}
	}
	return nil
}

// constant reports whether v is computed at compile time.
func (c *context) constant(v *ir.Node) bool {
	v = v.Source()
	return v.Is(op.ConstDef) || c.fixed(v)
}

// withVector returns the operands of a binary op one of which has a known number for each channel, or one number. They
// are nil for other ops.
func (m *merging) withVector(n *ir.Node) (x, vector *ir.Node) {
	if !n.Is(op.MulDef, op.AddDef, op.SubDef) {
		return nil, nil
	}
	for i, v := range n.In {
		if i == 0 && n.Is(op.SubDef) || !m.constant(v) || v.Type.DType != n.Type.DType ||
			v.Type.Rank() > n.Type.Rank() {
			continue
		}
		ok := true
		for axis, d := range v.Type.Shape {
			channel := axis+n.Type.Rank()-v.Type.Rank() == 1
			ok = ok && (d.Is(1) || channel && d == n.Type.Shape[1])
		}
		if ok {
			return n.In[1-i], v
		}
	}
	return nil, nil
}

// part returns the branch that x is for its reader: x as an image if it has other readers.
func (m *merging) part(x *ir.Node) *branch {
	if b := m.branches[x.ID]; b != nil && m.uses[x.ID] == 1 {
		return b
	}
	return &branch{x: x, image: true}
}

// along returns the branch n whose operand x may be one, too.
func (m *merging) along(x, n *ir.Node, parts int) *branch {
	if !x.Type.Equal(n.Type) {
		return nil
	}
	b := *m.part(x)
	b.parts += parts
	return &b
}

// sum returns the branch that is a sum of two, or a difference.
func (m *merging) sum(n *ir.Node) *branch {
	if !n.In[0].Type.Equal(n.Type) || !n.In[1].Type.Equal(n.Type) {
		return nil
	}
	a, b := m.part(n.In[0]), m.part(n.In[1])
	switch {
	case a.x == b.x:
	case a.x == n.In[1]:
		b = &branch{x: a.x, image: true}
	case b.x == n.In[0]:
		a = &branch{x: b.x, image: true}
	default:
		return nil
	}
	s := &branch{x: a.x, conv: a.conv, image: a.image || b.image, parts: a.parts + b.parts}
	if a.conv != nil && b.conv != nil {
		first, second := kernelOf(a.conv), kernelOf(b.conv)
		if _, ok := first.place(second); !ok {
			if _, ok := second.place(first); !ok {
				return nil
			}
			s.conv = b.conv
		}
	} else if b.conv != nil {
		s.conv = b.conv
	}
	if s.image && s.conv != nil {
		k := kernelOf(s.conv)
		if _, ok := k.place(k.image()); !ok {
			return nil
		}
	}
	return s
}

// eachPart calls f for the nodes of which branch n of x consists.
func (m *merging) eachPart(n, x *ir.Node, f func(n *ir.Node)) {
	if n == x {
		return
	}
	f(n)
	switch y, _ := m.withVector(n); {
	case n.Is(op.BatchNormDef):
		m.eachPart(n.In[0], x, f)
	case y != nil:
		m.eachPart(y, x, f)
	case n.Is(op.AddDef, op.SubDef):
		m.eachPart(n.In[0], x, f)
		m.eachPart(n.In[1], x, f)
	}
}

// convKernel is the geometry of a convolution.
type convKernel struct {
	op.Geometry
	size [3]int
}

func kernelOf(conv *ir.Node) convKernel {
	g, err := conv.Attrs.(op.ConvAttrs).Geometry()
	if err != nil {
		panic("BUG: pass: " + err.Error())
	}
	return convKernel{g, g.Kernels(conv.In[1].Type.Shape.Eval(nil))}
}

// image returns the kernel of a convolution whose result is its image.
func (k convKernel) image() convKernel {
	one := [3]int{1, 1, 1}
	return convKernel{op.Geometry{Axes: k.Axes, Stride: one, Dilation: one, Groups: k.Groups}, one}
}

// place returns which tap of k lies on the first tap of another kernel. It returns false if k does not cover the other
// one.
func (k convKernel) place(other convKernel) (at [3]int, ok bool) {
	ok = k.Stride == other.Stride && k.Groups == other.Groups
	for i := range at {
		apart, d := k.Padding[i]-other.Padding[i], k.Dilation[i]
		at[i] = apart / d
		ok = ok && apart >= 0 && apart%d == 0 && at[i]+other.size[i] <= k.size[i] &&
			(other.size[i] == 1 || other.Dilation[i] == d)
	}
	return at, ok
}

// mergedKernel makes the weights and the bias of a convolution in place of a branch.
type mergedKernel struct {
	*merging
	*branch
	out    *ir.Graph
	lookup func(*ir.Node) *ir.Node
	kernel convKernel
}

// kernelPart is a convolution that computes a part of the branch. Its kernel may be smaller than the whole one. The
// bias may be nil.
type kernelPart struct {
	w, bias *ir.Node
	kernel  convKernel
}

// of returns the convolution of a part of the branch. Kernels grow as late as possible, so that factors multiply small
// ones.
func (k *mergedKernel) of(n *ir.Node) kernelPart {
	x, vector := k.withVector(n)
	switch {
	case n == k.x:
		return kernelPart{w: k.ones(), kernel: k.kernel.image()}
	case n.Is(op.BatchNormDef):
		in := n.MapIn(k.lookup)
		scale := batchNormScale(n, in)
		p := k.scaled(n.In[0], scale)
		p.bias = sumOf(p.bias, op.Sub(in[2], op.Mul(in[3], scale)))
		return p
	case x == nil && n.Is(op.AddDef, op.SubDef):
		return k.sumOf(n)
	case x == nil:
		p := kernelPart{w: k.lookup(n.In[1]), kernel: kernelOf(n)}
		if b := n.In[op.ConvBias]; b != nil {
			p.bias = k.lookup(b)
		}
		return p
	}
	numel, _ := vector.Type.Shape.Numel()
	v := op.Reshape(k.lookup(vector), ir.Shape{numel})
	if n.Is(op.MulDef) {
		return k.scaled(x, v)
	}
	if n.Is(op.SubDef) {
		v = op.Neg(v)
	}
	p := k.of(x)
	p.bias = sumOf(p.bias, op.Expand(v, ir.Shape{n.Type.Shape[1]}))
	return p
}

// sumOf returns that of a sum of two parts, or a difference.
func (k *mergedKernel) sumOf(n *ir.Node) kernelPart {
	x, y := k.of(n.In[0]), k.of(n.In[1])
	p := kernelPart{w: k.grown(x), kernel: k.kernel}
	if n.Is(op.AddDef) {
		p.w, p.bias = op.Add(p.w, k.grown(y)), sumOf(x.bias, y.bias)
		return p
	}
	if y.bias != nil {
		y.bias = op.Neg(y.bias)
	}
	p.w, p.bias = op.Sub(p.w, k.grown(y)), sumOf(x.bias, y.bias)
	return p
}

// sumOf returns the sum of a and b, of which each may be nil.
func sumOf(a, b *ir.Node) *ir.Node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return op.Add(a, b)
}

// scaled returns that of part n times a vector of a factor for each channel.
func (k *mergedKernel) scaled(n, factor *ir.Node) kernelPart {
	p := k.of(n)
	if p.bias != nil {
		p.bias = op.Mul(p.bias, factor)
	}
	shape := ir.Shape{factor.Type.Shape[0]}
	for range n.Type.Rank() - 1 {
		shape = append(shape, ir.Static(1))
	}
	p.w = op.Mul(p.w, op.Reshape(factor, shape))
	return p
}

// grown returns the weights of a part as weights of the whole kernel.
func (k *mergedKernel) grown(p kernelPart) *ir.Node {
	if p.kernel.size == k.kernel.size {
		return p.w
	}
	at, _ := k.kernel.place(p.kernel)
	before, after := []int{0, 0}, []int{0, 0}
	for i := 3 - k.kernel.Axes; i < 3; i++ {
		before, after = append(before, at[i]), append(after, k.kernel.size[i]-at[i]-p.kernel.size[i])
	}
	return op.Pad(p.w, before, after, 0)
}

// ones returns the weights of the image: [C, C/groups, 1...] with a 1 where a channel reads itself.
func (k *mergedKernel) ones() *ir.Node {
	shape := ir.Shape{k.x.Type.Shape[1], k.conv.In[1].Type.Shape[1]}
	for range k.kernel.Axes {
		shape = append(shape, ir.Static(1))
	}
	t := ir.Type{DType: dtype.I32, Shape: shape}
	reads := op.Remainder(op.Iota(k.out, 0, t), op.Const(k.out, float64(shape[1].Const), t))
	return op.Cast(op.Eq(reads, op.Iota(k.out, 1, t)), dtype.F32)
}
