package pass

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

// inverse is 1/sqrt(mean(x^2) + eps) over the last axis, times a gain that may be nil.
type inverse struct {
	x    *ir.Node
	eps  float64
	gain *ir.Node
}

// findNorm recognises layer and RMS norm without gain: x times the inverse of its root mean square. Here x may be
// another value minus its mean. The inverse may already be multiplied by the gain.
func findNorm(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	var x *ir.Node
	var r inverse
	switch {
	case n.Is(op.MulDef):
		for i := range 2 {
			if inv, ok := inverseOf(n.In[1-i]); ok && inv.x == n.In[i] {
				x, r = n.In[i], inv
				break
			}
		}
	case n.Is(op.DivDef):
		if u := rootOf(unexpanded(n.In[1])); u != nil {
			if inv, ok := meanSquare(u); ok && inv.x == n.In[0] {
				x, r = n.In[0], inv
			}
		}
	}
	if x == nil || !sameElems(n, x) {
		return nil
	}
	if y := centered(x); y != nil {
		return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return normOf(lookup, y, r, nil, true) }
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return normOf(lookup, x, r, nil, false) }
}

// findShiftedNorm recognises a layer norm that Keras writes as x*i + (beta - mean*i). i is the inverse of the standard
// deviation, perhaps times a gain.
func findShiftedNorm(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	if !n.Is(op.AddDef) {
		return nil
	}
	for i := range 2 {
		a, b := n.In[i], n.In[1-i]
		if !a.Is(op.MulDef) {
			continue
		}
		for j := range 2 {
			x, inv := a.In[j], a.In[1-j]
			r, ok := inverseOf(inv)
			if !ok || centered(r.x) != x || !sameElems(n, x) {
				continue
			}
			if beta, ok := shiftBy(b, inv, meanIn(r.x)); ok && (beta == nil || vectorFor(beta, x) != nil) {
				return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return normOf(lookup, x, r, beta, true) }
			}
		}
	}
	return nil
}

// shiftBy recognises beta - mean*inv, also as a sum with (-mean)*inv. beta is nil if nothing is added to that.
func shiftBy(n, inv, mean *ir.Node) (beta *ir.Node, ok bool) {
	product := func(n *ir.Node, of func(*ir.Node) bool) bool {
		return n.Is(op.MulDef) && (n.In[0] == inv && of(n.In[1]) || n.In[1] == inv && of(n.In[0]))
	}
	isMean := func(x *ir.Node) bool { return x == mean }
	opposite := func(n *ir.Node) bool {
		return product(n, func(x *ir.Node) bool { return x.Is(op.NegDef) && x.In[0] == mean }) ||
			n.Is(op.NegDef) && product(n.In[0], isMean)
	}
	switch {
	case n.Is(op.SubDef) && product(n.In[1], isMean):
		return n.In[0], true
	case n.Is(op.AddDef) && opposite(n.In[0]):
		return n.In[1], true
	case n.Is(op.AddDef) && opposite(n.In[1]):
		return n.In[0], true
	}
	return nil, opposite(n)
}

// normOf adds a norm of x.
func normOf(lookup func(*ir.Node) *ir.Node, x *ir.Node, r inverse, beta *ir.Node, center bool) *ir.Node {
	in := lookup(x)
	vector := func(v *ir.Node, or float64) *ir.Node {
		t := ir.Type{DType: x.Type.DType, Shape: x.Type.Shape[x.Type.Rank()-1:]}
		if v == nil {
			return op.Const(in.Graph, or, t)
		}
		return reshaped(lookup(v), t.Shape)
	}
	gamma, b := vector(r.gain, 1), vector(beta, 0)
	if center {
		return op.LayerNorm(in, gamma, b, r.eps)
	}
	return op.RmsNorm(in, gamma, b, r.eps)
}

// vectorFor returns v if it broadcasts only along the last axis of x, and has all elements of that axis.
func vectorFor(v, x *ir.Node) *ir.Node {
	s := v.Type.Shape
	if len(s) == 0 || len(s) > x.Type.Rank() || s[len(s)-1] != x.Type.Shape[x.Type.Rank()-1] ||
		v.Type.DType != x.Type.DType {
		return nil
	}
	for _, d := range s[:len(s)-1] {
		if !d.Is(1) {
			return nil
		}
	}
	return v
}

// inverseOf recognises 1/sqrt(mean(x^2) + eps), perhaps times a gain.
func inverseOf(n *ir.Node) (r inverse, ok bool) {
	n = unexpanded(n)
	if n.Is(op.MulDef) {
		for i := range 2 {
			if r, ok = inverseOf(n.In[i]); ok && r.gain == nil {
				r.gain = vectorFor(n.In[1-i], r.x)
				return r, r.gain != nil
			}
		}
		return r, false
	}
	var u *ir.Node
	switch {
	case n.Is(op.RsqrtDef):
		u = n.In[0]
	case n.Is(op.ReciprocalDef):
		u = rootOf(n.In[0])
	case n.Is(op.DivDef) && isNumber(n.In[0], 1):
		u = rootOf(n.In[1])
	case n.Is(op.PowDef) && isNumber(n.In[1], -0.5):
		u = n.In[0]
	}
	if u == nil {
		return r, false
	}
	return meanSquare(u)
}

// unexpanded returns n without a repetition that other ops do by broadcasting.
func unexpanded(n *ir.Node) *ir.Node {
	for n.Is(op.ExpandDef) && n.In[0].Type.Rank() == n.Type.Rank() {
		n = n.In[0]
	}
	return n
}

// rootOf returns u if n is its square root.
func rootOf(n *ir.Node) *ir.Node {
	switch {
	case n.Is(op.SqrtDef):
		return n.In[0]
	case n.Is(op.PowDef) && isNumber(n.In[1], 0.5):
		return n.In[0]
	}
	return nil
}

// meanSquare recognises mean(x^2) + eps.
func meanSquare(u *ir.Node) (r inverse, ok bool) {
	m, eps, ok := otherThan(u, op.AddDef)
	if !ok || !(eps >= 0) || math.IsInf(eps, 0) {
		return r, false
	}
	if y := meanOf(m); y != nil {
		if x := isSquare(y); x != nil {
			return inverse{x: x, eps: eps}, true
		}
	}
	return r, false
}

// meanOf returns x if n is its mean over the last axis, which stays as an axis of 1.
func meanOf(n *ir.Node) *ir.Node {
	last := func(n *ir.Node) bool {
		a := n.Attrs.(op.ReduceAttrs)
		return len(a.Axes) == 1 && a.Axes[0] == n.In[0].Type.Rank()-1
	}
	if n.Is(op.ReshapeDef) && n.Type.Rank() == n.In[0].Type.Rank()+1 && n.Type.Shape[n.Type.Rank()-1].Is(1) {
		n = n.In[0] // the mean of an exporter that drops the axis first
	}
	if n.Is(op.ReduceMeanDef) && last(n) {
		return n.In[0]
	}
	if !n.Is(op.MulDef, op.DivDef) {
		return nil
	}
	base, f := unscaleOnce(n)
	if base == nil || !base.Is(op.ReduceSumDef) || !last(base) {
		return nil
	}
	x := base.In[0]
	if h := x.Type.Shape[x.Type.Rank()-1]; h.IsStatic() && near(f*float64(h.Const), 1) {
		return x
	}
	return nil
}

// centered returns y if x is y minus its mean over the last axis.
func centered(x *ir.Node) *ir.Node {
	if x.Is(op.SubDef) && meanOf(unexpanded(x.In[1])) == x.In[0] && x.Type.Shape.Equal(x.In[0].Type.Shape) {
		return x.In[0]
	}
	return nil
}

// meanIn returns the mean that x subtracts.
func meanIn(x *ir.Node) *ir.Node { return x.In[1] }

// findL2Norm recognises x / max(sqrt(sum(x^2)), eps) over one axis.
func findL2Norm(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	if !n.Is(op.DivDef) || !sameElems(n, n.In[0]) {
		return nil
	}
	x := n.In[0]
	root, eps, ok := otherThan(unexpanded(n.In[1]), op.MaxDef)
	if !ok {
		clamped := unexpanded(n.In[1])
		if !clamped.Is(op.ClampDef) || !math.IsInf(clamped.Attrs.(op.ClampAttrs).Min, 1) {
			return nil
		}
		root, eps = clamped.In[0], clamped.Attrs.(op.ClampAttrs).Max
	}
	s := rootOf(root)
	if s == nil || !s.Is(op.ReduceSumDef) || isSquare(s.In[0]) != x || !(eps >= 0) || math.IsInf(eps, 0) {
		return nil
	}
	a := s.Attrs.(op.ReduceAttrs)
	if len(a.Axes) != 1 || !a.KeepDims {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return op.L2Norm(lookup(x), eps, a.Axes...) }
}

// foundRules complete norms and rotary embeddings that findOps made. A gain and a shift that follow a norm become its
// gamma and beta. Casts around a norm are dropped, since norms compute in f32 in any case.
var foundRules = []rw.Rule{
	{Name: "norm-gain", Match: rw.Op(op.MulDef, rw.As("n", rw.Op(op.LayerNormDef)), rw.Any("g")), To: addGain},
	{Name: "norm-gain", Match: rw.Op(op.MulDef, rw.As("n", rw.Op(op.RmsNormDef)), rw.Any("g")), To: addGain},
	{Name: "norm-gain", Match: rw.Op(op.MulDef, rw.As("n", rw.Op(op.GroupNormDef)), rw.Any("g")), To: addGain},
	{Name: "norm-shift", Match: rw.Op(op.AddDef, rw.As("n", rw.Op(op.LayerNormDef)), rw.Any("g")), To: addShift},
	{Name: "norm-shift", Match: rw.Op(op.AddDef, rw.As("n", rw.Op(op.GroupNormDef)), rw.Any("g")), To: addShift},
	{Name: "norm-casts", Match: rw.If(rw.Op(op.CastDef, rw.Once(rw.As("n", rw.OneOf(rw.Op(op.LayerNormDef),
		rw.Op(op.RmsNormDef))))), castNorm), To: func(c *rw.Context) *ir.Node {
		n := c.Node("n")
		in := n.MapIn(c.Map)
		in[0] = c.Map(n.In[0].In[0])
		for i, x := range in[1:] {
			if v, ok := scalarOf(x); ok {
				in[1+i] = op.Const(c.Out, v, ir.Type{DType: c.Root().Type.DType, Shape: x.Type.Shape})
			}
		}
		return c.Out.Add(n.Op, n.Attrs, in...)
	}},
	{Name: "roll-roll", Match: rw.Op(op.RollDef, rw.Once(rw.As("r", rw.Op(op.RollDef)))), To: mergeRolls},
	{Name: "rope-part-of-head", Match: rw.Op(op.ConcatDef), To: partialRope},
}

// castNorm reports whether n casts a norm in f32 back to the type of the norm's operand before its cast.
func castNorm(n *ir.Node) bool {
	norm := n.In[0]
	x := norm.In[0]
	if !x.Is(op.CastDef) || norm.Type.DType != dtype.F32 || x.In[0].Type.DType != n.Type.DType {
		return false
	}
	for _, v := range norm.In[1:] {
		if _, ok := scalarOf(v); !ok {
			return false
		}
	}
	return n.Type.DType == dtype.F16 || n.Type.DType == dtype.BF16
}

// addGain makes a factor the gamma of a norm that has neither gamma nor beta.
func addGain(c *rw.Context) *ir.Node {
	if one, ok := scalarOf(c.Node("n").In[1]); !ok || one != 1 {
		return nil
	}
	return addVector(c, 1)
}

// addShift makes a term the beta of a norm that has no beta.
func addShift(c *rw.Context) *ir.Node { return addVector(c, 2) }

// addVector makes g an operand of the norm n, which has no beta.
func addVector(c *rw.Context, operand int) *ir.Node {
	n, g := c.Node("n"), c.Node("g")
	fits := vectorFor
	if n.Is(op.GroupNormDef) {
		fits = channelsFor
	}
	if zero, ok := scalarOf(n.In[2]); !ok || zero != 0 || fits(g, n) == nil || !n.Type.Equal(c.Root().Type) {
		return nil
	}
	if c.Uses(n) != 1 {
		c.Miss(rw.MultiConsumer)
		return nil
	}
	in := n.MapIn(c.Map)
	in[operand] = reshaped(c.Map(g), n.In[operand].Type.Shape)
	return c.Out.Add(n.Op, n.Attrs, in...)
}
