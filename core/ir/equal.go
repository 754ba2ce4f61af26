package ir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Equality requires that two dims have the same value in every run. OpDef.Requires returns the equalities of a node.
// Code that binds sizes checks them; see Graph.CheckSyms.
type Equality struct{ A, B Dim }

// Equate returns the equality of a and b in normal form, without common terms and factors. For example, it turns 2*N+2
// and 2*M+6 into N and M+2. ok is false if the difference exceeds the limits of a dim.
func Equate(a, b Dim) (e Equality, ok bool) {
	diff, ok := a.Sub(b)
	if !ok {
		return Equality{}, false
	}
	var left, right []term
	terms := diff.allTerms()
	by := max(diff.Divisor(), 1)
	if terms[0].coef < 0 {
		by = -by
	}
	for _, t := range terms {
		if t.coef /= by; t.coef > 0 {
			left = append(left, t)
		} else {
			right = append(right, term{-t.coef, t.factors})
		}
	}
	e.A, ok = made(0, left)
	if ok {
		e.B, ok = made(0, right)
	}
	return e, ok
}

// MayBeEqual reports whether a and b may have the same value in some run, according to their bounds.
func (s Syms) MayBeEqual(a, b Dim) bool {
	diff, ok := a.Sub(b)
	if !ok {
		return false
	}
	lo, hi := s.Bounds(diff)
	step, _ := diff.Sub(Static(diff.Const))
	by := step.Divisor()
	return lo <= 0 && hi >= 0 && (by == 0 || diff.Const%by == 0)
}

// Mismatch is the error of type inference for two dims that must be equal and are not the same dim.
type Mismatch struct {
	Have, Want Dim
	msg        string
}

func (e *Mismatch) Error() string { return e.msg }

// Differ returns the error of an op that found the dim have and requires want. If the two may be equal in some runs,
// Graph.Add inserts a reshape that requires it. So all other code may assume that equal sizes are the same dim.
func Differ(have, want Dim, format string, args ...any) error {
	return &Mismatch{have, want, fmt.Sprintf(format, args...)}
}

// TypesDiffer is like Differ for the first dim in which two types differ.
func TypesDiffer(have, want Type, format string, args ...any) error {
	if have.DType == want.DType && len(have.Shape) == len(want.Shape) {
		for i, d := range have.Shape {
			if d != want.Shape[i] {
				return Differ(d, want.Shape[i], format, args...)
			}
		}
	}
	return fmt.Errorf(format, args...)
}

// maxReshapes is the largest number of reshapes that infer inserts for a node.
const maxReshapes = 64

// infer sets the type of n, which is about to be appended and whose operands are nodes of g. It may first append
// reshapes of the operands; see Differ.
func (g *Graph) infer(n *Node, declared Type) error {
	for tries := 0; ; tries++ {
		var err error
		n.ID = len(g.Nodes)
		n.Type, n.Results, err = n.Infer(declared, g.Syms)
		differ := (*Mismatch)(nil)
		if err == nil || tries == maxReshapes || !errors.As(err, &differ) ||
			!g.Syms.MayBeEqual(differ.Have, differ.Want) {
			return err
		}
		if g.exact {
			return fmt.Errorf("%w; a reshape may say that %v and %v are equal", err, differ.Have, differ.Want)
		}
		have, want := differ.Have, differ.Want
		if !n.Op.Declared && len(n.Bodies()) == 0 && g.Syms.prefer(have, want) {
			have, want = want, have
		}
		if done, err2 := g.replaceDim(n, have, want); err2 != nil || !done {
			return cmp.Or(err2, err)
		}
	}
}

// prefer reports whether a should replace b, if the two are equal in every run. It prefers the dim with the lower upper
// bound, so that a view is never larger than its operand, and otherwise the more precise one.
func (s Syms) prefer(a, b Dim) bool {
	_, most := s.Bounds(a)
	_, most2 := s.Bounds(b)
	if most != most2 || a.IsStatic() != b.IsStatic() {
		return most < most2 || most == most2 && a.IsStatic()
	}
	return compareDims(a, b) < 0
}

// replaceDim reshapes the operands of n that have the dim from, so that they have the dim to.
func (g *Graph) replaceDim(n *Node, from, to Dim) (done bool, err error) {
	reshape, ok := Find("reshape") // defined in core/op; the name is part of the contract
	if !ok {
		return false, nil
	}
	n.In = slices.Clone(n.In)
	for _, x := range n.Operands() {
		if !slices.Contains(x.Type.Shape, from) {
			continue
		}
		t := Type{x.Type.DType, slices.Clone(x.Type.Shape)}
		for k, d := range t.Shape {
			if d == from {
				t.Shape[k] = to
			}
		}
		y := &Node{ID: len(g.Nodes), Op: reshape, Attrs: reshape.NewAttrs(), In: []*Node{x}, Graph: g}
		if y.Type, _, err = y.Infer(t, g.Syms); err != nil {
			return false, err
		}
		g.Nodes = append(g.Nodes, y)
		for k := range n.In {
			if n.In[k] == x {
				n.In[k] = y
			}
		}
		done = true
	}
	return done, nil
}

// Requirement is an equality and the node that requires it.
type Requirement struct {
	Node *Node
	Equality
}

// Requires returns the distinct equalities that the nodes of the graph and of its bodies require.
func (g *Graph) Requires() []Requirement {
	var out []Requirement
	seen := map[Equality]bool{}
	for _, x := range append([]*Graph{g}, g.Bodies()...) {
		for _, n := range x.Nodes {
			if n.Op.requires == nil {
				continue
			}
			for _, e := range n.Op.requires(n.Attrs, n.InTypes(), n.Type) {
				if !seen[e] {
					seen[e] = true
					out = append(out, Requirement{n, e})
				}
			}
		}
	}
	return out
}

// CheckSyms returns an error for values of symbols with which the graph cannot run: one is missing, unknown or out of
// its range, or two sizes that must be equal are not.
func (g *Graph) CheckSyms(syms map[string]int64) error {
	if err := g.Syms.Check(syms); err != nil {
		return err
	}
	for _, r := range g.Requires() {
		if err := r.Check(syms); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error if the value of a symbol is missing, unknown or out of its range.
func (s Syms) Check(syms map[string]int64) error {
	for _, x := range s {
		v, ok := syms[x.Name]
		if !ok {
			return fmt.Errorf("size %s is not given", x.Name)
		}
		if v < x.Min || v > x.Max {
			return fmt.Errorf("size %s is %d; allowed are %d to %d", x.Name, v, x.Min, x.Max)
		}
	}
	if len(syms) > len(s) {
		return fmt.Errorf("%d sizes given; the program has %d", len(syms), len(s))
	}
	return nil
}

// Check returns an error if the two dims are not equal for these values of the symbols.
func (r Requirement) Check(syms map[string]int64) error {
	a, b := r.A.Eval(syms), r.B.Eval(syms)
	if a == b {
		return nil
	}
	show := func(d Dim, v int64) string {
		if d.IsStatic() {
			return fmt.Sprint(v)
		}
		return fmt.Sprintf("%v = %d", d, v)
	}
	return fmt.Errorf("sizes %s and %s must be equal (%v)", show(r.A, a), show(r.B, b), r.Node)
}
