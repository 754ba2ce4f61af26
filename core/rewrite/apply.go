package rewrite

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// Rule is one rewrite.
type Rule struct {
	Name  string
	Match Pattern
	// To builds the replacement, of the same type as the root. If it returns nil the node is not changed; c.Miss may record why. The root is a
	// node with a value: of an op with several results, the node of one of them (see the pattern Result).
	To func(c *Context) *ir.Node
}

// Context is what Rule.To sees: the match in the graph that is read, and the graph that is written.
type Context struct {
	*Match
	Out    *ir.Graph
	lookup func(*ir.Node) *ir.Node
}

// New is the captured node's replacement in the new graph.
func (c *Context) New(name string) *ir.Node { return c.lookup(c.Node(name)) }

// Map is n's replacement in the new graph.
func (c *Context) Map(n *ir.Node) *ir.Node { return c.lookup(n) }

// Event is one site: a rule that fired, or (with a reason) one that matched but did not fire.
type Event struct {
	Rule, Node string
	Miss       string
}

// maxSweeps bounds the work: rules that undo each other are a bug.
const maxSweeps = 100

// Apply rewrites g until no rule fires. At each node the first rule that fires wins. Patterns are tried on the graph as
// it was at the start of a sweep, whose use counts are exact; a node that was rewritten earlier in the sweep keeps its
// value, so every replacement stays correct, and the next sweep finds the rest. Misses are those of the last sweep.
//
// If refuse is not nil, it is called for each node that a rule makes in place of old, the root. If it returns a reason, the rule does not
// fire, and the reason is recorded as a miss.
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
	return nil, nil, fmt.Errorf("BUG: rewriting %s does not end; the last rules were %v", g.Name, fired[max(0, len(fired)-4):])
}

func sweep(g *ir.Graph, rules []Rule, refuse func(old, made *ir.Node) string) (*ir.Graph, []Event, error) {
	uses := g.UseCounts()
	var events []Event
	var failed error
	out, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		for _, r := range rules {
			m := &Match{root: n, uses: uses, captures: map[string]*ir.Node{}}
			if !r.Match(n, m) {
				continue
			}
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
