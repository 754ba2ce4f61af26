package rlxbeam

import (
	"context"
	"maps"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// Tensors are the inputs or outputs of a method for one element of a PCollection.
type Tensors struct {
	Name   string
	Values []Tensor
}

// Tensor is a named tensor.
type Tensor struct {
	Name  string
	DType string // as in shapes, such as "f32"
	Shape []int
	Data  []byte // little endian, in row-major order
}

// RunOptions holds the options of Run.
type RunOptions struct {
	Outputs []string // to return; nil means all
	// Batch is how many elements share a run, at most. 0 means 16, or what the method takes if that is less.
	Batch int
}

// Run runs a method of any artifact on PCollection<Tensors>, one run for each element. It returns PCollection<Tensors>
// with the outputs, and PCollection<Failure>. The method must keep no state.
//
// A method takes a batch if the first size of all its inputs and outputs is one symbol, which no other size depends on,
// and the other sizes are fixed. Then several elements, each with a first size of 1, share a run. A run always has the
// same number of rows: one that has fewer elements is filled up with copies. So a result does not depend on how
// elements are divided into bundles. The results of a bundle come when it ends, in the global window.
func Run(s beam.Scope, m Model, method string, o RunOptions, inputs beam.PCollection) (out, failed beam.PCollection) {
	return beam.ParDo2(s.Scope("rlxbeam.Run"), &runFn{Model: m, Method: method, Options: o}, inputs)
}

type runFn struct {
	Model   Model
	Method  string
	Options RunOptions

	waiting []Tensors
}

// defaultBatch keeps the memory of a run near that of one element; it is a bound, and methods may allow less.
const defaultBatch = 16

// method returns the method. A session may be that of another transform, so each call checks it.
func (f *runFn) method(s *rlx.Session) (*rlx.Method, error) {
	m, err := s.Model().Method(f.Method)
	if err == nil && m.Stateful {
		err = diag.New(diag.Usage, f.Method, "the method keeps a state; Run takes methods that keep none")
	}
	if err != nil {
		return nil, errSetup{err}
	}
	return m, nil
}

func (f *runFn) warm(ctx context.Context, s *rlx.Session) error {
	if _, err := f.method(s); err != nil {
		return err
	}
	return s.Load(ctx, f.Method)
}

// StartBundle begins with no elements.
func (f *runFn) StartBundle(_ context.Context, _ func(Tensors), _ func(Failure)) { f.waiting = nil }

// ProcessElement runs the method once a batch is full.
func (f *runFn) ProcessElement(ctx context.Context, in Tensors, emit func(Tensors), fail func(Failure)) error {
	elements.Inc(ctx, 1)
	w := workerOf(f.Model)
	var rows int
	err := w.do(ctx, f.warm, func(s *rlx.Session) error {
		m, err := f.method(s)
		if err == nil {
			rows = f.rows(m)
			_, err = check(m, in, rows > 1)
		}
		return err
	})
	if letter, ok := failure(ctx, in.Name, err); err != nil && ok {
		fail(letter)
		return nil
	}
	if err != nil {
		return err
	}
	if f.waiting = append(f.waiting, in); len(f.waiting) < rows {
		return nil
	}
	return f.flush(ctx, emit, fail)
}

// FinishBundle runs the method for the elements that have not filled a batch.
func (f *runFn) FinishBundle(ctx context.Context, emit func(Tensors), fail func(Failure)) error {
	return f.flush(ctx, emit, fail)
}

// rows returns how many elements share a run.
func (f *runFn) rows(m *rlx.Method) int {
	if len(m.Symbols) != 1 {
		return 1
	}
	sym := m.Symbols[0]
	for _, v := range slices.Concat(m.Inputs, m.Outputs) {
		if len(v.Shape) == 0 || v.Shape[0].Expr != sym.Name || v.Optional {
			return 1
		}
		for _, d := range v.Shape[1:] {
			if d.Min != d.Max {
				return 1
			}
		}
	}
	n := f.Options.Batch
	if n <= 0 {
		n = defaultBatch
	}
	return int(min(int64(n), sym.Max))
}

// check returns the inputs of an element as tensors.
func check(m *rlx.Method, in Tensors, batched bool) (map[string]rlx.Tensor, error) {
	out := map[string]rlx.Tensor{}
	for _, t := range in.Values {
		v, ok := m.Input(t.Name)
		if !ok {
			return nil, wrong(in.Name, "method %s has no input %s", m.Name, t.Name)
		}
		if _, twice := out[t.Name]; twice {
			return nil, wrong(in.Name, "input %s is given twice", t.Name)
		}
		size, negative := v.DType.Size(), false
		for _, n := range t.Shape {
			size, negative = size*n, negative || n < 0
		}
		if t.DType != v.DType.String() || len(t.Shape) != len(v.Shape) || size != len(t.Data) || negative {
			return nil, wrong(in.Name, "input %s is %s%v in %d bytes; the method takes %v", t.Name, t.DType, t.Shape,
				len(t.Data), v)
		}
		for i, n := range t.Shape {
			if int64(n) < v.Shape[i].Min || int64(n) > v.Shape[i].Max {
				return nil, wrong(in.Name, "input %s is %s%v; the method takes %v", t.Name, t.DType, t.Shape, v)
			}
		}
		if batched && t.Shape[0] != 1 {
			return nil, wrong(in.Name, "input %s is %s%v; elements that share a run have a first size of 1", t.Name,
				t.DType, t.Shape)
		}
		out[t.Name] = rlx.Tensor{DType: v.DType, Shape: t.Shape, Data: t.Data}
	}
	for _, v := range m.Inputs {
		if _, ok := out[v.Name]; !ok && !v.Optional {
			return nil, wrong(in.Name, "input %s is missing", v.Name)
		}
	}
	return out, nil
}

func wrong(name, format string, args ...any) error {
	return diag.New(device.ErrInput, name, format, args...)
}

// flush runs the method on the elements that wait.
func (f *runFn) flush(ctx context.Context, emit func(Tensors), fail func(Failure)) error {
	in := f.waiting
	f.waiting = nil
	if len(in) == 0 {
		return nil
	}
	batchSize.Update(ctx, int64(len(in)))
	var outs []Tensors
	err := workerOf(f.Model).do(ctx, f.warm, func(s *rlx.Session) (err error) {
		outs, err = f.run(ctx, s, in)
		return err
	})
	if err == nil {
		for _, t := range outs {
			emit(t)
		}
		return nil
	}
	// In a batch it is unknown which element is wrong, so each gets a run of its own.
	if _, ok := kindOf(err); ok && ctx.Err() == nil && len(in) > 1 {
		for _, one := range in {
			f.waiting = []Tensors{one}
			if err := f.flush(ctx, emit, fail); err != nil {
				return err
			}
		}
		return nil
	} else if letter, ok := failure(ctx, in[0].Name, err); ok {
		fail(letter)
		return nil
	}
	return err
}

// run runs the method once.
func (f *runFn) run(ctx context.Context, s *rlx.Session, in []Tensors) (outs []Tensors, err error) {
	m, err := f.method(s)
	if err != nil {
		return nil, err
	}
	rows := f.rows(m)
	inputs, err := check(m, in[0], rows > 1)
	if err != nil {
		return nil, err
	}
	if rows > 1 {
		for name, t := range inputs {
			inputs[name] = rlx.Tensor{DType: t.DType, Shape: append([]int{rows}, t.Shape[1:]...)}
		}
		for i := range rows {
			one, err := check(m, in[min(i, len(in)-1)], true)
			if err != nil {
				return nil, err
			}
			for name, t := range one {
				all := inputs[name]
				all.Data = append(all.Data, t.Data...)
				inputs[name] = all
			}
		}
	}
	r, err := s.Run(ctx, rlx.Request{Method: f.Method, Inputs: inputs, Outputs: f.Options.Outputs})
	if err != nil {
		return nil, err
	}
	for i := range in {
		out := Tensors{Name: in[i].Name}
		for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
			t := r.Outputs[name]
			one := Tensor{Name: name, DType: t.DType.String(), Shape: t.Shape, Data: t.Data}
			if rows > 1 {
				size := len(t.Data) / rows
				one.Shape, one.Data = append([]int{1}, t.Shape[1:]...), t.Data[i*size:(i+1)*size]
			}
			out.Values = append(out.Values, one)
		}
		outs = append(outs, out)
	}
	return outs, nil
}

func init() {
	register.DoFn4x1[context.Context, Tensors, func(Tensors), func(Failure), error](&runFn{})
	register.Emitter1[Tensors]()
}
