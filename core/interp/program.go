package interp

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
)

// poison is the byte that fills memory before it is written. It makes NaN in every float type and -1 in signed
// integers. So a plan causes a wrong result or an error if live values share bytes or a step reads uninitialised
// memory.
const poison = 0xFF

// RunProgram runs a planned program step by step on the bytes of its spaces. Values are rounded to their element types
// when they are stored. Observers see each result as it was stored.
//
// A kernel may write its results in any order. So RunProgram poisons the places of a step's results before the step
// reads its operands, except an operand that the op overwrites in place and promises to read element by element. For
// example, fused_matmul r, w, r over r multiplies poison.
func RunProgram(p *program.Program, syms map[string]int64, inputs map[string]*tensor.Array, weights []byte,
	observe ...Observer) (map[string]*tensor.Array, error) {
	return RunProgramFrom(program.InitState(p.States(), p.StateSize), p, syms, inputs, weights, observe...)
}

// RunProgramFrom is like RunProgram but uses and updates the given state space of p.StateSize bytes. After an error the
// contents of the space are undefined.
func RunProgramFrom(state []byte, p *program.Program, syms map[string]int64, inputs map[string]*tensor.Array,
	weights []byte, observe ...Observer) (map[string]*tensor.Array, error) {
	bound, err := p.Bind(syms)
	if err != nil {
		return nil, err
	}
	if err := checkNames(p.Graph, inputs); err != nil {
		return nil, err
	}
	m := memory{program.Weights: weights, program.Arena: make([]byte, p.ArenaSize), program.IO: make([]byte, p.IOSize),
		program.State: state}
	return m.run(p, bound, inputs, observe...)
}

// run runs a program in memory whose contents are undefined, except those of weights and states.
func (m memory) run(p *program.Program, bound *program.Bound, inputs map[string]*tensor.Array, observe ...Observer) (
	map[string]*tensor.Array, error) {
	m[program.Arena].poison()
	m[program.IO].poison()
	for i, n := range p.Graph.Inputs() {
		o := bound.Inputs[i]
		v, err := checkValue(inputs[n.Name], n, o.Shape)
		if err == nil {
			err = m.store(o, v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Label(), err)
		}
	}
	for i, s := range bound.Steps {
		results, err := m.step(p, s)
		for k := 0; k < len(results) && err == nil; k++ {
			err = tell(observe, p.Graph.Nodes[s.Outs[k].Node], results[k])
		}
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, s.Node.Label(), err)
		}
	}
	var err error
	out := make(map[string]*tensor.Array, len(bound.Outputs))
	for i, o := range bound.Outputs {
		if out[p.Graph.Outputs[i].Name], err = m.load(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type space []byte

func (s space) poison() {
	for i := range s {
		s[i] = poison
	}
}

// memory holds the spaces of a program, indexed by program.Space.
type memory [4]space

// at returns the bytes of an operand.
func (m memory) at(o program.Operand) (space, error) {
	s := m[o.Space]
	if o.Offset < 0 || o.Bytes < 0 || o.Offset > int64(len(s)) || o.Bytes > int64(len(s))-o.Offset {
		return nil, fmt.Errorf("node %d lies at %d to %d of the %v space, which has %d bytes", o.Node, o.Offset,
			o.Offset+o.Bytes, o.Space, len(s))
	}
	return s[o.Offset : o.Offset+o.Bytes], nil
}

func (m memory) load(o program.Operand) (*tensor.Array, error) {
	b, err := m.at(o)
	if err != nil {
		return nil, err
	}
	return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: b}.Array(), nil
}

func (m memory) store(o program.Operand, v *tensor.Array) error {
	b, err := m.at(o)
	if err == nil {
		copy(b, v.Tensor().Data)
	}
	return err
}

// step runs one step and stores its results. It returns them as stored.
func (m memory) step(p *program.Program, s program.BoundStep) ([]*tensor.Array, error) {
	if slices.ContainsFunc(s.Outs, func(o program.Operand) bool { return o.Space == program.Weights }) {
		return nil, fmt.Errorf("its result lies in the weights, which are read-only")
	}
	in := make([]*tensor.Array, len(s.In))
	var err error
	op := s.Node.Op
	for k, o := range s.Operands() {
		overwritten := slices.ContainsFunc(s.Outs, func(out program.Operand) bool {
			return o.Node == p.Places[out.Node].Parent &&
				(op.Elementwise || slices.Contains(p.Graph.Nodes[out.Node].Overwrites(), k))
		})
		if overwritten {
			if in[k], err = m.load(o); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range s.Outs {
		b, err := m.at(o)
		if err != nil {
			return nil, err
		}
		b.poison()
	}
	for k, o := range s.Operands() {
		if in[k] == nil {
			if in[k], err = m.load(o); err != nil {
				return nil, err
			}
		}
	}
	if l := p.Loop(s.Node.ID); l != nil {
		return m.loop(p, l, s, in)
	}
	if op.Eval == nil {
		return nil, fmt.Errorf("op %s has no reference evaluation; programs hold no blocks", op.Name)
	}
	out := make([]*tensor.Array, len(s.Outs))
	for k, o := range s.Outs {
		out[k] = tensor.NewArray(o.DType, o.Shape...)
	}
	if err := op.Eval(s.Node.Attrs, in, out...); err != nil {
		return nil, err
	}
	return m.stored(s, out)
}

// stored stores the results of a step and returns them as stored.
func (m memory) stored(s program.BoundStep, out []*tensor.Array) ([]*tensor.Array, error) {
	for k, o := range s.Outs {
		if err := m.store(o, out[k]); err != nil {
			return nil, err
		}
	}
	var err error
	for k, o := range s.Outs { // load after all are stored, to detect results that overlap
		if out[k], err = m.load(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}
