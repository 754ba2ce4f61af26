package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// A Method is the signature of a method of an artifact. Tasks check it against their description.
type Method struct {
	Name            string
	Syms            ir.Syms
	Inputs, Outputs []Value
}

// A Value is an input or output of a method.
type Value struct {
	Name string
	Type ir.Type
}

// Methods lists the methods of an artifact.
type Methods []Method

// Taking returns the method with the given name. It returns an error if there is no such method, or if its inputs are
// not exactly the given ones.
func (all Methods) Taking(name string, inputs ...string) (*Method, error) {
	i := slices.IndexFunc(all, func(m Method) bool { return m.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the task uses method %q, which the artifact lacks", name)
	}
	m := &all[i]
	var have []string
	for _, v := range m.Inputs {
		have = append(have, v.Name)
	}
	slices.Sort(have)
	slices.Sort(inputs)
	if !slices.Equal(have, inputs) {
		return nil, m.Bad("its inputs are %q; the task gives %q", have, inputs)
	}
	return m, nil
}

// Bad returns the error for a method that a task cannot use.
func (m *Method) Bad(format string, args ...any) error {
	return fmt.Errorf("the task does not fit method %s: "+format, append([]any{m.Name}, args...)...)
}

// A Shape gives the sizes that a task allows for each dim of a value. A nil Shape allows any shape; Shape{} allows only
// scalars.
type Shape []Sizes

// Sizes is the range of sizes that a task allows for one dim.
type Sizes struct{ Min, Max int64 }

// AnySize allows every size.
var AnySize = Sizes{0, ir.MaxDim}

// Exactly allows only size n.
func Exactly(n int) Sizes { return Sizes{int64(n), int64(n)} }

func (s Sizes) String() string {
	if s.Min == s.Max {
		return strconv.FormatInt(s.Min, 10)
	}
	return fmt.Sprintf("%d..%d", s.Min, s.Max)
}

// Input returns the type of an input. It is an error if the input does not have element type d and shape want for all
// values of the symbols.
func (m *Method) Input(name string, d dtype.DType, want Shape) (ir.Type, error) {
	return m.value(m.Inputs, "input", name, d, want)
}

// Output is like Input for an output.
func (m *Method) Output(name string, d dtype.DType, want Shape) (ir.Type, error) {
	return m.value(m.Outputs, "output", name, d, want)
}

func (m *Method) value(list []Value, what, name string, d dtype.DType, want Shape) (ir.Type, error) {
	i := slices.IndexFunc(list, func(v Value) bool { return v.Name == name })
	if i < 0 {
		return ir.Type{}, m.Bad("%s %q is not there", what, name)
	}
	t := list[i].Type
	fits := t.DType == d && (want == nil || t.Rank() == len(want))
	for i, w := range want {
		if fits {
			lo, hi := m.Syms.Bounds(t.Shape[i])
			fits = w.Min <= lo && hi <= w.Max
		}
	}
	switch {
	case fits:
		return t, nil
	case want == nil:
		return t, m.Bad("%s %s is %v; want element type %v", what, name, t, d)
	}
	return t, m.Bad("%s %s is %v; want %v%s", what, name, t, d, strings.ReplaceAll(fmt.Sprint([]Sizes(want)), " ", ","))
}

// TakesEvery reports whether a dim can have every size from min to max. It must be constant or a bare symbol: an
// expression such as 2*N would leave sizes out.
func (m *Method) TakesEvery(d ir.Dim, min, max int64) bool {
	one := ir.Shape{d}
	bare := one.IsStatic() ||
		slices.ContainsFunc(m.Syms, func(x ir.Sym) bool { return one.Equal(ir.Shape{ir.Named(x.Name)}) })
	lo, hi := m.Syms.Bounds(d)
	return bare && lo <= min && hi >= max
}
