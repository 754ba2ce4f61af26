package plan

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// CheckProgram proves that the places and steps of a program are correct, however they were made. Every place must be
// large enough, views must lie inside their operand, in-place results must overwrite an operand that the op allows,
// every node must run once and after its operands, and no value may be overwritten while it is needed (see Check). The
// graph must have passed ir.Graph.Verify. Offsets in the weights space are checked only against their parents, because
// the file format checks that space.
func CheckProgram(p *program.Program) error {
	g := p.Graph
	if len(p.Places) != len(g.Nodes) {
		return fmt.Errorf("%d placements for %d nodes", len(p.Places), len(g.Nodes))
	}
	for _, n := range g.Nodes {
		if err := checkNode(p, n); err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
	}
	if err := checkSteps(p); err != nil {
		return err
	}
	if err := checkLoops(p); err != nil {
		return err
	}
	for _, space := range []program.Space{program.Arena, program.IO, program.State} {
		if err := checkSpace(p, space); err != nil {
			return fmt.Errorf("%v: %w", space, err)
		}
	}
	return nil
}

// checkLoops checks that the nodes with programs of their own have them, and these programs. checkSpace checks the
// regions of the loops.
func checkLoops(p *program.Program) error {
	if !slices.ContainsFunc(p.Graph.Nodes, func(n *ir.Node) bool { return n.Op.Nested }) && len(p.Loops) == 0 {
		return nil
	}
	found, params := 0, p.ParamPlaces()
	for _, n := range p.Graph.Nodes {
		if !n.Op.Nested {
			continue
		}
		l := p.Loop(n.ID)
		if l == nil {
			return fmt.Errorf("%s: a loop without programs", n.Label())
		}
		found++
		if err := l.Check(params, n); err != nil {
			return err
		}
		for _, x := range l.Programs() {
			if err := CheckProgram(x); err != nil {
				return fmt.Errorf("%s: graph %s: %w", n.Label(), x.Graph.Name, err)
			}
		}
	}
	if found != len(p.Loops) {
		return fmt.Errorf("%d loops for %d nodes", len(p.Loops), found)
	}
	return nil
}

// checkNode checks the place of one node against its type and its parent.
func checkNode(p *program.Program, n *ir.Node) error {
	pl := p.Places[n.ID]
	if n.Op.Tuple {
		if pl != program.NoPlace {
			return fmt.Errorf(
				"the node of an op with several results has %d bytes at %d of the %v space; it has no value", pl.Size,
				pl.Offset, pl.Space)
		}
		return nil
	}
	if want := p.Graph.Syms.MaxBytes(n.Type); pl.Size != want {
		return fmt.Errorf("%d bytes are reserved; %v takes %d", pl.Size, n.Type, want)
	}
	if pl.Offset < 0 {
		return fmt.Errorf("offset is %d", pl.Offset)
	}
	return checkParent(p, n)
}

// checkParent checks that a node is in a space that it may be in, and that it is placed over another only if it is a
// view of it, updates it or may overwrite it.
func checkParent(p *program.Program, n *ir.Node) error {
	pl, old := p.Places[n.ID], n.Updated()
	off, view := n.View()
	switch {
	case n.Op.Name == "input" && (pl.Space != program.IO || pl.Parent != None):
		return fmt.Errorf("an input must have a range of the %v space of its own", program.IO)
	case n.Op.Name == "param" && (pl.Space != program.Weights || pl.Parent != None):
		return fmt.Errorf("a param must lie in the %v space", program.Weights)
	case n.Op == ir.StateDef && (pl.Space != program.State || pl.Parent != None):
		return fmt.Errorf("a state must have a range of the %v space of its own", program.State)
	case n.Op.Effects:
		return nil
	case view:
		par := p.Places[n.In[0].ID]
		if pl.Parent != n.In[0].ID || pl.Space != par.Space || pl.Offset != par.Offset+off || pl.Size > par.Size-off {
			return fmt.Errorf("a view of %s must be at %d of the %v space, inside its %d bytes; it is at %d of %v",
				n.In[0].Label(), par.Offset+off, par.Space, par.Size, pl.Offset, pl.Space)
		}
		return nil
	case old != nil && (pl.Space != program.State || pl.Parent != old.ID):
		return fmt.Errorf("is an update of %s, so it must be placed over it", old.Label())
	case old == nil && pl.Space != program.Arena && pl.Space != program.IO:
		return fmt.Errorf("a step writes to the %v space", pl.Space)
	case pl.Parent != None && !overwrites(p, n):
		return fmt.Errorf("is placed over node %d, which it may not overwrite", pl.Parent)
	}
	return nil
}

// overwrites reports whether a node may overwrite the operand that it is placed over.
func overwrites(p *program.Program, n *ir.Node) bool {
	pl := p.Places[n.ID]
	by, _ := n.Maker()
	for k, x := range by.Operands() {
		if x.ID == pl.Parent && program.MayOverwrite(n, k) && p.Places[pl.Parent].Space == pl.Space {
			return true
		}
	}
	return false
}

func checkSteps(p *program.Program) error {
	at := make([]int, len(p.Graph.Nodes)) // by node: 1 + the index of its step, or 0
	for i, s := range p.Steps {
		if s.Node < 0 || s.Node >= len(at) || !program.IsStep(p.Graph.Nodes[s.Node]) || at[s.Node] != 0 {
			return fmt.Errorf("step %d runs node %d, which does not exist, needs no step or has run", i, s.Node)
		}
		at[s.Node] = i + 1
	}
	for _, n := range p.Graph.Nodes {
		if program.IsStep(n) && at[n.ID] == 0 {
			return fmt.Errorf("%s: no step runs it", n.Label())
		}
		for _, x := range n.Operands() {
			if by, _ := x.Source().Maker(); program.IsStep(n) && at[by.ID] > at[n.ID] {
				return fmt.Errorf("%s: runs before its operand %s", n.Label(), x.Label())
			}
		}
	}
	return nil
}

// checkSpace calls Check for the values of one space. Inputs and outputs must be intact at the end, because the host
// may use them again, and so must the last value of each state, for the next run.
func checkSpace(p *program.Program, space program.Space) error {
	pl := Plan{Size: [...]int64{program.Arena: p.ArenaSize, program.IO: p.IOSize, program.State: p.StateSize}[space]}
	if pl.Size < 0 || pl.Size%program.Align != 0 {
		return fmt.Errorf("size %d is not a multiple of %d", pl.Size, program.Align)
	}
	index := make([]int, len(p.Graph.Nodes)) // by node: its index in pl.Values
	var before, after []int
	updated := map[*ir.Node]bool{}
	for _, n := range p.Graph.Nodes {
		for _, x := range n.Updates() {
			updated[x] = true
		}
	}
	for i, n := range p.Graph.Nodes {
		at := p.Places[i]
		index[i] = None
		if at.Space != space || n.Op.Tuple {
			continue
		}
		v := Value{ID: i, Name: n.Label(), Size: at.Size, Parent: None}
		if at.Parent != None {
			off, view := n.View()
			v.Parent, v.Offset, v.InPlace = index[at.Parent], off, !view
		}
		index[i] = len(pl.Values)
		pl.Values = append(pl.Values, v)
		pl.Offsets = append(pl.Offsets, at.Offset)
		if n.Op.Effects {
			before = append(before, index[i])
		}
		if n.Op.Effects && space == program.IO || space == program.State &&
			(n.Op.Effects || n.Updated() != nil) && !updated[n] {
			after = append(after, index[i])
		}
	}
	region := map[int]int{} // by node of a loop: the index of its region in pl.Values
	for i := range p.Loops {
		if l := &p.Loops[i]; space == program.Arena {
			region[l.Node] = len(pl.Values)
			pl.Values = append(pl.Values, Value{ID: len(p.Graph.Nodes) + i, Name: "the region of " +
				p.Graph.Nodes[l.Node].Label(), Size: l.Size(), Parent: None})
			pl.Offsets = append(pl.Offsets, l.Offset)
		}
	}
	if space == program.IO {
		if err := checkOutputs(p, index); err != nil {
			return err
		}
		for _, o := range p.Graph.Outputs {
			after = append(after, index[o.Node.ID])
		}
	}
	return Check(pl, before, accesses(p, index, region), after)
}

// accesses returns the values of a space that each step reads and writes. index has the number of each node's value in
// the space, or None. region has the number of each loop's region.
func accesses(p *program.Program, index []int, region map[int]int) []Access {
	steps := make([]Access, len(p.Steps))
	for i, s := range p.Steps {
		n := p.Graph.Nodes[s.Node]
		for _, x := range n.Operands() {
			if index[x.ID] != None {
				steps[i].Reads = append(steps[i].Reads, index[x.ID])
			}
		}
		for _, v := range n.Values() {
			if index[v.ID] != None {
				steps[i].Writes = append(steps[i].Writes, index[v.ID])
			}
		}
		if v, ok := region[n.ID]; ok {
			steps[i].Writes = append(steps[i].Writes, v)
		}
	}
	return steps
}

// checkOutputs checks that each output has an aligned place in the io space, which is no other output's and no input's.
func checkOutputs(p *program.Program, index []int) error {
	seen := map[int64]string{}
	for _, o := range p.Graph.Outputs {
		at := p.Places[o.Node.ID]
		if other, dup := seen[at.Offset]; index[o.Node.ID] == None || dup || at.Offset%program.Align != 0 {
			return fmt.Errorf("output %s is elsewhere, not aligned, or in the place of %q", o.Name, other)
		}
		seen[at.Offset] = o.Name
		if o.Node.Source().Op.Name == "input" {
			return fmt.Errorf("output %s is an input", o.Name)
		}
	}
	return nil
}
