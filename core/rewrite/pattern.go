// Package rewrite is a small engine for local rewrites of graphs. A rule is a pattern that matches a node and its
// operands, and a function that builds the replacement. Work on whole graphs, such as the elimination of common
// subexpressions, does not use it.
//
// It imports core/ir and what that imports, and knows no op.
package rewrite

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
)

// MultiConsumer is the reason that Once records.
const MultiConsumer = "MultiConsumer"

// Pattern reports whether a node matches. It may capture nodes in m.
type Pattern func(n *ir.Node, m *Match) bool

// Match is the state of one attempt to match: the captured nodes and the first miss, which is a reason not to rewrite a
// match.
type Match struct {
	root     *ir.Node
	uses     []int // by node ID; uses as an operand and as an output
	captures []capture
	miss     string
}

// capture is a captured node. There are few, so a list is faster than a map.
type capture struct {
	name string
	node *ir.Node
}

// Node returns the captured node of that name in the old graph. It is nil if no pattern captured it.
func (m *Match) Node(name string) *ir.Node {
	for _, c := range m.captures {
		if c.name == name {
			return c.node
		}
	}
	return nil
}

// Root returns the node that the pattern was tried on.
func (m *Match) Root() *ir.Node { return m.root }

// Uses returns how often a node is read, as an operand or an output of the graph.
func (m *Match) Uses(n *ir.Node) int { return m.uses[n.ID] }

// Miss records why a matching node is not rewritten. Only the first reason is kept.
func (m *Match) Miss(reason string) {
	if m.miss == "" {
		m.miss = reason
	}
}

// mark returns a copy of m. Assigning it to *m undoes the captures and misses since. Captures after that do not
// overwrite those of other copies.
func (m *Match) mark() Match {
	c := *m
	c.captures = slices.Clip(c.captures)
	return c
}

// Any matches every node. If the name is captured already, only the same node matches.
func Any(name string) Pattern {
	return func(n *ir.Node, m *Match) bool {
		if old := m.Node(name); old != nil {
			return old == n
		}
		m.captures = append(m.captures, capture{name, n})
		return true
	}
}

// As captures the node that p matches.
func As(name string, p Pattern) Pattern {
	same := Any(name)
	return func(n *ir.Node, m *Match) bool { return p(n, m) && same(n, m) }
}

// Op matches a node of the op if it has as many operands as there are patterns and they match in order. It tries both
// orders for a commutative op and prefers one without a miss. Without operand patterns any operands match.
func Op(def *ir.OpDef, in ...Pattern) Pattern {
	operands := func(m *Match, n *ir.Node) bool {
		i := 0
		for _, x := range n.Operands() {
			if !in[i](x, m) {
				return false
			}
			i++
		}
		return true
	}
	return func(n *ir.Node, m *Match) bool {
		switch {
		case n.Op != def:
			return false
		case len(in) == 0:
			return true
		case len(in) != n.Arity():
			return false
		}
		before := m.mark()
		matched := operands(m, n)
		if matched && m.miss == before.miss || !def.Commutative || len(in) != 2 {
			return matched
		}
		first := *m // no match, or one with a miss; the other order may be better
		*m = before
		if in[0](n.In[1], m) && in[1](n.In[0], m) && (!matched || m.miss == before.miss) {
			return true
		}
		*m = first
		return matched
	}
}

// Result matches the node of result k of an op with several results, if p matches the op's own node. The results of an
// op are replaced one at a time, so there must be a rule for each, or one rule that matches any of them with OneOf.
func Result(k int, p Pattern) Pattern {
	return func(n *ir.Node, m *Match) bool {
		by, result := n.Maker()
		return by != n && result == k && p(by, m)
	}
}

// OneOf matches if any pattern does. The first that matches is used.
func OneOf(ps ...Pattern) Pattern {
	return func(n *ir.Node, m *Match) bool {
		for _, p := range ps {
			before := m.mark()
			if p(n, m) {
				return true
			}
			*m = before
		}
		return false
	}
}

// If matches if p does and ok returns true.
func If(p Pattern, ok func(n *ir.Node) bool) Pattern {
	return func(n *ir.Node, m *Match) bool { return p(n, m) && ok(n) }
}

// Once matches like p. But if the node has other uses, which include outputs of the graph, it records a miss: fusing
// the node would compute it twice or lose a value that another node reads.
func Once(p Pattern) Pattern {
	return func(n *ir.Node, m *Match) bool {
		if !p(n, m) {
			return false
		}
		if m.uses[n.ID] != 1 {
			m.Miss(MultiConsumer)
		}
		return true
	}
}
