// Package values examines the values that the steps of a run compute: it counts NaN and infinities, compares two runs,
// finds the first step that is wrong by itself, and cuts that step out of a program.
//
// It imports core/..., format and internal packages, but neither package rlx nor a backend: callers pass it the values.
package values

import (
	"fmt"
	"os"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
)

// A Plan is a method, compiled for one target.
type Plan struct {
	Split *program.Split
	Steps []PlanStep // of all segments, in order

	weight func(offset, size int64) ([]byte, error)
}

// A PlanStep is a step of a method.
type PlanStep struct {
	Segment int
	Node    *ir.Node // that the step runs
}

// NewPlan returns the plan of a method for a target. weight reads bytes of the weights section.
func NewPlan(split *program.Split, weight func(offset, size int64) ([]byte, error)) *Plan {
	p := &Plan{Split: split, weight: weight}
	for k, x := range split.Segments {
		for _, s := range x.Steps {
			p.Steps = append(p.Steps, PlanStep{k, x.Graph.Nodes[s.Node]})
		}
	}
	return p
}

// PlanOf returns the plan of a method for a target. ok is false if the artifact has no such plan.
func PlanOf(v *format.Verified, method, target string) (p *Plan, ok bool) {
	first, _ := v.WeightsSection()
	weight := func(offset, size int64) ([]byte, error) {
		b := tensor.AlignedBytes(int(size))
		_, err := v.File().ReadAt(b, first+offset)
		if pe, is := err.(*os.PathError); is {
			err = pe.Err
		}
		return b, err
	}
	if prog, ok := v.Program(method, target); ok {
		return NewPlan(program.Whole(prog), weight), true
	}
	for _, s := range v.Splits() {
		if s.Method == method && s.Target == target {
			return NewPlan(s, weight), true
		}
	}
	return nil, false
}

// Label names a step in messages: "f step 2 of 3 (log b)". result is one of the step's results.
func (p *Plan) Label(step int, result *ir.Node) string {
	return fmt.Sprintf("%s step %d of %d (%s %s)", p.Split.Method, step+1, len(p.Steps), p.Steps[step].Node.OpName(),
		result.Label())
}

// key identifies a value of a run.
type key struct{ segment, node int }

// origin returns the value whose storage a node of a segment has, and the node's offset in it in bytes. It follows
// views, and inputs of a segment to the segment that computes them. It returns an input, a param, a state or a result
// of a step.
func (p *Plan) origin(segment int, n *ir.Node) (seg int, src *ir.Node, offset int64) {
	for {
		if off, view := n.View(); view {
			n, offset = n.In[0], offset+off
			continue
		}
		if n.Op.Name != "input" {
			return segment, n, offset
		}
		from := p.source(segment, n)
		if from.Segment == program.FromInput {
			return segment, n, offset
		}
		segment, n = from.Segment, p.Split.Segments[from.Segment].Graph.Outputs[from.Index].Node
	}
}

// source returns what an input of a segment comes from.
func (p *Plan) source(segment int, input *ir.Node) program.Source {
	x := p.Split.Segments[segment]
	for i, n := range x.Graph.Inputs() {
		if n == input {
			return x.Inputs[i]
		}
	}
	panic("BUG: " + input.Label() + " is no input")
}

// Param reads a weight of a segment.
func (p *Plan) Param(segment int, n *ir.Node) (tensor.Tensor, error) {
	at := p.Split.Segments[segment].Places[n.ID]
	b, err := p.weight(at.Offset, at.Size)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("weight %s cannot be read: %w", n.Label(), err)
	}
	return tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(nil), Data: b}, nil
}
