package custom

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Pattern is a graph of ops that a node of the definition's op replaces.
type Pattern struct {
	*Definition
	template template
	graph    *ir.Graph                      // for the defaults
	holes    map[*ir.Node]map[string]string // attributes that stand for the op's own, by node
	types    map[*ir.Node]string            // element types of inputs that stand for the op's own attributes
}

// Match is a place in a graph where a pattern fits.
type Match struct {
	Own     []ir.Attr  // the op's own attributes
	In      []*ir.Node // operands
	Outputs []*ir.Node // the values that the op's results replace
	Nodes   []*ir.Node // the nodes that compute the outputs, without operands, constants and iotas
	// Miss says why the outputs cannot be replaced; it is usually empty.
	Miss string
}

// Reasons not to replace a match.
const (
	// MultiConsumer means that an inner value has other uses, or is an output of the graph.
	MultiConsumer = "MultiConsumer"
	// LateOperand means that an operand is computed after an output of the pattern.
	LateOperand = "LateOperand"
)

// Patterns returns the patterns of all definitions, in order.
func (l *Library) Patterns() (out []*Pattern, err error) {
	for _, d := range l.Definitions() {
		for _, t := range d.patterns {
			p, err := d.pattern(t)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// pattern parses a pattern.
func (d *Definition) pattern(t template) (*Pattern, error) {
	text, err := t.fill(d.Defaults)
	if err != nil {
		return nil, err
	}
	p := &Pattern{Definition: d, template: t, holes: map[*ir.Node]map[string]string{}, types: map[*ir.Node]string{}}
	if p.graph, err = t.parse(d, text); err != nil {
		return nil, err
	}
	for line := range strings.Lines(t.text) {
		left, right, ok := strings.Cut(line, " = ")
		label, _, _ := strings.Cut(strings.TrimSpace(left), ",")
		if !ok || strings.HasPrefix(label, "#") {
			continue
		}
		n, named := p.graph.Find(label)
		found := holeAttr().FindAllStringSubmatch(right, -1)
		if m := inputLine().FindStringSubmatch(line); named && m != nil && strings.HasPrefix(m[2], "$") {
			p.types[n] = m[2][1:]
		}
		if len(found) == 0 {
			continue
		}
		if !named {
			return nil, fmt.Errorf("line %d: %s has attributes of the op; give it a name", t.line, label)
		}
		by, _ := n.Maker()
		p.holes[by] = map[string]string{}
		for _, m := range found {
			p.holes[by][m[1]] = m[2][1:]
		}
	}
	return p, nil
}

// checkPattern checks that a pattern has the signature of the expansion and computes the same for random operands.
func (d *Definition) checkPattern(t template, expansion *ir.Graph) error {
	p, err := d.pattern(t)
	if err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("line %d: the pattern "+format, append([]any{t.line}, args...)...)
	}
	need := make([]bool, len(p.graph.Nodes))
	for _, o := range p.graph.Outputs {
		need[o.Node.ID] = true
	}
	for i := len(need) - 1; i >= 0; i-- {
		for _, x := range p.graph.Nodes[i].Operands() {
			need[x.ID] = need[x.ID] || need[i]
		}
	}
	for _, x := range p.graph.Inputs() {
		if !need[x.ID] {
			return fail("does not use its input %s", x.Label())
		}
	}
	if p.graph.Outputs[0].Node.Op.Name == "input" {
		return fail("returns an input")
	}
	in, want := p.graph.Inputs(), expansion.Inputs()
	if len(in) != len(want) || len(p.graph.Outputs) != len(expansion.Outputs) {
		return fail("has %d inputs and %d outputs; the expansion has %d and %d", len(in), len(p.graph.Outputs),
			len(want), len(expansion.Outputs))
	}
	if t == d.expansion {
		return nil
	}
	cases, err := d.Cases()
	if err != nil {
		return err
	}
	for _, c := range cases {
		if err := p.compare(c); err != nil {
			return fail("is not what the op means: for operands %v, %w", c.In, err)
		}
	}
	return nil
}

// Limits of the cases on which a pattern is compared: elements of all values, and operations.
const (
	maxElems = 1 << 20
	maxFLOPs = 20_000_000
)

// compare compares the pattern with the expansion on random operands. It skips cases that are large.
func (p *Pattern) compare(c ir.Case[any]) error {
	a := c.Attrs.(op.CustomAttrs)
	text, err := p.template.fill(a.Own)
	if err != nil {
		return err
	}
	b := a
	if b.Expansion, err = p.template.parse(p.Definition, text); err != nil {
		return err
	}
	want, err := op.CustomDef.InferResults(a, c.In, ir.Type{}, nil)
	if err != nil {
		return err
	}
	got, err := op.CustomDef.InferResults(b, c.In, ir.Type{}, nil)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(got, want, ir.Type.Equal) {
		return fmt.Errorf("it gives %v; the expansion gives %v", got, want)
	}
	for _, x := range []op.CustomAttrs{a, b} {
		g, err := x.Expansion.Bind(c.In, nil)
		if err != nil {
			return err
		}
		var elems int64
		for _, n := range g.Nodes {
			for _, t := range n.ResultTypes() {
				elems += g.Syms.MaxElems(t)
			}
		}
		if elems > maxElems || op.CustomDef.FLOPs(x, c.In, want...) > maxFLOPs {
			return nil
		}
	}
	in := interp.CaseInputs(c, 1)
	var values [2][]*tensor.Array
	for k, attrs := range []op.CustomAttrs{a, b} {
		for _, t := range want {
			values[k] = append(values[k], tensor.NewArray(t.DType, t.Shape.Eval(nil)...))
		}
		if err := op.CustomDef.Eval(attrs, in, values[k]...); err != nil {
			return err
		}
	}
	for k, tol := range op.CustomDef.Tol(a, c.In, want...) {
		if err := interp.Compare(values[1][k], values[0][k], tol); err != nil {
			return fmt.Errorf("result %d: %w", k, err)
		}
	}
	return nil
}

// Uses are the readers of the nodes of a graph.
type Uses struct {
	g       *ir.Graph
	readers [][]*ir.Node
	output  []bool
	taken   []bool // nodes of matches that Take has seen
}

// NewUses finds the readers of all nodes.
func NewUses(g *ir.Graph) *Uses {
	u := &Uses{g, make([][]*ir.Node, len(g.Nodes)), make([]bool, len(g.Nodes)), make([]bool, len(g.Nodes))}
	for _, n := range g.Nodes {
		for _, x := range n.Operands() {
			u.readers[x.ID] = append(u.readers[x.ID], n)
		}
	}
	for _, o := range g.Outputs {
		u.output[o.Node.ID] = true
	}
	return u
}

// Take marks the nodes of a match, so that no later match has them.
func (u *Uses) Take(m *Match) {
	for _, n := range m.Nodes {
		u.taken[n.ID] = true
	}
}

// Match tries the pattern at a node, which becomes the pattern's first output. It returns nil if it does not fit.
func (p *Pattern) Match(u *Uses, root *ir.Node) *Match {
	s := search{p: p, u: u, left: maxTries}
	st := state{to: make([]*ir.Node, len(p.graph.Nodes)), own: map[string]any{}}
	if root.Op != p.graph.Outputs[0].Node.Op || !s.solve([]pair{{p.graph.Outputs[0].Node, root}}, st) {
		return nil
	}
	return s.found
}

// maxTries bounds the search for one match: each operand of a commutative op may be either of two nodes.
const maxTries = 20_000

// search is the search for one match.
type search struct {
	p     *Pattern
	u     *Uses
	left  int
	found *Match
}

// pair is a node of the pattern, and the node of the graph that must fit it.
type pair struct{ pattern, node *ir.Node }

// state is the known part of a match.
type state struct {
	to  []*ir.Node // by node of the pattern
	own map[string]any
}

func (s state) clone() state {
	c := state{slices.Clone(s.to), make(map[string]any, len(s.own))}
	for k, v := range s.own {
		c.own[k] = v
	}
	return c
}

// capture records the value of an attribute of the op. It reports whether it is the first or the same.
func (s state) capture(name string, v any) bool {
	old, ok := s.own[name]
	s.own[name] = v
	return !ok || reflect.DeepEqual(old, v)
}

// solve extends a state so that all pairs fit, and then all outputs of the pattern. It may change st.
func (s *search) solve(work []pair, st state) bool {
	for len(work) > 0 {
		if s.left--; s.left < 0 {
			return false
		}
		w := work[len(work)-1]
		work = work[:len(work)-1]
		if old := st.to[w.pattern.ID]; old != nil {
			if old != w.node {
				return false
			}
			continue
		}
		if !s.p.fits(w, st) {
			return false
		}
		st.to[w.pattern.ID] = w.node
		a, b := w.pattern.In, w.node.In
		if w.pattern.Op.Name == "input" {
			continue
		}
		if w.pattern.Op.Commutative && len(a) == 2 {
			swapped := append(slices.Clone(work), pair{a[0], b[1]}, pair{a[1], b[0]})
			if s.solve(append(slices.Clone(work), pair{a[0], b[0]}, pair{a[1], b[1]}), st.clone()) {
				return true
			}
			work = swapped
			continue
		}
		for k := range a {
			if a[k] != nil {
				work = append(work, pair{a[k], b[k]})
			}
		}
	}
	for _, o := range s.p.graph.Outputs {
		if st.to[o.Node.ID] != nil {
			continue
		}
		for _, n := range s.u.g.Nodes {
			if n.Op == o.Node.Op && s.solve([]pair{{o.Node, n}}, st.clone()) {
				return true
			}
		}
		return false
	}
	s.found = s.p.confirm(s.u, st)
	return s.found != nil
}

// fits reports whether a node has the op and the attributes of a node of the pattern, or may be the operand that an
// input stands for. Operands are compared later.
func (p *Pattern) fits(w pair, st state) bool {
	a, b := w.pattern, w.node
	if a.Op.Name == "input" {
		if b.Op.Tuple || a.Type.Rank() != b.Type.Rank() {
			return false
		}
		if name, ok := p.types[a]; ok {
			return st.capture(name, b.Type.DType)
		}
		return a.Type.DType == b.Type.DType
	}
	if a.Op != b.Op || len(a.In) != len(b.In) {
		return false
	}
	for k := range a.In {
		if (a.In[k] == nil) != (b.In[k] == nil) {
			return false
		}
	}
	have := b.Op.Attrs(b.Attrs)
	for i, want := range a.Op.Attrs(a.Attrs) {
		if name, ok := p.holes[a][want.Name]; ok {
			v := have[i].Value
			for _, d := range p.Defaults {
				if d.Name != name {
					continue
				}
				var ok bool
				if v, ok = convertBack(v, d.Value); !ok {
					return false
				}
			}
			if !st.capture(name, v) {
				return false
			}
		} else if !reflect.DeepEqual(have[i].Value, want.Value) {
			return false
		}
	}
	return true
}

// convertBack returns the value of a node's attribute in the type of the op's own attribute. A whole float stands for
// an integer, because const has its value as a float.
func convertBack(v, like any) (any, bool) {
	if f, ok := v.(float64); ok {
		if _, whole := like.(int64); whole {
			return int64(f), f == float64(int64(f))
		}
	}
	return convert(v, like)
}

// confirm checks that the pattern, with the attributes that were found, has the types of the nodes that were found. The
// search compares no shapes, since those of most nodes follow from the operands.
func (p *Pattern) confirm(u *Uses, st state) *Match {
	m := &Match{Own: slices.Clone(p.Defaults)}
	for i, a := range m.Own {
		if v, ok := st.own[a.Name]; ok {
			m.Own[i].Value = v
		}
	}
	var types []ir.Type
	for _, x := range p.graph.Inputs() {
		n := st.to[x.ID]
		m.In, types = append(m.In, n), append(types, n.Type)
	}
	text, err := p.template.fill(m.Own)
	if err != nil {
		return nil
	}
	g, err := p.template.parse(p.Definition, text)
	if err != nil {
		return nil
	}
	if g, err = g.Bind(types, u.g.Syms); err != nil || len(g.Nodes) != len(st.to) {
		return nil
	}
	inside := map[*ir.Node]bool{}
	for i, n := range st.to {
		if n == nil || g.Nodes[i].Op.Name == "input" {
			continue
		}
		if !alike(g.Nodes[i], n) {
			return nil
		}
		inside[n] = true
	}
	for _, o := range p.graph.Outputs {
		m.Outputs = append(m.Outputs, st.to[o.Node.ID])
	}
	for _, n := range u.g.Nodes {
		if !inside[n] || n.Arity() == 0 { // constants may have other users
			continue
		}
		if u.taken[n.ID] {
			return nil
		}
		m.Nodes = append(m.Nodes, n)
	}
	m.Miss = m.miss(u, inside)
	return m
}

// alike reports whether two nodes have equal types and attributes.
func alike(a, b *ir.Node) bool {
	return a.Type.Equal(b.Type) && slices.EqualFunc(a.Results, b.Results, ir.Type.Equal) &&
		reflect.DeepEqual(a.Op.Attrs(a.Attrs), b.Op.Attrs(b.Attrs))
}

// miss returns why the nodes inside of a match cannot be replaced: others read a value that it does not return, or an
// operand is computed after one of its results. It returns "" if they can.
func (m *Match) miss(u *Uses, inside map[*ir.Node]bool) string {
	outside := func(r *ir.Node) bool { return !inside[r] }
	for _, n := range m.Nodes {
		for _, v := range n.Values() {
			if !slices.Contains(m.Outputs, v) && (u.output[v.ID] || slices.ContainsFunc(u.readers[v.ID], outside)) {
				return MultiConsumer
			}
		}
	}
	first := len(u.g.Nodes)
	for _, n := range m.Outputs {
		first = min(first, n.ID)
	}
	if slices.ContainsFunc(m.In, func(x *ir.Node) bool { return x.ID >= first }) {
		return LateOperand
	}
	return ""
}
