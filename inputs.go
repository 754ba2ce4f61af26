package rlx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// CheckInput checks a type against an input as far as possible without the other inputs, for example before a file is
// read. The error matches ErrInput.
func (m *Method) CheckInput(name string, d DType, shape []int) error {
	v, ok := m.Input(name)
	if !ok {
		return m.unknown(name)
	}
	if d != v.DType {
		return v.bad(d, shape)
	}
	if len(shape) != len(v.Shape) {
		return v.bad(d, shape).WithHint("it needs %d dimensions", len(v.Shape))
	}
	for i, dim := range v.Shape {
		switch size := int64(shape[i]); {
		case size >= dim.Min && size <= dim.Max:
		case dim.Min == dim.Max:
			return v.bad(d, shape).WithHint("size %d must be %d", size, dim.Min)
		default:
			return v.bad(d, shape).WithHint("size %d of %s must be %d to %d", size, dim.Expr, dim.Min, dim.Max)
		}
	}
	return nil
}

func (m *Method) unknown(name string) error {
	return diag.New(device.ErrInput, "input "+name, "%s has no such input; its inputs are %s", m.Name, list(m.Inputs))
}

// Sizes checks tensors against the inputs of the method and returns the values of its symbols. Run does the same; call
// Sizes to find a mistake before anything is loaded. Errors match ErrInput.
func (m *Method) Sizes(in map[string]Tensor) (map[string]int64, error) {
	sizes, err := m.sizes(in, nil)
	return maps.Clone(sizes), err
}

// solvedSizes remembers the sizes that follow from the shapes of the last run, because most runs have the same.
type solvedSizes struct {
	mu    sync.Mutex
	dims  []int64 // of the inputs: their indices and the sizes that are not static
	sizes map[string]int64
}

func (s *solvedSizes) get(dims []int64) (map[string]int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sizes, s.sizes != nil && slices.Equal(dims, s.dims)
}

func (s *solvedSizes) put(dims []int64, sizes map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dims, s.sizes = dims, sizes
}

// sizes is like Sizes, with some inputs on a device. The result must not be changed.
func (m *Method) sizes(in map[string]Tensor, feeds map[string]*Resident) (map[string]int64, error) {
	dims, err := m.openDims(in, feeds)
	if err != nil {
		return nil, err
	}
	if len(in)+len(feeds) > len(m.Inputs) {
		for _, name := range append(slices.Sorted(maps.Keys(in)), slices.Sorted(maps.Keys(feeds))...) {
			if _, ok := m.Input(name); !ok {
				return nil, m.unknown(name)
			}
		}
	}
	sizes, ok := m.solved.get(dims)
	if !ok {
		if sizes, err = m.solve(in, feeds); err != nil {
			return nil, err
		}
		m.solved.put(dims, sizes)
	}
	return sizes, m.checkElements(in)
}

// openDims checks each input by itself. It returns the indices of the inputs and their sizes that are not static.
func (m *Method) openDims(in map[string]Tensor, feeds map[string]*Resident) ([]int64, error) {
	dims := make([]int64, 0, 4*len(m.Inputs))
	for k, v := range m.Inputs {
		t, ok := in[v.Name]
		fed := feeds[v.Name]
		if fed != nil {
			if ok {
				return nil, usage("input "+v.Name, "is given by Inputs and by Feeds; want one of them")
			}
			t, ok = Tensor{DType: fed.DType, Shape: fed.Shape}, true
		}
		if !ok && v.Optional {
			continue
		}
		if !ok {
			return nil, diag.New(device.ErrInput, "input "+v.Name, "is missing; inputs of %s are %s", m.Name,
				list(m.Inputs))
		}
		if err := m.CheckInput(v.Name, t.DType, t.Shape); err != nil {
			return nil, err
		}
		if err := t.check(); err != nil && fed == nil {
			return nil, diag.New(device.ErrInput, "input "+v.Name, "%w", err)
		}
		dims = append(dims, int64(k))
		for i, d := range v.typ.Shape {
			if !d.IsStatic() { // CheckInput has checked the others
				dims = append(dims, int64(t.Shape[i]))
			}
		}
	}
	return dims, nil
}

// solve returns the values of the symbols for inputs that openDims has checked.
func (m *Method) solve(in map[string]Tensor, feeds map[string]*Resident) (map[string]int64, error) {
	var eqs []ir.Equation
	var of []Value // of each equation
	shapeOf := func(v Value) (d DType, shape []int, ok bool) {
		if f := feeds[v.Name]; f != nil {
			return f.DType, f.Shape, true
		}
		t, ok := in[v.Name]
		return t.DType, t.Shape, ok
	}
	for _, v := range m.Inputs {
		_, shape, ok := shapeOf(v)
		for i, d := range v.typ.Shape {
			if ok && !d.IsStatic() {
				eqs, of = append(eqs, ir.Equation{Dim: d, Size: int64(shape[i]), Of: "input " + v.Name}),
					append(of, v)
			}
		}
	}
	sizes, err := m.syms.Solve(nil, eqs)
	var which *ir.SizeError
	switch {
	case err == nil:
		return sizes, nil
	case errors.As(err, &which) && which.Equation >= 0:
		v := of[which.Equation]
		d, shape, _ := shapeOf(v)
		return nil, v.bad(d, shape).WithHint("%v", err)
	}
	return nil, badSizes(m.Name, err)
}

// complete returns in with the inputs that the run leaves out.
func (m *Method) complete(in map[string]Tensor, feeds map[string]*Resident, sizes map[string]int64) map[string]Tensor {
	var out map[string]Tensor
	for _, v := range m.Inputs {
		if _, ok := in[v.Name]; ok || feeds[v.Name] != nil {
			continue
		}
		if out == nil {
			out = map[string]Tensor{}
			maps.Copy(out, in)
		}
		value, _ := m.left(v.Name)
		a := tensor.NewArray(v.typ.DType, v.ShapeAt(sizes)...)
		for i := range a.Len() {
			if a.Floats != nil {
				a.Floats[i] = value
			} else {
				a.Ints[i] = int64(value)
			}
		}
		out[v.Name] = ofCore(a.Tensor())
	}
	if out == nil {
		return in
	}
	return out
}

// left returns the value of an input that may be left out.
func (m *Method) left(input string) (value float64, ok bool) {
	if t, lenient := m.model.verified.Meta().Task.(task.Lenient); lenient {
		return t.Default(m.Name, input)
	}
	return 0, false
}

// checkElements lets the task check the elements of inputs.
func (m *Method) checkElements(in map[string]Tensor) error {
	about := m.model.verified.Meta().Task
	if about == nil {
		return nil
	}
	for _, v := range m.Inputs {
		if t, ok := in[v.Name]; ok {
			if err := about.CheckInput(m.Name, v.Name, t.core()); err != nil {
				return diag.New(device.ErrInput, "input "+v.Name, "%w", err)
			}
		}
	}
	return nil
}

func badSizes(method string, err error) *diag.Error {
	return diag.New(device.ErrInput, method, "%w", err)
}

func (v Value) bad(d DType, shape []int) *diag.Error {
	return diag.New(device.ErrInput, "input "+v.Name, "is %s%s; allowed is %v%s", d, shapeText(shape), v.typ,
		v.ranges())
}

// ranges describes the ranges of the symbols in the type of v: " with N from 1 to 64".
func (v Value) ranges() string {
	parts := map[string]string{}
	for _, d := range v.typ.Shape {
		for _, name := range d.Symbols() {
			s, _ := v.syms.Find(name)
			parts[name] = fmt.Sprintf("%s from %d to %d", name, s.Min, s.Max)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " with " + strings.Join(slices.Sorted(maps.Values(parts)), ", ")
}

// shapeText formats a shape as in a type: "[1,2]".
func shapeText(shape []int) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}
