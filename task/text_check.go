package task

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Check compares the task with the method that it names.
func (t *Text) Check(m Methods) error {
	in := t.Inputs
	common := []string{in.IDs, in.Position, in.Temperature, in.TopK, in.TopP, in.MinP, in.RepeatPenalty, in.Recent,
		in.Seed, in.Step}
	inputs := slices.Clone(common)
	if t.Slides() {
		inputs = append(inputs, t.Slide.Dropped)
	}
	if t.TakesImages() {
		inputs = append(inputs, t.Images.Rotary)
	}
	f, err := m.Taking(t.Method, inputs...)
	if err != nil {
		return err
	}
	ids, err := t.checkSequences(f, Exactly(1), nil, nil)
	if err != nil {
		return err
	}
	if name := t.Outputs.Hidden; name != "" {
		hidden, err := f.Output(name, dtype.F32, Shape{Exactly(1), AnySize, AnySize})
		if err != nil {
			return err
		}
		if hidden.Shape[1] != ids || !hidden.Shape[2].IsStatic() {
			return f.Bad("%s is %v; want a row of known size for each of %v tokens", name, hidden, ids)
		}
	}
	if t.TakesImages() {
		if err := t.checkImages(m, f, ids); err != nil {
			return err
		}
	}
	if b := t.Batch; b.Method != "" {
		if err := t.checkBatch(m, append(common, b.Count)); err != nil {
			return err
		}
	}
	if t.Slides() {
		w, err := m.Taking(t.Slide.Method, t.Slide.First)
		if err != nil {
			return err
		}
		_, err = w.Input(t.Slide.First, dtype.I32, Shape{})
		_, wrong := f.Input(t.Slide.Dropped, dtype.I32, Shape{})
		if err = cmp.Or(err, wrong); err != nil {
			return err
		}
	}
	if t.Draft.Method == "" {
		return nil
	}
	return t.checkDraft(m, f, ids)
}

// checkBatch checks the methods for several sequences. inputs are those of the first, but for the sequences.
func (t *Text) checkBatch(m Methods, inputs []string) error {
	b, moving := t.Batch, []string{t.Batch.From, t.Batch.To}
	n := Sizes{Min: 1, Max: int64(b.Sequences)}
	var sampling Shape
	if t.TakesImages() {
		inputs = append(inputs, t.Images.Rotary)
	}
	if b.Sequence != "" {
		inputs, moving, sampling = append(inputs, b.Sequence), append(moving, b.Row), Shape{n}
	}
	if b.Pages != "" {
		inputs, sampling = append(inputs, b.Pages), Shape{n}
	}
	g, err := m.Taking(b.Method, inputs...)
	if err != nil {
		return err
	}
	tokens, err := t.checkSequences(g, n, Shape{n}, sampling)
	if err != nil {
		return err
	}
	if name := t.Images.Rotary; t.TakesImages() {
		if rotary, err := g.Input(name, dtype.I32, Shape{Exactly(3), n, AnySize}); err != nil {
			return err
		} else if rotary.Shape[2] != tokens {
			return g.Bad("%s is %v; want a column for each of %v tokens", name, rotary, tokens)
		}
	}
	w, err := m.Taking(b.Move, moving...)
	for _, name := range moving {
		if err == nil {
			_, err = w.Input(name, dtype.I32, Shape{})
		}
	}
	return err
}

// checkSequences checks the inputs and outputs of a method for n sequences, each with the leading dims in each, and
// those in sampling for sampling parameters. It returns the number of tokens per run, which is a dim of the ids.
func (t *Text) checkSequences(f *Method, n Sizes, each, sampling Shape) (tokens ir.Dim, err error) {
	in, out := t.Inputs, t.Outputs
	with := func(s ...Sizes) Shape { return slices.Concat(Shape{}, each, s) }
	pair, scalar := Exactly(2), append(Shape{}, sampling...)
	ids, err := f.Input(in.IDs, dtype.I64, Shape{n, AnySize})
	if err != nil {
		return ir.Dim{}, err
	}
	if lo, hi := f.Syms.Bounds(ids.Shape[0]); !f.TakesEvery(ids.Shape[0], 1, n.Max) {
		return ir.Dim{}, f.Bad("%s is %v, of %d to %d sequences; the task gives 1 to %d", in.IDs, ids, lo, hi, n.Max)
	}
	value := func(find func(string, dtype.DType, Shape) (ir.Type, error), name string, d dtype.DType,
		shape Shape) ir.Type {
		got, wrong := find(name, d, shape)
		if wrong == nil && len(shape) > 0 && shape[0] == n && got.Shape[0] != ids.Shape[0] {
			wrong = f.Bad("%s is %v and %s %v; want as many sequences", name, got, in.IDs, ids)
		}
		err = cmp.Or(err, wrong)
		return got
	}
	recent := value(f.Input, in.Recent, dtype.I64, with(AnySize))
	value(f.Input, in.Position, dtype.I32, with())
	value(f.Input, in.Temperature, dtype.F32, scalar)
	value(f.Input, in.TopK, dtype.I32, scalar)
	value(f.Input, in.TopP, dtype.F32, scalar)
	value(f.Input, in.MinP, dtype.F32, scalar)
	value(f.Input, in.RepeatPenalty, dtype.F32, scalar)
	value(f.Input, in.Seed, dtype.U32, append(scalar[:len(scalar):len(scalar)], pair))
	value(f.Input, in.Step, dtype.U32, with(pair))
	if each != nil {
		value(f.Input, t.Batch.Count, dtype.I32, with())
	}
	switch {
	case sampling == nil:
	case t.Batch.Pages != "":
		value(f.Input, t.Batch.Pages, dtype.I32, with(Exactly(t.PerSequence())))
	default:
		value(f.Input, t.Batch.Sequence, dtype.I32, with())
	}
	value(f.Output, out.Logits, dtype.F32, Shape{n, Exactly(t.Vocabulary)})
	value(f.Output, out.Token, dtype.I32, Shape{n})
	value(f.Output, out.LogProb, dtype.F32, Shape{n})
	if out.Greedy != "" {
		value(f.Output, out.Greedy, dtype.I32, Shape{n})
		value(f.Output, out.GreedyLogProb, dtype.F32, Shape{n})
	}
	if err != nil {
		return ir.Dim{}, err
	}
	tokens = ids.Shape[1]
	penalised := recent.Shape[len(each):]
	for _, x := range []struct {
		name string
		dim  ir.Dim
		most int
	}{{in.IDs, tokens, t.Chunk}, {in.Recent, penalised[0], t.Window}} {
		if !f.TakesEvery(x.dim, 1, int64(x.most)) {
			lo, hi := f.Syms.Bounds(x.dim)
			return tokens, f.Bad("%s takes %d to %d ids; the task gives 1 to %d", x.name, lo, hi, x.most)
		}
	}
	if tokens == penalised[0] && !penalised.IsStatic() {
		return tokens, f.Bad("%s is %v and %s is %v; want sizes of their own", in.IDs, ids, in.Recent, recent)
	}
	return tokens, nil
}

// checkDraft compares the methods that draft tokens with the f is the method that checks the drafts; tokens is its
// number of ids.
func (t *Text) checkDraft(m Methods, f *Method, tokens ir.Dim) error {
	d, one := &t.Draft, Exactly(1)
	rows := Shape{one, AnySize}
	choices, err := f.Output(d.Choices, dtype.I32, rows)
	logprobs, wrong := f.Output(d.LogProbs, dtype.F32, rows)
	hidden, wrong2 := f.Output(d.Hidden, dtype.F32, append(rows, AnySize))
	if err = cmp.Or(err, wrong, wrong2); err != nil {
		return err
	}
	for name, n := range map[string]ir.Dim{d.Choices: choices.Shape[1], d.LogProbs: logprobs.Shape[1],
		d.Hidden: hidden.Shape[1]} {
		if n != tokens {
			return f.Bad("%s has %v rows; want one for each token, %v", name, n, tokens)
		}
	}
	h, err := m.Taking(d.Method, d.Hidden, t.Inputs.IDs, t.Inputs.Position)
	if err != nil {
		return err
	}
	if !hidden.Shape[2].IsStatic() {
		return f.Bad("%s is %v; want a size that is known", d.Hidden, hidden)
	}
	width := Exactly(int(hidden.Shape[2].Const))
	ids, err := h.Input(t.Inputs.IDs, dtype.I64, rows)
	from, wrong := h.Input(d.Hidden, dtype.F32, Shape{one, AnySize, width})
	_, wrong2 = h.Input(t.Inputs.Position, dtype.I32, Shape{})
	_, wrong3 := h.Output(d.Token, dtype.I32, Shape{one})
	_, wrong4 := h.Output(d.Hidden, dtype.F32, Shape{one, one, width})
	switch err = cmp.Or(err, wrong, wrong2, wrong3, wrong4); {
	case err != nil:
		return err
	case ids.Shape[1] != from.Shape[1] || !h.TakesEvery(ids.Shape[1], 1, int64(t.Chunk)):
		return h.Bad("%s is %v and %s %v; want 1 to %d tokens of each", t.Inputs.IDs, ids, d.Hidden, from, t.Chunk)
	case d.Rewind == "":
		return nil
	}
	i := slices.IndexFunc(m, func(m Method) bool { return m.Name == d.Rewind })
	if i < 0 {
		return fmt.Errorf("the task uses method %q, which the artifact lacks", d.Rewind)
	}
	for _, x := range m[i].Inputs {
		if !strings.HasPrefix(x.Name, StatePrefix) || !x.Type.Shape.IsStatic() {
			return m[i].Bad("input %s is %v; want %sNAME for a state NAME, with sizes that are known", x.Name, x.Type,
				StatePrefix)
		}
	}
	return nil
}

// CheckInput checks ids against the vocabulary, and the ranges of the other inputs. Otherwise a run could fail after it
// began to change the state.
func (t *Text) CheckInput(method, input string, v tensor.Tensor) error {
	switch {
	case method == "":
		return nil
	case method == t.Batch.Move && input == t.Batch.Row:
		if n, most := int32At(v, 0), t.Context-t.Batch.Rows; n < 0 || n > most {
			return fmt.Errorf("is %d; allowed are 0 to %d", n, most)
		}
		return nil
	case method == t.Batch.Method && input != "" && input == t.Batch.Sequence,
		method == t.Images.Append && input != "" && input == t.Images.Sequence:
		return t.checkNumbers(v)
	case method == t.Batch.Method && input != "" && input == t.Batch.Pages,
		method == t.Batch.Move && t.Batch.Pages != "":
		for i := range len(v.Data) / 4 {
			if n := int32At(v, i); n < 0 || n >= t.Batch.PageCount {
				return fmt.Errorf("has page %d; the state has pages 0 to %d", n, t.Batch.PageCount-1)
			}
		}
		return nil
	case method == t.Batch.Move:
		if n := int32At(v, 0); n < 0 || n >= t.Batch.Sequences {
			return fmt.Errorf("is %d; the state has sequences 0 to %d", n, t.Batch.Sequences-1)
		}
		return nil
	case method == t.Batch.Method && input == t.Batch.Count:
		for i := range len(v.Data) / 4 {
			if n := int32At(v, i); n < 1 || n > t.Chunk {
				return fmt.Errorf("of sequence %d is %d; allowed are 1 to %d", i, n, t.Chunk)
			}
		}
		return nil
	case method == t.Images.Method:
		if input == t.Images.Grid {
			return t.Images.checkGrid(v)
		}
		return nil
	case method == t.Method, method == t.Draft.Method, method == t.Batch.Method, method == t.Images.Append:
		return t.checkChoosing(input, v)
	}
	return nil
}

// checkNumbers checks the numbers of the sequences that a run continues.
func (t *Text) checkNumbers(v tensor.Tensor) error {
	seen := make([]bool, t.Batch.Sequences)
	for i := range len(v.Data) / 4 {
		switch n := int32At(v, i); {
		case n < 0 || n >= len(seen):
			return fmt.Errorf("number %d is %d; the state has sequences 0 to %d", i, n, len(seen)-1)
		case seen[n]:
			return fmt.Errorf("has sequence %d twice", n)
		default:
			seen[n] = true
		}
	}
	return nil
}

// checkChoosing checks an input of a method that chooses tokens.
func (t *Text) checkChoosing(input string, v tensor.Tensor) error {
	switch in := &t.Inputs; input {
	case in.IDs, in.Recent:
		for i := range len(v.Data) / 8 {
			if id := int64(binary.NativeEndian.Uint64(v.Data[8*i:])); id < 0 || id >= int64(t.Vocabulary) {
				return fmt.Errorf("id %d is %d; the vocabulary has 0 to %d", i, id, t.Vocabulary-1)
			}
		}
	case in.Position:
		for i := range len(v.Data) / 4 {
			if n := int32At(v, i); n < 0 || n >= t.Most() {
				return fmt.Errorf("is %d; the context has 0 to %d", n, t.Most()-1)
			}
		}
	case in.TopK:
		for i := range len(v.Data) / 4 {
			if n := int32At(v, i); n < 0 || n > t.Vocabulary {
				return fmt.Errorf("is %d; allowed are 0 (off) to %d", n, t.Vocabulary)
			}
		}
	case in.TopP, in.MinP:
		for _, x := range floatsOf(v) {
			if !(x >= 0 && x <= 1) {
				return fmt.Errorf("is %v; allowed are 0 to 1", x)
			}
		}
	case in.Temperature:
		for _, x := range floatsOf(v) {
			if x != x || math.IsInf(float64(x), 0) {
				return fmt.Errorf("is %v; want a finite number", x)
			}
		}
	case in.RepeatPenalty:
		for _, x := range floatsOf(v) {
			if !(x > 0) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("is %v; want a positive number", x)
			}
		}
	}
	return nil
}

// int32At returns element i of an i32 tensor.
func int32At(v tensor.Tensor, i int) int { return int(int32(binary.NativeEndian.Uint32(v.Data[4*i:]))) }

// floatsOf returns the elements of an f32 tensor.
func floatsOf(v tensor.Tensor) []float32 {
	out := make([]float32, len(v.Data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.NativeEndian.Uint32(v.Data[4*i:]))
	}
	return out
}
