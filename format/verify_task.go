package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/task"
)

// checkTask is the part of check 27 that compares the task with the methods it names. A runtime feeds and reads these values
// without another look at their types, so every size that the task depends on must fit for all values of the symbols.
func checkTask(m *Meta) error {
	s := m.Segment
	if s == nil {
		return nil
	}
	if err := s.Validate(); err != nil {
		return err
	}
	image, err := taskMethodOf(m, s.ImageMethod, s.ImageInput)
	if err != nil {
		return err
	}
	prompt, err := taskMethodOf(m, s.PromptMethod, s.EmbeddingInput, s.PointsInput, s.LabelsInput)
	if err != nil {
		return err
	}
	one, two, three, any := exactly(1), exactly(2), exactly(3), sizes{0, ir.MaxDim}
	side, tokens, low := exactly(s.Size), exactly(s.Tokens), sizes{1, task.MaxSize}
	checks := []struct {
		method taskMethod
		output bool
		name   string
		dtype  dtype.DType
		want   []sizes // nil: any shape
	}{
		{image, false, s.ImageInput, dtype.F32, []sizes{one, three, side, side}},
		{image, true, s.Embedding, dtype.F32, nil},
		{prompt, false, s.EmbeddingInput, dtype.F32, nil},
		{prompt, false, s.PointsInput, dtype.F32, []sizes{one, any, two}},
		{prompt, false, s.LabelsInput, dtype.I32, []sizes{one, any}},
		{prompt, true, s.MasksOutput, dtype.F32, []sizes{one, tokens, low, low}},
		{prompt, true, s.IoUOutput, dtype.F32, []sizes{one, tokens}},
	}
	for _, c := range checks {
		if err := c.method.value(c.output, c.name, c.dtype, c.want); err != nil {
			return err
		}
	}
	made, _ := find(image.Outputs, s.Embedding)
	taken, _ := find(prompt.Inputs, s.EmbeddingInput)
	if !made.Type.Equal(taken.Type) || !made.Type.Shape.IsStatic() {
		return image.bad("output %s is %v and input %s of method %s is %v; want one type without symbols", s.Embedding, made.Type, s.EmbeddingInput, prompt.Name, taken.Type)
	}
	points, _ := find(prompt.Inputs, s.PointsInput)
	labels, _ := find(prompt.Inputs, s.LabelsInput)
	if !points.Type.Shape[:2].Equal(labels.Type.Shape) {
		return prompt.bad("%s is %v and %s is %v; want one number of points", s.PointsInput, points.Type, s.LabelsInput, labels.Type)
	}
	// One point and padding are the fewest. The number must be a bare symbol, so that no value in between is left out.
	n := points.Type.Shape[1:2]
	bare := n.IsStatic() || slices.ContainsFunc(prompt.Syms, func(x ir.Sym) bool { return n.Equal(ir.Shape{ir.Named(x.Name)}) })
	if lo, hi := prompt.Syms.Bounds(n[0]); !bare || lo > 2 || hi < int64(s.MaxPoints) {
		return prompt.bad("%s is %v, %d to %d points; the task gives 2 to %d", s.PointsInput, points.Type, lo, hi, s.MaxPoints)
	}
	return nil
}

// sizes is what a task allows a dim to be.
type sizes struct{ min, max int64 }

func exactly(n int) sizes { return sizes{int64(n), int64(n)} }

func (s sizes) String() string {
	if s.min == s.max {
		return strconv.FormatInt(s.min, 10)
	}
	return fmt.Sprintf("%d..%d", s.min, s.max)
}

// taskMethod is a method that the task uses.
type taskMethod struct{ *Method }

func (x taskMethod) bad(format string, args ...any) error {
	return fail(27, KindMeta.String(), -1, "the task does not fit method %s: "+format, append([]any{x.Name}, args...)...)
}

// taskMethodOf finds a method that takes exactly the given inputs.
func taskMethodOf(m *Meta, name string, inputs ...string) (taskMethod, error) {
	x, ok := m.Method(name)
	if !ok {
		return taskMethod{}, fail(27, KindMeta.String(), -1, "the task uses method %q, which the artifact lacks", name)
	}
	var have []string
	for _, v := range x.Inputs {
		have = append(have, v.Name)
	}
	slices.Sort(have)
	slices.Sort(inputs)
	if !slices.Equal(have, inputs) {
		return taskMethod{}, taskMethod{x}.bad("its inputs are %q; the task gives %q", have, inputs)
	}
	return taskMethod{x}, nil
}

// value checks the type of an input or output at both bounds of every symbol.
func (x taskMethod) value(output bool, name string, d dtype.DType, want []sizes) error {
	list, what := x.Inputs, "input"
	if output {
		list, what = x.Outputs, "output"
	}
	v, ok := find(list, name)
	if !ok {
		return x.bad("%s %q is not there", what, name)
	}
	fits := v.Type.DType == d && (want == nil || v.Type.Rank() == len(want))
	for i, w := range want {
		if fits {
			lo, hi := x.Syms.Bounds(v.Type.Shape[i])
			fits = w.min <= lo && hi <= w.max
		}
	}
	switch {
	case fits:
		return nil
	case want == nil:
		return x.bad("%s %s is %v; want element type %v", what, name, v.Type, d)
	}
	return x.bad("%s %s is %v; want %v%s", what, name, v.Type, d, strings.ReplaceAll(fmt.Sprint(want), " ", ","))
}

func find(list []Value, name string) (Value, bool) {
	i := slices.IndexFunc(list, func(v Value) bool { return v.Name == name })
	if i < 0 {
		return Value{}, false
	}
	return list[i], true
}
