package rlx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
)

// A Method is a function of a model from named tensors to named tensors.
type Method struct {
	Name            string
	Inputs, Outputs []Value
	Symbols         []Symbol // sizes on which others may depend
	Stateful        bool     // runs need a State
	// Schedules lists the compiled forms of the method, one for each target. A session uses the best one for its
	// backend. A schedule that was compiled with rlxc --fallback may need other backends, too (Schedule.Backends).
	Schedules []*Schedule

	model  *Model
	syms   ir.Syms
	solved *solvedSizes
}

// A Symbol is a size that is known only at run time, within a range. The shapes of a run's inputs determine its value.
type Symbol struct {
	Name     string
	Min, Max int64
}

// A Value is an input or output of a method.
type Value struct {
	Name     string
	DType    DType
	Shape    []Dim
	Optional bool // an input that a run may leave out; the model's task gives its default

	typ  ir.Type
	syms ir.Syms
}

// A Dim is one size of a value.
type Dim struct {
	Expr     string // "256", "N", "2*N+3"
	Min, Max int64  // range; equal if the size is fixed
}

// String returns the value as in messages: "points f32[1,N,2]", "mask f32[1,1,256,256] (optional)".
func (v Value) String() string {
	text := v.Name + " " + v.typ.String()
	if v.Optional {
		text += " (optional)"
	}
	return text
}

// MaxBytes returns the maximum size of the value in bytes.
func (v Value) MaxBytes() int64 { return v.syms.MaxBytes(v.typ) }

// ShapeAt returns the shape for the given values of the symbols. Missing symbols count as 0.
func (v Value) ShapeAt(sizes map[string]int64) []int { return v.typ.Shape.Eval(sizes) }

// ShapeOf returns the shape of the value that has n elements. It fails if there is no such shape, or more than one.
func (v Value) ShapeOf(n int) ([]int, error) {
	s := v.typ.Shape
	numel, ok := s.Numel()
	var open ir.Syms
	for _, d := range s {
		for _, name := range d.Symbols() {
			if x, _ := v.syms.Find(name); !slices.Contains(open, x) {
				open = append(open, x)
			}
		}
	}
	if !ok || len(open) > 1 {
		return nil, fmt.Errorf("the sizes of %v do not follow from a list of numbers", s)
	}
	if len(open) == 0 && int64(n) != numel.Const {
		return nil, fmt.Errorf("it takes %d", numel.Const)
	}
	values, err := open.Solve(nil, []ir.Equation{{Dim: numel, Size: int64(n)}})
	if by := numel.Divisor(); err != nil && (by == 0 || int64(n)%by != 0) {
		return nil, fmt.Errorf("their number must be a multiple of %d", by)
	}
	return s.Eval(values), err
}

// String returns the signature: "decode(points f32[1,N,2]) -> iou f32[1,4], N from 1 to 64".
func (m *Method) String() string {
	text := fmt.Sprintf("%s(%s) -> %s", m.Name, list(m.Inputs), list(m.Outputs))
	for _, s := range m.Symbols {
		text += fmt.Sprintf(", %s from %d to %d", s.Name, s.Min, s.Max)
	}
	return text
}

func list(values []Value) string {
	var out []string
	for _, v := range values {
		out = append(out, v.String())
	}
	return strings.Join(out, ", ")
}

// Input returns the input with a name. ok is false if the method has no such input.
func (m *Method) Input(name string) (Value, bool) {
	i := slices.IndexFunc(m.Inputs, func(v Value) bool { return v.Name == name })
	if i < 0 {
		return Value{}, false
	}
	return m.Inputs[i], true
}

// A Schedule is a method compiled for one target: the steps that a backend runs.
type Schedule struct {
	Target string // "cpu", "wgpu", "cpu:x86-64-v4"
	// Lowering lists the ops of the model that the compiler rewrote for the target, those that it left to the
	// reference, and those that another backend runs. It is empty if there are no such ops.
	Lowering string
	// Backends names the backends that run the segments, in order. It is empty if one backend runs the whole method.
	Backends []string
	// Arena and IO give the memory of a loaded schedule in bytes, at the upper bounds of its sizes: Arena of
	// intermediate values, IO of inputs and outputs together.
	Arena, IO int64

	method *Method
	split  *program.Split
}

func newSchedule(p *program.Split) *Schedule {
	s := &Schedule{Target: p.Target, Lowering: p.Lowering(), split: p}
	for _, x := range p.Segments {
		s.Arena, s.IO = s.Arena+x.ArenaSize, s.IO+x.IOSize
		if p.InPieces() && !staged(p) {
			s.Backends = append(s.Backends, device.BackendOf(x.Target))
		}
	}
	return s
}

// A StepValue is a value that a step computes. A step whose op has several results has one StepValue for each.
type StepValue struct {
	Step int    // from 0
	Op   string // "softmax"
	Name string // "image_encoder.blocks.3.mlp", or % and a number if the model has no name for it
}

// Values lists the values that the steps compute, in the order of the steps.
func (s *Schedule) Values() []StepValue {
	var out []StepValue
	first := 0
	for _, p := range s.split.Segments {
		for i, step := range p.Steps {
			for _, n := range p.Graph.Nodes[step.Node].Values() {
				out = append(out, stepValue(first+i, n))
			}
		}
		first += len(p.Steps)
	}
	return out
}

// Varies reports whether the steps and iterations of a run depend on its inputs: the method has branches, or loops that
// may end early or hold branches.
func (s *Schedule) Varies() bool {
	return slices.ContainsFunc(s.split.Segments, func(x program.Segment) bool {
		return x.Skips() != nil || len(x.Loops) > 0
	})
}

func stepValue(step int, n *ir.Node) StepValue {
	by, _ := n.Maker()
	return StepValue{step, by.OpName(), n.Label()}
}

// FLOPs returns the number of arithmetic operations of one run that does all steps, and all iterations that loops may
// have. A multiply-add counts as two. The error matches ErrInput if the sizes are invalid. Result.Steps has those of a
// profiled run; see Varies.
func (s *Schedule) FLOPs(sizes map[string]int64) (n int64, err error) {
	for _, p := range s.split.Segments {
		bound, err := p.Bind(sizes)
		if err != nil {
			return 0, badSizes(p.Method, err)
		}
		for _, step := range bound.Steps {
			n += flops(step)
		}
	}
	return n, nil
}

// Activations tells how products with packed weights treat the other operand: "f32" keeps it, "q8" rounds it to 8 bits
// (rlxc
// --activations). It returns both names if products differ, and "" without such products.
func (s *Schedule) Activations() string {
	var names []string
	for _, p := range s.split.Segments {
		for _, n := range p.Graph.Nodes {
			for _, a := range n.Op.Attrs(n.Attrs) {
				if name, ok := a.Value.(string); ok && a.Name == "activations" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Reads returns lower bounds of the bytes of weights and states that one run reads to compute the given outputs at the
// given sizes. A step that gathers rows of a weight counts only these rows; a state counts in full. The error matches
// ErrInput if the sizes are invalid.
func (s *Schedule) Reads(sizes map[string]int64, outputs ...string) (weights, state int64, err error) {
	wanted := make([]bool, len(s.method.Outputs))
	for i, o := range s.method.Outputs {
		wanted[i] = slices.Contains(outputs, o.Name)
	}
	need := s.split.Needed(wanted, nil)
	for k, p := range s.split.Segments {
		if need[k] == nil {
			continue
		}
		w, st, err := reads(p.Program, sizes, need[k])
		if err != nil {
			return 0, 0, err
		}
		weights, state = weights+w, state+st
	}
	return weights, state, nil
}

// reads is Schedule.Reads for one program.
func reads(p *program.Program, sizes map[string]int64, wanted []bool) (weights, state int64, err error) {
	bound, err := p.Bind(sizes)
	if err != nil {
		return 0, 0, badSizes(p.Method, err)
	}
	needed := p.Needed(wanted, nil)
	for i, step := range bound.Steps {
		if needed != nil && !needed[i] {
			continue
		}
		most := flops(step) / 2 // a multiply-add reads at most one element
		for _, o := range step.Outs {
			most = max(most, int64(tensor.Numel(o.Shape)))
		}
		for k, o := range step.Operands() {
			bytes := min(o.Bytes, most*int64(o.DType.Size()))
			switch src, _ := sourceOf(p.Graph.Nodes[o.Node]); {
			case src.Op.Name == "param":
				weights += bytes
			case k < len(step.Node.Updates()):
			case o.Space == program.State:
				state += bytes
			}
		}
	}
	return weights, state, nil
}

// methodsOf lists the methods of an artifact, in the order of its META section.
func methodsOf(m *Model) []*Method {
	var out []*Method
	for _, x := range m.verified.Meta().Methods {
		out = append(out, newMethod(m, x))
	}
	add := func(p *program.Split) {
		// the verifier has checked that it exists
		i := slices.IndexFunc(out, func(x *Method) bool { return x.Name == p.Method })
		x := newSchedule(p)
		x.method = out[i]
		out[i].Schedules, out[i].Stateful = append(out[i].Schedules, x), out[i].Stateful || p.Stateful()
	}
	for _, p := range m.verified.Programs() {
		add(program.Whole(p))
	}
	for _, p := range m.verified.Splits() {
		add(p)
	}
	return out
}

func newMethod(m *Model, sig format.Method) *Method {
	x := &Method{Name: sig.Name, model: m, syms: sig.Syms, solved: &solvedSizes{}}
	for _, s := range sig.Syms {
		x.Symbols = append(x.Symbols, Symbol{s.Name, s.Min, s.Max})
	}
	for _, v := range sig.Inputs {
		in := newValue(v.Name, v.Type, sig.Syms)
		_, in.Optional = x.left(v.Name)
		x.Inputs = append(x.Inputs, in)
	}
	for _, v := range sig.Outputs {
		x.Outputs = append(x.Outputs, newValue(v.Name, v.Type, sig.Syms))
	}
	return x
}

func newValue(name string, t ir.Type, syms ir.Syms) Value {
	v := Value{Name: name, DType: DType(t.DType), typ: t, syms: syms}
	for _, d := range t.Shape {
		lo, hi := syms.Bounds(d)
		v.Shape = append(v.Shape, Dim{d.String(), lo, hi})
	}
	return v
}
