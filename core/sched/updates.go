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
			if by, _ := n.Maker(); by.Op.Updates == updates {
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
	return withCopies(g, late, reads)
}

// withCopies returns g with a copy of each late value directly after the node that computes it. The nodes in reads get
// the copy for each operand that they do not update.
func withCopies(g *ir.Graph, late map[*ir.Node]bool, reads map[*ir.Node]map[*ir.Node]bool) (*ir.Graph, error) {
	out := &ir.Graph{Name: g.Name, Syms: g.Syms}
	same, copies := make([]*ir.Node, len(g.Nodes)), map[*ir.Node]*ir.Node{}
	lookup := func(n *ir.Node) *ir.Node { return same[n.ID] }
	return out, out.Build(func() {
		for _, n := range g.Nodes {
			if n.Op == ir.ResultDef { // added with its tuple node
				continue
			}
			in := n.MapIn(lookup)
			for k, x := range n.Operands() {
				if reads[n][x] && k >= len(n.Updates()) {
					in[k] = copies[x]
				}
			}
			made := []*ir.Node{nil}
			if n.Op.Tuple {
				made = out.AddResults(len(n.Results), n.Op, n.Attrs, in...)
			} else {
				made[0] = out.AddDeclared(n.Op, n.Attrs, n.Type, in...)
			}
			for k, v := range n.Values() {
				same[v.ID] = made[k].Named(v.Name)
			}
			for _, v := range n.Values() {
				if late[v] {
					copies[v] = op.Copy(same[v.ID])
				}
			}
		}
		for _, o := range g.Outputs {
			out.Return(o.Name, same[o.Node.ID])
		}
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
		for _, old := range u.Updates() {
			for _, r := range o.readers[old.ID] {
				if position[r.ID] < position[u.ID] {
					continue
				}
				for k, x := range r.Operands() {
					if !(r == u && k < len(u.Updates())) && x.StateOf() != nil && x.Source() == old {
						if reads[r] == nil {
							reads[r] = map[*ir.Node]bool{}
						}
						reads[r][x] = true
					}
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
	for _, old := range n.Updates() {
		for _, r := range o.readers[old.ID] {
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
	for _, x := range n.Values() {
		for _, v := range o.views[x.ID] {
			o.emit(v)
		}
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
