package pass

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// attentionSizes are the sizes of the op: batch, query and key-value heads, lengths and head dims.
type attentionSizes struct {
	b, sq, sk     ir.Dim
	h, hkv, d, dv int64
	// lead are the axes of the scores before queries and keys, in the form with the most axes. The axes before axis
	// heads are the batch.
	lead  ir.Shape
	heads int
}

// attentionOperand is q, k or v below reshapes, and below a transpose of the last two axes.
type attentionOperand struct {
	n     *ir.Node
	trans bool
	// lead are the axes before the last two of the operand. full are the same axes without those that repeat. Where
	// lead has an axis of 1 and full has not, the operand repeats.
	lead, full ir.Shape
	repeats    []bool // by axis of attentionSizes.lead; nil if no axis repeats
}

// bare returns the operand below x, and a constant factor of it.
func bare(x *ir.Node, trans bool) (o attentionOperand, factor float64) {
	factor = 1
	for o = (attentionOperand{n: x, trans: trans}); ; {
		n, f := unscaleKeepShape(o.n)
		o.n, factor = n, factor*f
		switch {
		case n.Is(op.ReshapeDef) && keepsLastTwo(n.In[0], n):
			o.n = n.In[0]
		case n.Is(op.TransposeDef) && n.Type.Rank() > 2 && swapsLastTwo(n):
			o.n, o.trans = n.In[0], !o.trans
		default:
			o.lead = leading(n)
			o.full = o.lead
			if n.Is(op.ExpandDef) && n.In[0].Type.Rank() == n.Type.Rank() && keepsLastTwo(n.In[0], n) {
				o.n = n.In[0]
				o.lead = leading(o.n)
				for o.n.Is(op.ReshapeDef) && keepsLastTwo(o.n.In[0], o.n) {
					o.n = o.n.In[0]
				}
			}
			return o, factor
		}
	}
}

// leading returns the axes before the last two.
func leading(n *ir.Node) ir.Shape { return n.Type.Shape[:n.Type.Rank()-2] }

// fits decides which axes are batch and heads, and checks that the operands have them. If they do not, why has the
// reason. p is the softmax, n the last product.
func (a *attentionForm) fits(n, p *ir.Node) (why string) {
	var factor float64
	for i, x := range []*ir.Node{a.q, a.k, n.In[1]} {
		a.operands[i], factor = bare(x, i == 1 && a.kTrans)
		if i == 2 && factor != 1 || i == 2 && a.operands[2].trans { // a factor of v stays
			a.operands[2] = attentionOperand{n: x, lead: leading(x), full: leading(x)}
			factor = 1
		}
		a.scale *= factor
	}
	r := a.mm.Type.Rank()
	a.sq, a.sk = a.mm.Type.Shape[r-2], a.mm.Type.Shape[r-1]
	a.chooseLead(n, p)
	products := [3]*ir.Node{a.mm, a.mm, n}
	for i := range a.operands {
		if why = a.place(&a.operands[i], leading(products[i])); why != "" {
			return fmt.Sprintf("%s %s %v %s", []string{"query", "key", "value"}[i], a.operands[i].n.Label(),
				a.operands[i].n.Type, why)
		}
	}
	a.divide()
	qs, vs := a.operands[0].n.Type.Shape, a.operands[2].n.Type.Shape
	d, dv := qs[len(qs)-1], vs[len(vs)-1]
	if a.operands[0].trans {
		d = qs[len(qs)-2]
	}
	if !d.IsStatic() || !dv.IsStatic() || d.Const < 1 || dv.Const < 1 || a.h < 1 || a.h > 1<<20 {
		return fmt.Sprintf("query %v and value %v need static head dims of 1 or more", qs, vs)
	}
	a.d, a.dv = d.Const, dv.Const
	if !a.q.Type.DType.IsFloat() || !n.Type.DType.IsFloat() {
		return fmt.Sprintf("query %v and value %v must be floats", a.q.Type, n.In[1].Type)
	}
	return ""
}

// chooseLead chooses lead among the leading axes of the scores' forms and of the operands: those with the most axes
// longer than 1.
func (a *attentionForm) chooseLead(n, p *ir.Node) {
	whole, _ := leading(p).Numel()
	most := -1
	consider := func(s ir.Shape) {
		axes := 0
		for _, d := range s {
			if !d.Is(1) {
				axes++
			}
		}
		if e, ok := s.Numel(); ok && e == whole && axes > most {
			a.lead, most = s, axes
		}
	}
	consider(leading(p))
	consider(leading(a.mm))
	for _, x := range a.chain {
		consider(leading(x))
	}
	for _, o := range a.operands {
		consider(o.full)
	}
	consider(leading(n))
}

// refine divides the axes of coarse into those of fine, both without the last two. It returns, for each axis of fine,
// its axis of coarse, or -1 for an axis of 1.
func refine(coarse, fine ir.Shape) (of []int, ok bool) {
	i, part := 0, ir.Static(1)
	for _, d := range fine {
		if d.Is(1) {
			of = append(of, -1)
			continue
		}
		for part.Is(1) && i < len(coarse) && coarse[i].Is(1) {
			i++
		}
		if part, ok = part.Mul(d); !ok || i == len(coarse) {
			return nil, false
		}
		of = append(of, i)
		if part == coarse[i] {
			i, part = i+1, ir.Static(1)
		}
	}
	for ; i < len(coarse); i++ {
		if !coarse[i].Is(1) {
			return nil, false
		}
	}
	return of, part.Is(1)
}

// place sets on which axes of a.lead an operand repeats. product is the leading axes of the product that reads it.
func (a *attentionForm) place(o *attentionOperand, product ir.Shape) (why string) {
	whole, _ := a.lead.Numel()
	if e, ok := o.lead.Numel(); ok && e == whole {
		return ""
	}
	if e, ok := o.full.Numel(); !ok || e != whole { // the product repeats it
		if len(o.lead) > len(product) {
			return fmt.Sprintf("does not have the axes %v", product)
		}
		o.full = product
	}
	for len(o.lead) < len(o.full) {
		o.lead = append(ir.Shape{ir.Static(1)}, o.lead...)
	}
	for i, d := range o.lead {
		if !d.Is(1) && d != o.full[i] {
			return fmt.Sprintf("does not have the axes %v", o.full)
		}
	}
	of, ok := refine(o.full, a.lead)
	if !ok {
		return fmt.Sprintf("has axes that do not divide those of the scores, %v", a.lead)
	}
	o.repeats = make([]bool, len(a.lead))
	for j, i := range of {
		o.repeats[j] = i >= 0 && o.lead[i].Is(1)
	}
	return ""
}

// divide chooses the axes that are heads, and the number of heads of k and v. k and v have fewer heads if both repeat
// on the last axes. Otherwise a value that repeats is expanded.
func (a *attentionForm) divide() {
	k, v := a.operands[1].repeats, a.operands[2].repeats
	first := slices.Index(k, true)
	grouped := first >= 0 && slices.Equal(k, v)
	for j := max(first, 0); j < len(a.lead) && grouped; j++ {
		grouped = (k[j] || a.lead[j].Is(1)) && a.lead[j].IsStatic()
	}
	product := func(s ir.Shape) ir.Dim { n, _ := s.Numel(); return n }
	a.hkv = 1
	switch {
	case !grouped:
		a.operands[1].repeats, a.operands[2].repeats = expandAll(k), expandAll(v)
		a.heads = len(a.lead)
		if len(a.lead) > 1 && a.lead[len(a.lead)-1].IsStatic() {
			a.heads--
		}
		a.h = product(a.lead[a.heads:]).Const
		a.hkv = a.h
	default:
		a.operands[1].repeats, a.operands[2].repeats = nil, nil
		a.heads = first
		if first >= 2 && a.lead[first-1].IsStatic() {
			a.heads--
			a.hkv = a.lead[first-1].Const
		}
		a.h = product(a.lead[a.heads:]).Const
	}
	a.operands[0].repeats = expandAll(a.operands[0].repeats)
	a.b = product(a.lead[:a.heads])
}

// expandAll returns repeats, or nil if nothing repeats.
func expandAll(repeats []bool) []bool {
	if slices.Contains(repeats, true) {
		return repeats
	}
	return nil
}

// operand adds q, k or v as [B,H,S,D].
func (a *attentionForm) operand(i int, lookup func(*ir.Node) *ir.Node) *ir.Node {
	o := a.operands[i]
	x := unstacked(o.n, lookup)
	if o.trans {
		r := x.Type.Rank()
		p := make([]int, r)
		for j := range p {
			p[j] = j
		}
		p[r-2], p[r-1] = r-1, r-2
		x = op.Transpose(x, p...)
	}
	r := x.Type.Rank()
	last := x.Type.Shape[r-2:]
	h := a.h
	if i > 0 {
		h = a.hkv
	}
	if o.repeats != nil {
		one, all := slices.Clone(a.lead), append(slices.Clone(a.lead), last...)
		for j, repeats := range o.repeats {
			if repeats {
				one[j] = ir.Static(1)
			}
		}
		x = op.Expand(reshaped(x, append(one, last...)), all)
	}
	return reshaped(x, ir.Shape{a.b, ir.Static(h), last[0], last[1]})
}

// unstacked returns the node of the new graph for x. If x is one index of an axis that a transpose moved, it is taken
// before the transpose, so that attention can read it without a copy:
//
//	t = transpose y {perm=[2,0,3,1,4]}                        y [B,S,3,H,D]
//	x = narrow t {axis=0, len=1, start=1}   ->   transpose of narrow y {axis=2, len=1, start=1}
func unstacked(x *ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
	if !x.Is(op.NarrowDef) || !x.In[0].Is(op.TransposeDef) {
		return lookup(x)
	}
	n, p := x.Attrs.(op.NarrowAttrs), perm(x.In[0])
	if !x.Type.Shape[n.Axis].Is(1) || n.Axis >= len(p)-2 {
		return lookup(x)
	}
	from := p[n.Axis]
	y := op.Narrow(lookup(x.In[0].In[0]), from, n.Start, 1)
	y = op.Reshape(y, withoutAxis(y.Type.Shape, from))
	var rest []int
	for _, axis := range p {
		if axis > from {
			rest = append(rest, axis-1)
		} else if axis < from {
			rest = append(rest, axis)
		}
	}
	return op.Transpose(y, rest...)
}

// mapped adds a term of the scores as [B,H,queries,keys], where dims may be 1.
func (a *attentionForm) mapped(t scoreTerm, lookup func(*ir.Node) *ir.Node) *ir.Node {
	x, own := lookup(t.n), t.n.Type.Shape
	for len(own) < len(t.full) {
		own = append(ir.Shape{ir.Static(1)}, own...)
	}
	r := len(own)
	full := t.full[:r-2]
	of, ok := refine(full, a.lead)
	if !ok { // only its elements are in the same order
		x = op.Expand(reshaped(x, own), append(slices.Clone(full), own[r-2:]...))
		return reshaped(x, ir.Shape{a.b, ir.Static(a.h), own[r-2], own[r-1]})
	}
	parts, expanded := make(ir.Shape, len(a.lead)), slices.Clone(a.lead)
	varies := [2]bool{} // by batch and heads
	part := func(j int) int {
		if j < a.heads {
			return 0
		}
		return 1
	}
	for j, i := range of {
		parts[j] = ir.Static(1)
		if i >= 0 && !own[i].Is(1) {
			parts[j] = a.lead[j]
			varies[part(j)] = true
		}
	}
	four := ir.Shape{ir.Static(1), ir.Static(1), own[r-2], own[r-1]}
	if varies[0] {
		four[0] = a.b
	}
	if varies[1] {
		four[1] = ir.Static(a.h)
	}
	for j := range expanded {
		if !varies[part(j)] {
			expanded[j] = ir.Static(1)
		}
	}
	if !expanded.Equal(parts) {
		x = reshaped(x, append(parts, own[r-2:]...))
		x = op.Expand(x, append(expanded, own[r-2:]...))
	}
	return reshaped(x, four)
}
