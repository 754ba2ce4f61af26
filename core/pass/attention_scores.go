package pass

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// scoresForm describes scores as softcap * tanh(scale * factor * q·kᵀ / softcap). Terms are added to them, and masks
// replace some of them.
type scoresForm struct {
	product
	softcap float64     // 0 if there is no soft cap
	factor  *scoreTerm  // a factor that is the same for all keys, such as one per head; may be nil
	terms   []scoreTerm // added to the scores
	masks   []scoreMask
	span    keySpan // the part of the masks that depends on positions, if all of them do
	chain   []*ir.Node
}

// scoreTerm is a value that broadcasts to scores of some view.
type scoreTerm struct {
	n     *ir.Node
	full  ir.Shape // of the scores
	times float64  // factor of the value
}

// scoreMask replaces scores by a number where cond is false, or where it is true if opposite is set.
type scoreMask struct {
	cond     *ir.Node
	full     ir.Shape
	opposite bool
	never    float64
	spanned  bool // the condition is part of the span
}

// stored returns a node between the scores and the product that another node reads, or nil.
func (s *scoresForm) stored(uses []int) *ir.Node {
	for _, n := range s.chain {
		if uses[n.ID] != 1 {
			return n
		}
	}
	return nil
}

// plain reports whether only a scale has been applied to the product.
func (s *scoresForm) plain() bool {
	return s.softcap == 0 && s.factor == nil && len(s.terms) == 0 && len(s.masks) == 0
}

// spanOnly reports whether the span expresses all terms and masks.
func (s *scoresForm) spanOnly() bool {
	return len(s.terms) == 0 && s.span != keySpan{} &&
		!slices.ContainsFunc(s.masks, func(m scoreMask) bool { return !m.spanned })
}

// scoresFinder recognises scores. It remembers nodes that are not scores, because it tries both operands of sums.
type scoresFinder struct {
	c    *context
	none map[*ir.Node]string
}

// find recognises scores at n, the operand of softmax: a product that is scaled, capped, masked and biased, in any
// order that attention can express. If n does not have this form, why has the reason.
func (f *scoresFinder) find(n *ir.Node) (s scoresForm, why string) {
	if why = f.none[n]; why != "" {
		return s, why
	}
	switch {
	case n.Is(op.MatMulDef):
		var ok bool
		if s.product, ok = productOf(n); !ok {
			why = "product " + n.Label() + " is transposed, or of two types"
		}
	case n.Is(op.ReshapeDef):
		if s, why = f.find(n.In[0]); why == "" && !keepsLastTwo(n.In[0], n) {
			why = fmt.Sprintf("reshape %s of scores %v to %v mixes queries or keys with other axes", n.Label(),
				n.In[0].Type, n.Type)
		}
	case n.Is(op.CastDef) && n.Type.DType.IsFloat() && n.In[0].Type.DType.IsFloat():
		s, why = f.find(n.In[0])
	case n.Is(op.AddDef):
		s, why = f.sum(n)
	case n.Is(op.SubDef) && sameElems(n, n.In[0]):
		if s, why = f.find(n.In[0]); why == "" {
			s.terms = append(s.terms, scoreTerm{n.In[1], n.Type.Shape, -1})
		}
	case n.Is(op.MulDef, op.DivDef):
		s, why = f.multiple(n)
	case n.Is(op.TanhDef):
		if s, why = f.find(n.In[0]); why == "" && !s.plain() {
			why = "tanh " + n.Label() + " caps scores that are masked or biased already"
		}
		s.softcap = 1
	case n.Is(op.MaxDef) && sameElems(n, n.In[0]) && isMaskedAway(n.In[1]):
		s, why = f.find(n.In[0])
	case n.Is(op.WhereDef):
		s, why = f.masked(n)
	default:
		why = fmt.Sprintf("%s %s is not a product of queries and keys", n.OpName(), n.Label())
	}
	if why != "" {
		f.none[n] = why
		return s, why
	}
	s.chain = append(s.chain, n)
	return s, ""
}

// keepsLastTwo reports whether a reshape of x to y changes only axes before the last two.
func keepsLastTwo(x, y *ir.Node) bool {
	r, t := x.Type.Rank(), y.Type.Rank()
	return r >= 2 && t >= 2 && x.Type.Shape[r-2:].Equal(y.Type.Shape[t-2:])
}

// sum recognises scores with a bias.
func (f *scoresFinder) sum(n *ir.Node) (s scoresForm, why string) {
	for i, x := range n.In {
		if !sameElems(n, x) {
			continue
		}
		var other string
		if s, other = f.find(x); other == "" {
			s.terms = append(s.terms, scoreTerm{n.In[1-i], n.Type.Shape, 1})
			return s, ""
		}
		if why == "" {
			why = other
		}
	}
	if why == "" {
		why = fmt.Sprintf("sum %s %v repeats the scores", n.Label(), n.Type)
	}
	return s, why
}

// multiple recognises scores times a number, or times a value that is the same for all keys.
func (f *scoresFinder) multiple(n *ir.Node) (s scoresForm, why string) {
	if base, v := unscaleOnce(n); base != nil {
		if s, why = f.find(base); why == "" && !s.rescale(v) {
			why = fmt.Sprintf("factor %v of %s enlarges what is masked or capped already", v, n.Label())
		}
		return s, why
	}
	why = fmt.Sprintf("%s %s is not a product of queries and keys", n.OpName(), n.Label())
	for i, x := range n.In {
		other := n.In[1-i]
		r := other.Type.Rank()
		if !n.Is(op.MulDef) || !sameElems(n, x) || r > 0 && !other.Type.Shape[r-1].Is(1) {
			continue
		}
		if s, why = f.find(x); why != "" {
			continue
		}
		if !s.plain() {
			return s, "the factor " + other.Label() + " follows a mask, a bias, a soft cap or another factor"
		}
		s.factor = &scoreTerm{other, n.Type.Shape, 1}
		return s, ""
	}
	return s, why
}

// rescale multiplies the scores by v. It returns false if they can then no longer be expressed.
func (s *scoresForm) rescale(v float64) bool {
	s.scale *= v
	s.softcap *= v
	for i := range s.terms {
		s.terms[i].times *= v
	}
	for i := range s.masks {
		if s.masks[i].never *= v; !(s.masks[i].never <= maskedAway) {
			return false
		}
	}
	return s.softcap >= 0
}

// maskedAway is the largest finite score that counts as masked. Models use -1e9, -1e30 or the smallest number of the
// type. The exponential of such a score is 0 next to that of any other score, and another score added to it does not
// change it.
const maskedAway = -1e30

func isMaskedAway(n *ir.Node) bool {
	v, scalar := scalarOf(n)
	return scalar && v <= maskedAway
}

// masked recognises where(cond, scores, -Inf). The condition may be causal, a sliding window, or any other, and it may
// be negated.
func (f *scoresFinder) masked(n *ir.Node) (s scoresForm, why string) {
	m := scoreMask{cond: n.In[0], full: n.Type.Shape}
	side := 1
	if m.opposite = isMaskedAway(n.In[1]); m.opposite {
		side = 2
	}
	never, scalar := scalarOf(n.In[3-side])
	switch {
	case !scalar:
		return s, fmt.Sprintf("where %s replaces scores by %s, which is not a constant", n.Label(),
			n.In[3-side].Label())
	case !(never <= maskedAway):
		return s, fmt.Sprintf("where %s replaces scores by %v, which is not below %v", n.Label(), never, maskedAway)
	case !sameElems(n, n.In[side]):
		return s, fmt.Sprintf("where %s %v repeats the scores", n.Label(), n.Type)
	}
	if s, why = f.find(n.In[side]); why != "" {
		return s, why
	}
	m.never = never
	if span, ok := f.c.spanOf(m.cond, m.opposite); ok {
		// For a query without keys attention returns zeros, but finite scores gave the mean of all values. A causal
		// query always has key 0.
		if both := s.span.and(span); both.valid() && (math.IsInf(never, -1) || span.hasUpper && span.upper >= 0) {
			s.span, m.spanned = both, true
		}
	}
	s.masks = append(s.masks, m)
	return s, ""
}
