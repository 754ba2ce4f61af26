// Package rewrite is a small engine for local rewrites of graphs: a rule is a pattern over a node and its operands, and a
// function that builds the replacement. Whole-graph work (CSE, placing) is a plain function over ir.Graph instead.
//
// It imports core/ir and below, and knows no op.
package rewrite

import "github.com/rlx-go/rlx/core/ir"

// MultiConsumer is the miss reason of Once.
const MultiConsumer = "MultiConsumer"

// Pattern reports whether a node matches, and captures nodes on the way.
type Pattern func(n *ir.Node, m *Match) bool

// Match is the state of one attempt: captures, and the first reason not to rewrite although the shape fits.
type Match struct {
	root     *ir.Node
	uses     []int // by node ID, as an operand and as an output
	captures map[string]*ir.Node
	miss     string
}

// Node is the captured node of that name in the graph that is read; nil if an alternative did not capture it.
func (m *Match) Node(name string) *ir.Node { return m.captures[name] }

// Root is the node that the pattern was tried on.
func (m *Match) Root() *ir.Node { return m.root }

// Miss records why a site that matches is not rewritten, for the report. The first reason counts.
func (m *Match) Miss(reason string) {
	if m.miss == "" {
		m.miss = reason
	}
}

// mark and reset undo captures and misses of an alternative that failed.
func (m *Match) mark() Match {
	c := *m
	c.captures = make(map[string]*ir.Node, len(m.captures))
	for k, v := range m.captures {
		c.captures[k] = v
	}
	return c
}

// Any matches every node. If the name is captured already, only the same node matches.
func Any(name string) Pattern {
	return func(n *ir.Node, m *Match) bool {
		if old := m.captures[name]; old != nil {
			return old == n
		}
		m.captures[name] = n
		return true
	}
}

// As captures what p matches.
func As(name string, p Pattern) Pattern {
	capture := Any(name)
	return func(n *ir.Node, m *Match) bool { return p(n, m) && capture(n, m) }
}

// Op matches a node of the op whose operands match; for a commutative op in either order, preferably one without a
// miss. Without operand patterns any operands match.
func Op(def *ir.OpDef, in ...Pattern) Pattern {
	operands := func(m *Match, nodes ...*ir.Node) bool {
		for i, p := range in {
			if !p(nodes[i], m) {
				return false
			}
		}
		return true
	}
	return func(n *ir.Node, m *Match) bool {
		switch {
		case n.Op != def:
			return false
		case len(in) == 0:
			return true
		case len(in) != len(n.In):
			return false
		}
		before := m.mark()
		matched := operands(m, n.In...)
		if matched && m.miss == before.miss || !def.Commutative || len(in) != 2 {
			return matched
		}
		first := *m // no match, or one with a miss: the other order may be better
		*m = before.mark()
		if operands(m, n.In[1], n.In[0]) && (!matched || m.miss == before.miss) {
			return true
		}
		*m = first
		return matched
	}
}

// Result matches the node of result k of an op with several, whose own node p matches. Such an op's results are replaced one
// by one: a rule for each, or one rule whose Match has them all in OneOf.
func Result(k int, p Pattern) Pattern {
	return func(n *ir.Node, m *Match) bool {
		by, result := n.Maker()
		return by != n && result == k && p(by, m)
	}
}

// OneOf matches if one of the patterns does; the first that does wins.
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

// If matches if p does and the node meets a condition.
func If(p Pattern, ok func(n *ir.Node) bool) Pattern {
	return func(n *ir.Node, m *Match) bool { return p(n, m) && ok(n) }
}

// Once matches like p, but a node with other uses (graph outputs count) stops the rewrite and is reported as a miss:
// fusing it would compute it twice, or lose a value that another node reads.
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
