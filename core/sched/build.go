// Package sched turns a lowered graph into a program. It chooses the order of the steps and which results overwrite an
// operand, computes the live range of each value, and places all values. The same graph gives the same program every
// time.
//
// It imports core/plan, core/op and what these import, but no pass and no device.
package sched

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
)

// Options control Build.
type Options struct {
	Method string // name of the method; empty means the name of the graph
	Target string // name of the target, such as "cpu"
	// Weights returns the offset of a param in the weights space, in bytes. ok is false if the param is unknown.
	Weights func(name string) (offset int64, ok bool)
	// State returns the offset of a state in the state space and the size of that space, in bytes. ok is false if the
	// state is unknown. A nil State means the StateLayout of this graph alone.
	State func(name string) (offset, size int64, ok bool)
}

// Build makes a program of a graph of core and fused ops. Each output of a program has its own bytes. So the program's
// graph is g with a copy for each output that is an input, a param, a state, a part of a value, or a value that is also
// another output. Its nodes are reordered if one of them reads a value that an update of a state overwrites; see
// withUpdatesLast.
func Build(g *ir.Graph, o Options) (*program.Program, plan.Report, error) {
	if err := g.Verify(); err != nil {
		return nil, plan.Report{}, err
	}
	for _, n := range g.Nodes {
		if n.Op.Block {
			return nil, plan.Report{},
				fmt.Errorf("%s: op %s is a block; blocks are lowered before scheduling", n.Label(), n.OpName())
		}
	}
	g, nested, err := withPrograms(g, o)
	if err == nil {
		g, err = op.CopyOutputs(g, nil)
	}
	if err == nil {
		g, err = withUpdatesLast(g)
	}
	if err != nil {
		return nil, plan.Report{}, err
	}
	addParams(g)
	best := newLayout(g, graphOrder(g), nested)
	p, err := best.program(o)
	if err != nil {
		return nil, plan.Report{}, err
	}
	if l := newLayout(g, frugalOrder(g), nested); l.plan.Size < best.plan.Size {
		q, err := l.program(o)
		if err != nil {
			return nil, plan.Report{}, err
		}
		if skippable(q) >= skippable(p) { // a condition that is known too late saves no time
			best, p = l, q
		}
	}
	if err := plan.CheckProgram(p); err != nil {
		panic("BUG: sched: " + err.Error())
	}
	return p, best.plan.Report(), nil
}

// program makes the program with the place of every node.
func (l *layout) program(o Options) (*program.Program, error) {
	g := l.g
	p := &program.Program{Method: o.Method, Target: o.Target, Graph: g, Places: make([]program.Place, len(g.Nodes)),
		ArenaSize: l.plan.Size}
	if p.Method == "" {
		p.Method = g.Name
	}
	io := l.ioOffsets(&p.IOSize)
	if o.State == nil {
		states, err := StateLayout(g)
		if err != nil {
			return nil, err
		}
		o.State = states.Find
	}
	for i, n := range g.Nodes {
		pl := &p.Places[i]
		if n.Op.Tuple {
			*pl = program.NoPlace
			continue
		}
		*pl = program.Place{Size: g.Syms.MaxBytes(n.Type), Parent: plan.None}
		off, view := n.View()
		switch {
		case n.Op.Name == "param":
			at, ok := o.Weights(n.Name)
			if !ok {
				return nil, fmt.Errorf("param %s has no place among the weights", n.Label())
			}
			pl.Space, pl.Offset = program.Weights, at
		case n.Op == ir.StateDef:
			at, size, ok := o.State(n.Name)
			if !ok {
				return nil, fmt.Errorf("state %s has no place in the %v space", n.Label(), program.State)
			}
			pl.Space, pl.Offset, p.StateSize = program.State, at, size
		case n.Updated() != nil:
			pl.Space, pl.Offset = program.State, p.Places[n.Updated().ID].Offset
		case view:
			par := p.Places[n.In[0].ID]
			pl.Space, pl.Offset, pl.Parent = par.Space, par.Offset+off, n.In[0].ID
		case l.value[i] >= 0:
			pl.Space, pl.Offset = program.Arena, l.plan.Offsets[l.value[i]]
		default:
			pl.Space, pl.Offset = program.IO, io[l.root(n)]
		}
		if l.over[i] != nil {
			pl.Parent = l.over[i].ID
		}
	}
	for _, n := range g.Nodes {
		if n.Op.Nested {
			at := l.plan.Offsets[l.value[n.ID]]
			p.Loops = append(p.Loops, program.NewLoop(n, at, func(b *ir.Graph) *program.Program { return l.nested[b] }))
		}
	}
	for _, n := range l.order {
		p.Steps = append(p.Steps, program.Step{Node: n.ID})
	}
	return p, nil
}

// ioOffsets assigns a range of the IO space to every input and to the storage of every output: first the inputs, then
// the outputs, in order.
func (l *layout) ioOffsets(size *int64) map[*ir.Node]int64 {
	at := map[*ir.Node]int64{}
	add := func(n *ir.Node) {
		at[n] = *size
		// even an empty input has its own offset
		*size += max(program.AlignUp(l.g.Syms.MaxBytes(n.Type)), program.Align)
	}
	for _, n := range l.g.Inputs() {
		add(n)
	}
	for _, o := range l.g.Outputs {
		add(l.root(o.Node))
	}
	return at
}

// skippable returns the number of steps that a condition may make unnecessary.
func skippable(p *program.Program) int {
	if s := p.Skips(); s != nil {
		return s.Count
	}
	return 0
}
