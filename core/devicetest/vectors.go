package devicetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Vector is one case of an op, with the results that the op's definition gives.
type Vector struct {
	Name    string // op, case and form, such as "conv2d/3/weights"
	Op      string
	Program *program.Program // a program with one step
	Weights []byte           // the program's weights space
	Inputs  []NamedArray
	// Outputs are the results that the op's definition gives. Floats are in float64 and not rounded. If the definition
	// refuses the inputs, Outputs is empty and Refused says why; a run must then fail with device.ErrInput.
	Outputs []NamedArray
	Refused error
	// Tolerances has one entry per output: |got - want| <= Abs + Rel*|want|.
	Tolerances []ir.Tolerance
}

// NamedArray is an input or output.
type NamedArray struct {
	Name  string
	Array *tensor.Array
}

// Vectors calls give for every case of the named ops, or of all ops if ops is nil. Each case comes with all operands as
// inputs, and, if models usually have weights among its operands, once more with those as params. Ops on states are
// left out.
func Vectors(ctx context.Context, ops []string, give func(Vector) error) error {
	for _, def := range ir.Defs() {
		if !runnable(def) || def.Eval == nil || def.Updates || ops != nil && !slices.Contains(ops, def.Name) {
			continue
		}
		for i, c := range def.Cases() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			sub, err := newSubject(def, c)
			if err != nil {
				return fmt.Errorf("BUG: devicetest: %s/%d: %w", def.Name, i, err)
			}
			forms := []form{{name: "inputs"}}
			if f, ok := sub.weightForm(); ok {
				forms = append(forms, f)
			}
			for _, f := range forms {
				v, err := sub.vector(f, fmt.Sprintf("%s/%d/%s", def.Name, i, f.name))
				if err == nil {
					err = give(v)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s subject) vector(f form, name string) (Vector, error) {
	in := s.random(seedOf(name))
	p, params, err := s.build(f, in)
	if err != nil {
		return Vector{}, fmt.Errorf("BUG: devicetest: %v: %w", s, err)
	}
	p.Target = target.Portable // a name for the file: the program is for whatever backend takes its step
	v := Vector{Name: name, Op: s.def.Name, Program: p}
	at, size := layout(params.names(), params)
	v.Weights = make([]byte, size)
	for name, x := range params {
		copy(v.Weights[at[name]:], x.Tensor().Data)
	}
	for _, n := range p.Graph.Inputs() {
		for k := range in {
			if operandName(k) == n.Name {
				v.Inputs = append(v.Inputs, NamedArray{n.Name, in[k]})
			}
		}
	}
	want, refused := s.eval(in)
	v.Refused = refused
	if refused != nil {
		return v, nil
	}
	for k, x := range want {
		v.Outputs = append(v.Outputs, NamedArray{s.outName(k), x})
	}
	v.Tolerances = s.def.Tol(s.Attrs, typesOf(in), typesOf(want)...)
	return v, nil
}
