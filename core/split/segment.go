package split

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
)

// plan makes the graph of each segment of a sequence of backends.
func (d *divider) plan(seq []int) (*Plan, error) {
	d.taken = map[string]bool{}
	for _, n := range d.g.Nodes {
		d.taken[n.Name] = true
	}
	for _, o := range d.g.Outputs {
		d.taken[o.Name] = true
	}
	for range seq {
		d.segments = append(
			d.segments, &segment{d: d, number: len(d.segments), graph: ir.NewGraph(d.g.Name, d.g.Syms...),
				values:  map[*ir.Node]*ir.Node{},
				results: map[*ir.Node]int{}, sources: map[string]program.Source{}})
	}
	for i, n := range d.nodes {
		if err := d.segments[d.at[i]].compute(n); err != nil {
			return nil, fmt.Errorf("%s: %w", n.Label(), err)
		}
	}
	p := &Plan{}
	for _, o := range d.g.Outputs {
		from, err := d.segments[d.at[d.unit[base(o.Node).ID]]].output(o)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", o.Name, err)
		}
		p.Outputs = append(p.Outputs, from)
	}
	for k, s := range d.segments {
		if len(s.graph.Outputs) == 0 { // the segment only updates states, but a program needs an output
			done := s.smallest()
			if done == nil { // a stage without work
				if err := s.graph.Build(func() { done = op.Const(s.graph, 0, ir.TypeOf(dtype.F32)) }); err != nil {
					return nil, err
				}
			}
			s.graph.Return(d.fresh("done"), done)
		}
		x := Segment{Target: seq[k], Graph: s.graph, Inputs: s.sources}
		for i, n := range d.nodes {
			_, view := n.View()
			switch {
			case d.at[i] != k || x.Target == 0 || view:
			case d.lacks[i]:
				x.Lacked = count(x.Lacked, n.OpName())
			default:
				x.Moved = count(x.Moved, n.OpName())
			}
		}
		p.Segments = append(p.Segments, x)
	}
	return p, nil
}

// count adds one to the entry of an op in a list that is sorted by op.
func count(list []program.OpCount, op string) []program.OpCount {
	i, found := slices.BinarySearchFunc(list, op, func(c program.OpCount, op string) int {
		return strings.Compare(c.Op, op)
	})
	if !found {
		list = slices.Insert(list, i, program.OpCount{Op: op})
	}
	list[i].Count++
	return list
}

// fresh returns a name that is not taken. It appends underscores to name as needed.
func (d *divider) fresh(name string) string {
	for d.taken[name] {
		name += "_"
	}
	d.taken[name] = true
	return name
}

// segment is a segment under construction.
type segment struct {
	d       *divider
	number  int
	graph   *ir.Graph
	values  map[*ir.Node]*ir.Node // by node of the divided graph
	results map[*ir.Node]int      // the first output of each node of the divided graph
	sources map[string]program.Source
}

// compute adds a unit to the segment. Units must be added in the order of the divided graph, so that their operands
// exist.
func (s *segment) compute(n *ir.Node) error {
	return s.graph.Build(func() {
		in := n.MapIn(s.value)
		made := []*ir.Node{nil}
		if n.Op.Tuple {
			made = s.graph.AddResults(len(n.Results), n.Op, n.Attrs, in...)
		} else {
			made[0] = s.graph.AddDeclared(n.Op, n.Attrs, n.Type, in...)
		}
		for k, v := range n.Values() {
			made[k].Name = v.Name
			s.values[v] = made[k]
		}
	})
}

// value returns the segment's node for n: a copy, or an input if another segment computes n.
func (s *segment) value(n *ir.Node) *ir.Node {
	if v := s.values[n]; v != nil {
		return v
	}
	var v *ir.Node
	switch {
	case n.Updated() != nil: // an earlier segment updated the state; read the state itself
		v = s.value(n.StateOf())
	case own(n):
		in := n.MapIn(s.value)
		v = s.graph.AddDeclared(n.Op, n.Attrs, n.Type, in...).Named(n.Name)
		if n.Op == op.InputDef {
			s.sources[n.Name] = program.Source{Segment: program.FromInput, Index: slices.Index(s.d.g.Inputs(), n)}
		}
	default:
		name := n.Name
		if name == "" {
			name = s.d.fresh(fmt.Sprintf("v%d", n.ID))
		}
		s.sources[name] = s.d.segments[s.d.at[s.d.unit[n.ID]]].result(n, name)
		v = op.Input(s.graph, name, n.Type)
	}
	s.values[n] = v
	return v
}

// result returns the output from which later segments read n. If the segment has no such output, result adds it.
func (s *segment) result(n *ir.Node, name string) program.Source {
	k, ok := s.results[n]
	if !ok {
		for _, o := range s.d.g.Outputs {
			switch {
			case o.Node == n: // n is an output of the method; share it
				name = o.Name
			case o.Name == name:
				name = s.d.fresh(name)
			default:
				continue
			}
			break
		}
		k = s.add(name, s.values[n])
		s.results[n] = k
	}
	return program.Source{Segment: s.number, Index: k}
}

// output adds an output of the method.
func (s *segment) output(o ir.Output) (from program.Source, err error) {
	if k, ok := s.results[o.Node]; ok && s.graph.Outputs[k].Name == o.Name {
		return program.Source{Segment: s.number, Index: k}, nil
	}
	err = s.graph.Build(func() { from = program.Source{Segment: s.number, Index: s.add(o.Name, s.value(o.Node))} })
	return from, err
}

func (s *segment) add(name string, n *ir.Node) int {
	s.graph.Return(name, n)
	return len(s.graph.Outputs) - 1
}

// smallest returns the value with the fewest bytes.
func (s *segment) smallest() *ir.Node {
	var best *ir.Node
	for _, n := range s.graph.Nodes {
		if !n.Op.Tuple && (best == nil || s.graph.Syms.MaxBytes(n.Type) < s.graph.Syms.MaxBytes(best.Type)) {
			best = n
		}
	}
	return best
}
