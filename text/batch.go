package text

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// GenerateBatch continues several prompts together, up to Facts.Sequences in each run. When a text ends, the next
// prompt takes its place. Each text equals the one that Generator.Generate would return for its prompt alone, with the
// same options and seed. each, if not nil, is used in place of Options.Each: it is called with the number of the prompt
// and every token as it is chosen. Its error ends all texts.
//
// The results are in the order of prompts. Errors match rlx.ErrUsage (the model was compiled for one sequence),
// ErrPrompt, ErrSampling, ErrContext (a prompt and Tokens exceed the context), or are those of Generator.Generate and
// rlx.Session.NewState. A text whose context is full does not end the others; its error is returned at the end. If some
// tokens were generated, the results are returned with the error.
func GenerateBatch(ctx context.Context, s *rlx.Session, prompts [][]int, o Options,
	each func(prompt int, t Token) error) ([]*Result, error) {
	t, err := specOf(s.Model())
	switch {
	case err != nil:
		return nil, err
	case t.Batch.Method == "":
		return nil, diag.New(diag.Usage, s.Model().Path(), "was compiled for one sequence at a time").WithHint(
			"compile it with rlxc --batch N")
	case o.Each != nil:
		return nil,
			diag.New(diag.Usage, "Options.Each",
				"is set; give GenerateBatch a function that takes the prompt's number too")
	}
	if err := t.check(o); err != nil {
		return nil, err
	}
	for _, p := range prompts {
		if err := t.checkPrompt(p, 0); err != nil {
			return nil, err
		}
		if len(p) > t.Context {
			return nil, t.tooLong(len(p))
		}
	}
	tok, err := tokenizerOf(s.Model(), t)
	if err != nil {
		return nil, err
	}
	if err := s.Load(ctx, t.Batch.Method, t.Batch.Move); err != nil {
		return nil, err
	}
	state, err := s.NewState(ctx)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	b := newTextBatch(s, t, state, o, prompts)
	start := time.Now()
	for i := range b.texts {
		b.texts[i] = &Result{Stop: StopCancelled, Start: start, Prompt: len(prompts[i])}
	}
	run, end := graceful(ctx)
	defer end()
	for err = b.fill(run, tok); err == nil && len(b.slots) > 0; {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		if err = b.step(run, each); err == nil {
			err = b.fill(run, tok)
		}
	}
	for _, q := range b.slots {
		if q.out != nil {
			b.texts[q.prompt].ended(q.out)
		}
	}
	for _, x := range b.texts {
		x.Duration = cmp.Or(x.Duration, time.Since(start))
	}
	return b.texts, cmp.Or(err, b.full)
}

// A textBatch holds the sequences of a GenerateBatch.
type textBatch struct {
	s       *rlx.Session
	task    *spec
	options Options
	run     textRun
	count   []int32
	slots   []textSlot // the first sequences of the state
	prompts [][]int
	texts   []*Result
	next    int   // the first prompt that has not begun
	full    error // of a text for which the context was too small
}

// A textSlot is a sequence of a run.
type textSlot struct {
	prompt int
	seen   []int // tokens in the state
	rest   []int // tokens that are not in the state yet
	out    *textStream
}

func newTextBatch(s *rlx.Session, t *spec, state *rlx.State, o Options, prompts [][]int) *textBatch {
	n := t.Batch.Sequences
	b := &textBatch{s: s, task: t, options: o, slots: make([]textSlot, n), prompts: prompts,
		texts: make([]*Result, len(prompts)), count: make([]int32, n)}
	b.run.prepare(t, n)
	b.run.set(s, t, o, false)
	r := &b.run.request
	r.Method, r.State, r.Outputs = t.Batch.Method, state, b.run.chosen
	delete(r.Inputs, t.Slide.Dropped)
	return b
}

// fill starts prompts in slots whose sequences have ended. If no prompt is left, the last sequence moves there.
func (b *textBatch) fill(ctx context.Context, tok *Tokenizer) error {
	for i := 0; i < len(b.slots); i++ {
		q, last := &b.slots[i], len(b.slots)-1
		switch {
		case q.out != nil:
		case b.next < len(b.prompts):
			*q = textSlot{prompt: b.next, seen: q.seen[:0], rest: b.prompts[b.next],
				out: newTextStream(tok, b.options.Stop)}
			b.next++
		case b.slots[last].out == nil:
			b.slots = b.slots[:last]
			i--
		default:
			if err := b.move(ctx, last, i); err != nil {
				return err
			}
			*q, b.slots = b.slots[last], b.slots[:last]
		}
	}
	return nil
}

// move copies the state of one sequence over that of another.
func (b *textBatch) move(ctx context.Context, from, to int) error {
	index := func(i int) rlx.Tensor {
		return rlx.Tensor{DType: rlx.I32, Shape: []int{}, Data: tensor.Bytes([]int32{int32(i)})}
	}
	m := &b.task.Batch
	_, err := b.run.do.Run(
		ctx, rlx.Request{Method: m.Move, State: b.run.request.State,
			Inputs: map[string]rlx.Tensor{m.From: index(from), m.To: index(to)}, Outputs: []string{}})
	return err
}

// step makes one run. Sequences with fewer tokens than others are padded. Padding in the state is overwritten before it
// is read.
func (b *textBatch) step(ctx context.Context, each func(int, Token) error) error {
	in, r := &b.task.Inputs, &b.run
	tokens, room := 1, b.task.Chunk
	for _, q := range b.slots {
		tokens, room = max(tokens, len(q.rest)), min(room, b.task.Context-len(q.seen))
	}
	tokens = min(tokens, room)
	window := 1
	if r.penalty[0] != 1 {
		window = b.task.Window
	}
	for i, q := range b.slots {
		at, n := len(q.seen), min(len(q.rest), tokens)
		ids := r.ids[i*tokens : (i+1)*tokens]
		clear(ids)
		for k, id := range q.rest[:n] {
			ids[k] = int64(id)
		}
		fillRecent(r.recent[i*window:(i+1)*window], ids[:n], q.seen)
		r.position[i], b.count[i] = int32(at), int32(n)
		next := uint64(at + n)
		r.step[2*i], r.step[2*i+1] = uint32(next), uint32(next>>32)
	}
	n := len(b.slots)
	r.request.Inputs[in.IDs] = rlx.Tensor{DType: rlx.I64, Shape: []int{n, tokens}, Data: tensor.Bytes(r.ids[:n*tokens])}
	r.request.Inputs[in.Recent] = rlx.Tensor{DType: rlx.I64, Shape: []int{n, window},
		Data: tensor.Bytes(r.recent[:n*window])}
	r.request.Inputs[in.Position] = rlx.Tensor{DType: rlx.I32, Shape: []int{n}, Data: tensor.Bytes(r.position[:n])}
	r.request.Inputs[in.Step] = rlx.Tensor{DType: rlx.U32, Shape: []int{n, 2}, Data: tensor.Bytes(r.step[:2*n])}
	r.request.Inputs[b.task.Batch.Count] = rlx.Tensor{DType: rlx.I32, Shape: []int{n}, Data: tensor.Bytes(b.count[:n])}
	res, err := r.do.Run(ctx, r.request)
	if err != nil {
		return err
	}
	for i := range b.slots {
		if err := b.chosen(i, int(b.count[i]), res, each); err != nil {
			return err
		}
	}
	return nil
}

// chosen takes the token that a run chose for a sequence, which had n tokens in the run.
func (b *textBatch) chosen(i, n int, res *rlx.Result, each func(int, Token) error) error {
	q := &b.slots[i]
	q.seen, q.rest = append(q.seen, q.rest[:n]...), q.rest[n:]
	if len(q.rest) > 0 {
		return nil
	}
	x := Token{ID: int(tensor.View[int32](res.Outputs[b.run.token].Data)[i]),
		LogProb: tensor.View[float32](res.Outputs[b.run.logprob].Data)[i]}
	if err := checkToken(b.s, b.task, x, len(q.seen)-1); err != nil {
		return err
	}
	t, v := b.texts[q.prompt], b.task.Vocabulary
	if b.options.Logits {
		t.Logits = append(t.Logits, tensor.View[float32](res.Outputs[b.task.Outputs.Logits].Data)[i*v:(i+1)*v]...)
	}
	over, err := t.take(b.task, x, len(q.seen) == b.task.Context, q.out, &b.options)
	if err == nil && each != nil {
		err = each(q.prompt, t.Tokens[len(t.Tokens)-1])
	}
	switch {
	case err != nil:
		t.Stop = StopCancelled
	case over:
		if t.Stop == StopContext && b.options.Tokens > 0 && b.full == nil {
			b.full = b.task.full(len(t.Tokens), b.options.Tokens)
		}
		t.Duration, q.out = time.Since(t.Start), nil
	}
	q.rest = slices.Clone([]int{x.ID})
	return err
}
