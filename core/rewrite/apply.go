package rewrite

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// Rule is one rewrite.
type Rule struct {
	Name  string
	Match Pattern
	// To builds the replacement, which must have the type of the root. If it returns nil, the node is not changed, and
	// c.Miss may record why. The root always has a value: for an op with several results it is the node of one result
	// (see Result).
	To func(c *Context) *ir.Node
}

// Context gives Rule.To the match in the old graph and access to the new graph.
type Context struct {
	*Match
	Out    *ir.Graph
	lookup func(*ir.Node) *ir.Node
}

// New returns the node of the new graph that replaces the captured node of that name.
func (c *Context) New(name string) *ir.Node { return c.lookup(c.Node(name)) }

// Map returns the node of the new graph that replaces n.
func (c *Context) Map(n *ir.Node) *ir.Node { return c.lookup(n) }

// Event reports that a rule fired at a node, or, if Miss is not empty, why it matched but did not fire.
type Event struct {
	Rule, Node string
	Miss       string
}

// maxSweeps detects rules that undo each other, which would never end.
const maxSweeps = 100

// Apply rewrites g in sweeps until no rule fires. At each node the first rule that fires wins. It returns the new
// graph, an event for each rule that fired, and the misses of the last sweep.
//
// Patterns match the graph as it was at the start of a sweep, so use counts are exact. Replacements of earlier nodes in
// the sweep stay correct, because a rewrite does not change a node's value. The next sweep finds what they make
// possible.
//
// If refuse is not nil, it is called for each node that a rule makes, with the root as old. If it returns a reason, the
// rule does not fire, and the reason is recorded as a miss.
func Apply(g *ir.Graph, rules []Rule, refuse func(old, made *ir.Node) string) (*ir.Graph, []Event, error) {
	var fired []Event
	for range maxSweeps {
		next, events, err := sweep(g, rules, refuse)
		if err != nil {
			return nil, nil, err
		}
		n := 0
		for _, e := range events {
			if e.Miss == "" {
				fired = append(fired, e)
				n++
			}
		}
		if n == 0 {
			return g, append(fired, events...), nil
		}
		g = next
	}
	return nil, nil,
		fmt.Errorf("BUG: rewriting %s does not end; the last rules were %v", g.Name, fired[max(0, len(fired)-4):])
}

func sweep(g *ir.Graph, rules []Rule, refuse func(old, made *ir.Node) string) (*ir.Graph, []Event, error) {
	uses := g.UseCounts()
	var events []Event
	var failed error
	next := &Match{}
	out, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		for _, r := range rules {
			m := next
			*m = Match{root: n, uses: uses, captures: m.captures[:0]}
			if !r.Match(n, m) {
				continue // most rules do not match, so m is used again
			}
			next = &Match{}
			var res *ir.Node
			before := len(out.Nodes)
			if m.miss == "" {
				res = r.To(&Context{m, out, lookup})
			}
			if res != nil && refuse != nil && m.miss == "" {
				for _, made := range out.Nodes[before:] {
					m.Miss(refuse(n, made))
				}
				if m.miss != "" {
					res, out.Nodes = nil, out.Nodes[:before]
				}
			}
			switch {
			case res == nil && m.miss != "":
				events = append(events, Event{r.Name, n.Label(), m.miss})
			case res != nil && out.Err() == nil && !res.Type.Equal(n.Type) && failed == nil:
				failed = fmt.Errorf("BUG: rule %s makes %v of %s", r.Name, res.Type, n)
			}
			if res != nil {
				events = append(events, Event{Rule: r.Name, Node: n.Label()})
				return res
			}
		}
		return nil
	})
	if err == nil {
		err = failed
	}
	return out, events, err
}
