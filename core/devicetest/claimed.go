package devicetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// A recipe makes programs of any number of steps from ops that a target claims. The checks that are not about an op use
// it, so that they run on every backend that claims an op at all.
type recipe struct {
	// the ops, used in turn, with static operands of the largest sizes; all have the same operand types
	subs    []subject
	types   []ir.Type // of the operands; sizes may depend on the symbol N
	out     ir.Type   // declared type of the result, for ops whose type does not follow from the operands
	largest int64     // of N, whose smallest value is 1; 0 if there is no symbol
	weights []bool    // whether each operand is a param instead of an input
	// chained says that each step takes the result of the step before it as operand 0. The ops then do not round.
	// Otherwise all steps take the same operands, and every result is an output.
	chained bool
}

// Limits of the subjects from which recipes are made. Some checks run hundreds of steps.
const (
	plainElements = 3000
	plainFLOPs    = 100_000
)

// want selects recipes.
type want struct {
	kind string // kind of op, for messages
	of   func(*ir.OpDef) bool
	suit func(*recipe) bool
}

// The recipes that checks need.
var (
	anyRecipe = want{kind: "op that computes", of: func(*ir.OpDef) bool { return true }, suit: func(*recipe) bool {
		return true
	}}
	tupleOp = want{kind: "op with several results", of: func(d *ir.OpDef) bool { return d.Tuple },
		suit: func(*recipe) bool { return true }}
	withParams = want{kind: "op of a param", of: func(*ir.OpDef) bool { return true }, suit: func(r *recipe) bool {
		return slices.Contains(r.weights, true)
	}}
	passingNaN = want{kind: "op of floats that passes a NaN on", of: func(*ir.OpDef) bool { return true },
		suit: (*recipe).passesNaN}
)

// furtherTries is how many recipes are tried after the first that a target takes, in the hope for a better one.
const furtherTries = 60

// claimedRecipe returns a recipe that a target takes and w selects. If possible, it has a symbol, is chained, has
// floats and no params. If there is no recipe, why is the reason.
func claimedRecipe(to *target.Description, w want) (best *recipe, why string) {
	if r := negAbs(); w.of(op.NegDef) && r.claimed(to) && w.suit(r) {
		return r, ""
	}
	defs := claimedOps(to, w)
	if defs == nil {
		return nil, to.Name + " claims no " + w.kind
	}
	if best := bestRecipe(to, w, defs, false); best != nil {
		return best, ""
	}
	if w.kind != anyRecipe.kind {
		return nil, to.Name + " claims no " + w.kind
	}
	if best := bestRecipe(to, w, defs, true); best != nil {
		return best, ""
	}
	var names []string
	for _, d := range defs {
		names = append(names, d.Name)
	}
	return nil, fmt.Sprintf("no known case fits the ops that %s claims: %s", to.Name, strings.Join(names, ", "))
}

// claimedOps returns the ops that a target claims and w allows.
func claimedOps(to *target.Description, w want) (defs []*ir.OpDef) {
	for _, d := range ir.Defs() {
		computes := d.Eval != nil && !d.Block && !d.Updates && d != ir.ResultDef && d != ir.StateDef
		if computes && claims(to, d.Name) && w.of(d) {
			defs = append(defs, d)
		}
	}
	return defs
}

// bestRecipe returns the best recipe of the ops that it finds, or nil: of their cases or, with more, of variants of
// them.
func bestRecipe(to *target.Description, w want, defs []*ir.OpDef, more bool) (best *recipe) {
	score, tries := -1, 0
	for _, d := range defs {
		for _, sub := range candidates(to, d, more) {
			for _, r := range sub.recipes() {
				s := r.score()
				if s <= score {
					continue
				}
				tries++
				if r.claimed(to) && w.suit(r) {
					best, score, tries = r, s, 0
				}
				if best != nil && (score == topScore || tries > furtherTries) {
					return best
				}
			}
		}
	}
	return best
}

// claims reports whether a target has a rule for an op.
func claims(to *target.Description, name string) bool {
	return slices.ContainsFunc(to.Rules, func(r target.Rule) bool { return r.Op == name || r.Op == target.AnyOp })
}

// negAbs is the recipe for most backends: neg, abs, neg, abs, and so on, of an f32[N,8] with N from 1 to 6.
func negAbs() *recipe {
	r := &recipe{types: []ir.Type{{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(8)}}}, largest: 6,
		chained: true}
	for _, d := range []*ir.OpDef{op.NegDef, op.AbsDef} {
		t := []ir.Type{ir.TypeOf(dtype.F32, 6, 8)}
		r.subs = append(
			r.subs, subject{d, ir.Case[any]{Attrs: d.NewAttrs(), In: t, Fill: []ir.Range{{Lo: -3, Hi: 3}}}, t})
	}
	return r
}

// candidates returns small cases of an op without empty operands. With more it returns variants of them: other element
// types of the target, further leading axes, other sizes.
func candidates(to *target.Description, d *ir.OpDef, more bool) (out []subject) {
	add := func(c ir.Case[any]) {
		s, err := newSubject(d, c)
		if err == nil && !s.hasEmpty() && s.elements() <= plainElements &&
			d.FLOPs(c.Attrs, s.In, s.outs...) <= plainFLOPs {
			out = append(out, s)
		}
	}
	for i, c := range casesOf(d) {
		if !more {
			add(c)
			continue
		}
		for _, t := range to.Types {
			for lead := range 5 {
				n := c
				n.In = make([]ir.Type, len(c.In))
				for k, x := range append(slices.Clone(c.In), c.Out) {
					if k < len(c.In) && !x.Present() {
						continue
					}
					x.Shape = append(slices.Repeat(ir.Shape{ir.Static(1)}, lead), x.Shape...)
					if first := slices.Concat(c.In, []ir.Type{c.Out})[0]; x.DType == first.DType {
						x.DType = t
					}
					if k < len(c.In) {
						n.In[k] = x
					} else if d.Declared {
						n.Out = x
					}
				}
				add(n)
			}
		}
		if s, err := newSubject(d, c); err == nil {
			for k := range uint64(4) {
				if n, ok := s.resized(rand.New(rand.NewPCG(k, uint64(i)))); ok {
					add(n.Case)
				}
			}
		}
	}
	return out
}

// recipes returns the ways to make programs of a subject, without regard to a target.
func (s subject) recipes() (out []*recipe) {
	masks, present := [][]bool{make([]bool, len(s.In))}, s.present()
	for m := 1; len(present) < 6 && m < 1<<len(present); m++ {
		mask := make([]bool, len(s.In))
		for i, k := range present {
			mask[k] = m>>i&1 == 1
		}
		masks = append(masks, mask)
	}
	if f, ok := s.weightForm(); ok && len(masks) == 1 {
		masks = append(masks, f.weights)
	}
	exact := !s.def.Tuple && len(s.In) > 0 && s.In[0].Equal(s.outs[0]) &&
		s.def.Tol(s.Attrs, s.In, s.outs...)[0] == ir.Tolerance{}
	for _, sized := range s.sized() {
		for _, mask := range masks {
			r := *sized
			r.weights = mask
			out = append(out, &r)
			if exact && !mask[0] {
				c := r
				c.chained = true
				out = append(out, &c)
			}
		}
	}
	return out
}

// sized returns recipes in which a size of s is replaced by the symbol N: in turn, every size of one value, and each
// size alone. The last recipe has no symbol.
func (s subject) sized() (out []*recipe) {
	replaced := func(fits func(operand, axis int, size int64) bool, largest int64) {
		r := &recipe{subs: []subject{s}, out: s.Case.Out, largest: largest}
		for k, t := range append(slices.Clone(s.In), s.Case.Out) {
			t.Shape = slices.Clone(t.Shape)
			for a, d := range t.Shape {
				if fits(k, a, d.Const) {
					t.Shape[a] = ir.Named("N")
				}
			}
			if k < len(s.In) {
				r.types = append(r.types, t)
			} else {
				r.out = t
			}
		}
		out = append(out, r)
	}
	var seen []int64
	for k, t := range append(slices.Clone(s.In), s.Case.Out) {
		for a, d := range t.Shape {
			if d.Const < 2 {
				continue
			}
			if !slices.Contains(seen, d.Const) {
				seen = append(seen, d.Const)
				replaced(func(_, _ int, size int64) bool { return size == d.Const }, d.Const)
			}
			replaced(func(operand, axis int, _ int64) bool { return operand == k && axis == a }, d.Const)
		}
	}
	replaced(func(int, int, int64) bool { return false }, 0)
	return out
}

// topScore is the largest score of a recipe.
const topScore = 8 + 4 + 2 + 1

// score says how much the checks can do with a recipe.
func (r *recipe) score() (n int) {
	if r.largest > 0 {
		n += 8
	}
	if r.chained {
		n += 4
	}
	if !slices.Contains(r.weights, true) {
		n += 2
	}
	if len(r.types) > 0 && r.types[0].DType.IsFloat() {
		n++
	}
	return n
}
