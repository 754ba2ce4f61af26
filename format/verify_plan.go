package format

import (
	"cmp"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

const none = -1 // parent of a value that shares no storage

// checkPlan runs checks 29 to 31, 36 and 37 on a program's placements and stores them in p.
//
// nested has the programs of loops, by their graphs.
func checkPlan(p *program.Program, r *rawPlan, nested map[*ir.Graph]*program.Program, dir *Directory) error {
	where := KindPlan.String()
	for _, size := range []int64{r.arena, r.io, r.state} {
		if size%program.Align != 0 || size > MaxArenaBytes {
			return fail(29, where, r.at, "a space has %d bytes; want a multiple of %d and at most %d", size,
				program.Align, int64(MaxArenaBytes))
		}
	}
	p.ArenaSize, p.IOSize, p.StateSize = r.arena, r.io, r.state
	if len(r.places) != len(p.Graph.Nodes) {
		return fail(30, where, r.at, "%d placements for %d nodes", len(r.places), len(p.Graph.Nodes))
	}
	c := placeChecker{p: p, r: r, dir: dir, chain: make([]int, len(r.places))}
	p.Places = make([]program.Place, 0, len(r.places))
	for i := range r.places {
		if err := c.place(p.Graph.Nodes[i]); err != nil {
			return err
		}
	}
	if _, size, err := program.JoinStates(p); err != nil {
		return fail(checkState, where, r.at, "%w", err)
	} else if size > 0 && len(p.Graph.States()) == 0 {
		return fail(checkState, where, r.at, "%d bytes of state for a program that has none", size)
	}
	if err := c.signature(); err != nil {
		return err
	}
	return checkLoops(p, r, nested)
}

type placeChecker struct {
	p     *program.Program
	r     *rawPlan
	dir   *Directory
	chain []int // by node: number of views between it and the value whose bytes it shows
}

func (c *placeChecker) fail(check int, n *ir.Node, format string, args ...any) error {
	return fail(check, KindPlan.String(), c.r.places[n.ID].at, "node %d (%.80q): "+format,
		append([]any{n.ID, n.Label()}, args...)...)
}

func (c *placeChecker) place(n *ir.Node) error {
	x := &c.r.places[n.ID]
	if n.Op.Tuple {
		none := program.NoPlace
		if x.space >= int64(len(spaces)) ||
			none != (program.Place{Space: spaces[x.space], Offset: x.offset, Size: x.size, Parent: int(x.parent)}) {
			return c.fail(30, n, "has several results and no value of its own, so its place must be [1, 0, 0, -1]")
		}
		c.p.Places = append(c.p.Places, none)
		return nil
	}
	if x.space >= int64(len(spaces)) {
		return c.fail(29, n, "space %d is unknown", x.space)
	}
	if want := c.p.Graph.Syms.MaxBytes(n.Type); x.size != want {
		return c.fail(30, n, "%d bytes; %v takes up to %d", x.size, n.Type, want)
	}
	pl := program.Place{Space: spaces[x.space], Offset: x.offset, Size: x.size, Parent: none}
	if x.parent != none {
		if x.parent >= int64(n.ID) {
			return c.fail(31, n, "shares the storage of node %d, which does not come before it", x.parent)
		}
		pl.Parent = int(x.parent)
	}
	off, view := n.View()
	old := n.Updated()
	var err error
	switch {
	case view:
		err = c.view(n, pl, off)
	case old != nil && (pl.Space != program.State || pl.Parent != old.ID):
		err = c.fail(checkState, n, "is an update of %.80q, so it must be placed over it", old.Label())
	case old == nil && n.Op != ir.StateDef && pl.Space == program.State:
		err = c.fail(checkState, n, "op %s in the %v space; only a state and its updates may be there", n.OpName(),
			pl.Space)
	case pl.Parent != none:
		err = c.inPlace(n, pl)
	default:
		err = c.own(n, pl)
	}
	c.p.Places = append(c.p.Places, pl)
	return err
}

// own checks the place of a value that has its own storage.
func (c *placeChecker) own(n *ir.Node, pl program.Place) error {
	size := c.p.ArenaSize
	switch isParam := n.Op.Name == "param"; {
	case isParam != (pl.Space == program.Weights):
		return c.fail(36, n, "%s in the %v space", n.OpName(), pl.Space)
	case n.Op == ir.StateDef && pl.Space != program.State:
		return c.fail(checkState, n, "a state in the %v space; want %v", pl.Space, program.State)
	case n.Op.Name == "input" && pl.Space != program.IO:
		return c.fail(30, n, "an input in the %v space; want %v", pl.Space, program.IO)
	case isParam && c.dir == nil:
		size = MaxFileSize // the receiver compares Program.WeightsExtent with the weights that it has
	case isParam:
		size = c.dir.size
		if t, _ := c.dir.Find(n.Name); t.Offset != pl.Offset || t.Size != pl.Size {
			return c.fail(30, n, "%d bytes at %d; the weight has %d at %d", pl.Size, pl.Offset, t.Size, t.Offset)
		}
	case pl.Space == program.IO:
		size = c.p.IOSize
	case pl.Space == program.State:
		size = c.p.StateSize
	}
	if !within(pl.Offset, pl.Size, size) || pl.Offset%program.Align != 0 {
		return c.fail(30, n, "%d bytes at %d are outside the %d bytes of the %v space, or no multiple of %d", pl.Size,
			pl.Offset, size, pl.Space, program.Align)
	}
	return nil
}

// view checks the place of a view: part of operand 0, off bytes into it.
func (c *placeChecker) view(n *ir.Node, pl program.Place, off int64) error {
	par := n.In[0].ID
	at := c.p.Places[par]
	if pl.Parent != par {
		return c.fail(31, n, "is a view of node %d, but shares the storage of node %d", par, pl.Parent)
	}
	if !within(off, pl.Size, at.Size) || pl.Space != at.Space || pl.Offset != at.Offset+off {
		return c.fail(31, n, "%d bytes at %d of the %v space; a view must be %d bytes into the %d at %d of %v", pl.Size,
			pl.Offset, pl.Space, off, at.Size, at.Offset, at.Space)
	}
	if c.chain[n.ID] = c.chain[par] + 1; c.chain[n.ID] > MaxAliasChain {
		return c.fail(31, n, "is a view of views, %d deep; at most %d", c.chain[n.ID], MaxAliasChain)
	}
	return nil
}

// inPlace checks the place of a value that overwrites an operand.
func (c *placeChecker) inPlace(n *ir.Node, pl program.Place) error {
	at := c.p.Places[pl.Parent]
	by, _ := n.Maker()
	allowed := slices.ContainsFunc(n.Overwrites(), func(k int) bool {
		return program.MayOverwrite(n, k) && by.In[k].ID == pl.Parent
	})
	switch {
	case !allowed:
		return c.fail(31, n, "op %s may not overwrite node %d", by.OpName(), pl.Parent)
	case at.Space == program.Weights:
		return c.fail(36, n, "overwrites a weight")
	case pl.Space != at.Space || pl.Offset != at.Offset || pl.Size != at.Size:
		return c.fail(31, n, "%d bytes at %d of the %v space; what it overwrites has %d at %d of %v", pl.Size,
			pl.Offset, pl.Space, at.Size, at.Offset, at.Space)
	}
	return nil
}

// signature runs check 37: inputs and outputs must not overlap.
func (c *placeChecker) signature() error {
	var list []*ir.Node
	list = append(list, c.p.Graph.Inputs()...)
	for _, o := range c.p.Graph.Outputs {
		src := o.Node
		for c.chain[src.ID] > 0 {
			src = src.In[0]
		}
		at := c.p.Places[o.Node.ID]
		if src.Op.Name == "input" || at.Space != program.IO || at.Offset%program.Align != 0 {
			return c.fail(
				37, o.Node, "output %s is an input, or is at %d of the %v space; want %v and a multiple of %d", o.Name,
				at.Offset, at.Space, program.IO, program.Align)
		}
		list = append(list, o.Node)
	}
	// Sorts by offset. At the same offset an empty value comes first; two empty values at one offset are not allowed.
	slices.SortStableFunc(list, func(a, b *ir.Node) int {
		x, y := c.p.Places[a.ID], c.p.Places[b.ID]
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Size, y.Size))
	})
	for i, n := range list[min(1, len(list)):] {
		x, y := c.p.Places[list[i].ID], c.p.Places[n.ID]
		if y.Offset-x.Offset < x.Size || y.Offset == x.Offset {
			return c.fail(37, n, "begins at %d of the io space, inside %.80q or where that begins", y.Offset,
				list[i].Label())
		}
	}
	return nil
}

// checkSched runs checks 32 to 35 on a program's steps and stores them in p.
func checkSched(p *program.Program, r *rawSched) error {
	where := KindSched.String()
	if r.queues != 1 {
		return fail(34, where, r.at, "%d queues; this version runs 1", r.queues)
	}
	nodes := p.Graph.Nodes
	done := make([]bool, len(nodes))
	p.Steps = make([]program.Step, 0, min(len(r.steps), len(nodes))) // a program with more steps repeats one
	// the value that n shows has been computed or needs no step
	ready := func(n *ir.Node) bool {
		for {
			if _, view := n.View(); !view {
				by, _ := n.Maker()
				return done[by.ID] || !program.IsStep(by)
			}
			n = n.In[0]
		}
	}
	for i, s := range r.steps {
		if s.node >= int64(len(nodes)) || !program.IsStep(nodes[s.node]) || done[s.node] {
			return fail(32, where, s.at, "step %d runs node %d, which does not exist, needs no step or has run", i,
				s.node)
		}
		n := nodes[s.node]
		for _, x := range n.Operands() {
			if !ready(x) {
				return fail(32, where, s.at, "step %d runs node %d (%.80q) before its operand %.80q", i, s.node,
					n.Label(), x.Label())
			}
		}
		done[s.node] = true
		p.Steps = append(p.Steps, program.Step{Node: int(s.node)})
	}
	for _, n := range nodes {
		if program.IsStep(n) && !done[n.ID] {
			return fail(32, where, r.at, "no step runs node %d (%.80q)", n.ID, n.Label())
		}
	}
	return sweep(p, r)
}

// checkMemory runs check 38 on the memory that the artifact needs.
func checkMemory(programs []*program.Program, weights int64, p Policy) error {
	if p.MaxMemory == 0 {
		return nil
	}
	for _, x := range programs {
		// Each term is at most 2^44, so the sum is exact.
		if need := weights + x.ArenaSize + x.IOSize + x.StateSize; need > p.MaxMemory {
			return fail(38, KindPlan.String(), -1,
				"program %s for %s needs %d bytes (weights %d, arena %d, inputs and outputs %d, state %d); allowed are %d",
				x.Method, x.Target, need, weights, x.ArenaSize, x.IOSize, x.StateSize, p.MaxMemory)
		}
	}
	return nil
}

// checkWork runs check 38 on the estimated work.
func checkWork(x *program.Program, g *rawGraph, p Policy) error {
	if p.MaxWork == 0 {
		return nil
	}
	total := int64(0)
	for _, n := range x.Graph.Nodes {
		in := n.InTypes()
		for i, t := range in {
			in[i] = x.Graph.Syms.AtMost(t)
		}
		out := slices.Clone(n.ResultTypes())
		for i, t := range out {
			out[i] = x.Graph.Syms.AtMost(t)
		}
		work := n.Op.FLOPs(n.Attrs, in, out...)
		if work < 0 || work > math.MaxInt64-total {
			work = math.MaxInt64 - total // the estimate alone exceeds an int64
		}
		if total += work; total > p.MaxWork {
			return fail(38, KindGraph.String(), g.at,
				"program %s for %s needs more than %d FLOPs a run at its largest sizes; allowed are %d", x.Method,
				x.Target, total, p.MaxWork)
		}
	}
	return nil
}
