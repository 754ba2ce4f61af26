package sched

import (
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// withUpdatesLast reorders the nodes of g so that every reader of a state's value comes before the update that
// overwrites the value. There is no such order if a node reads both the old value and one that depends on the update.
// Such a node reads a copy of the old value, made before the update. A graph without updates is returned unchanged.
func withUpdatesLast(g *ir.Graph) (*ir.Graph, error) {
	if !slices.ContainsFunc(g.Nodes, func(n *ir.Node) bool { return n.Op.Updates }) {
		return g, nil
	}
	g, err := g.Rebuild(nil) // a copy, because the nodes are reordered below
	if err != nil {
		return nil, err
	}
	o := newOrderer(g)
	for _, updates := range []bool{false, true} {
		for _, n := range g.Nodes {
			if n.Op.Updates == updates {
				o.emit(n)
			}
		}
	}
	position := make([]int, len(g.Nodes))
	for i, n := range o.order {
		position[n.ID] = i
	}
	reads := o.lateReads(g, position)
	g.Nodes = o.order
	for i, n := range g.Nodes {
		n.ID = i
	}
	if len(reads) == 0 {
		return g, nil
	}
	late := map[*ir.Node]bool{} // values that need a copy
	for _, values := range reads {
		maps.Copy(late, values)
	}
	copies := map[*ir.Node]*ir.Node{}
	return g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
		for k, x := range n.Operands() {
			if reads[n][x] && !(n.Op.Updates && k == 0) {
				in[k] = copies[x]
			}
		}
		m := out.AddDeclared(n.Op, n.Attrs, n.Type, in...)
		if late[n] {
			copies[n] = op.Copy(m)
		}
		return m
	})
}

// newOrderer returns an orderer that knows which nodes of g read values of states.
func newOrderer(g *ir.Graph) orderer {
	o := orderer{readers: make([][]*ir.Node, len(g.Nodes)), views: make([][]*ir.Node, len(g.Nodes)),
		state: make([]visit, len(g.Nodes))}
	for _, n := range g.Nodes {
		for _, x := range n.Operands() {
			if x.StateOf() == nil {
				continue
			}
			if _, view := n.View(); view {
				o.views[x.ID] = append(o.views[x.ID], n)
			} else {
				s := x.Source()
				o.readers[s.ID] = append(o.readers[s.ID], n)
			}
		}
	}
	return o
}

// lateReads returns, by node, the operands that it reads after the update that overwrites them, given the position of
// each node in the order.
func (o *orderer) lateReads(g *ir.Graph, position []int) map[*ir.Node]map[*ir.Node]bool {
	reads := map[*ir.Node]map[*ir.Node]bool{}
	for _, u := range g.Nodes {
		if !u.Op.Updates {
			continue
		}
		for _, r := range o.readers[u.In[0].ID] {
			if position[r.ID] < position[u.ID] {
				continue
			}
			for k, x := range r.Operands() {
				if !(r == u && k == 0) && x.StateOf() != nil && x.Source() == u.In[0] {
					if reads[r] == nil {
						reads[r] = map[*ir.Node]bool{}
					}
					reads[r][x] = true
				}
			}
		}
	}
	return reads
}

// orderer lists nodes in an order in which each comes after its operands.
type orderer struct {
	readers [][]*ir.Node // by value of a state: the nodes, except views, that read it or a view of it
	views   [][]*ir.Node // by value of a state, or view of one: its views, which are listed right after it
	state   []visit
	order   []*ir.Node
}

type visit uint8

const (
	unseen visit = iota
	begun        // its operands are being listed
	listed
)

// emit lists n after its operands. It lists an update also after the other readers of the operand, unless these depend
// on the update.
func (o *orderer) emit(n *ir.Node) {
	if n.Op == ir.ResultDef {
		n = n.In[0]
	}
	if o.state[n.ID] != unseen {
		return
	}
	o.state[n.ID] = begun
	for _, x := range n.Operands() {
		o.emit(x)
	}
	if n.Op.Updates {
		for _, r := range o.readers[n.In[0].ID] {
			if !o.waits(r, map[*ir.Node]bool{}) {
				o.emit(r)
			}
		}
	}
	o.state[n.ID] = listed
	o.order = append(o.order, n)
	if n.Op.Tuple {
		o.order = append(o.order, n.Values()...)
	}
	for _, v := range o.views[n.ID] {
		o.emit(v)
	}
}

// waits reports whether n depends on a node that is being listed.
func (o *orderer) waits(n *ir.Node, seen map[*ir.Node]bool) bool {
	if n.Op == ir.ResultDef {
		n = n.In[0]
	}
	if o.state[n.ID] != unseen || seen[n] {
		return o.state[n.ID] == begun
	}
	seen[n] = true
	for _, x := range n.Operands() {
		if o.waits(x, seen) {
			return true
		}
	}
	return false
}
