package rlx

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/task/text"
	"github.com/rlx-go/rlx/core/tensor"
)

// GenerateBatch continues several sequences of tokens, each of its own length, many in one run: Task.Batch.Sequences at a time, and the next prompt where
// one has ended. Each text is what Generator.Generate gives of its prompt alone with the same options and seed. Each, if not nil, is called with every token
// as it is chosen and the number of its prompt, in place of TextOptions.Each; its error ends all texts.
//
// The texts are in the order of prompts. Errors match ErrUsage (the model was compiled for one sequence, options, a prompt that is empty or has ids that the
// vocabulary lacks), ErrContext (a prompt and Tokens exceed the context), or are those of Generator.Generate and NewState. A text whose context is full does not end the
// others; its error comes last. Where some tokens were generated, the texts are returned beside the error.
func (s *Session) GenerateBatch(ctx context.Context, prompts [][]int, o TextOptions, each func(prompt int, t Token) error) ([]*Text, error) {
	t, ok := s.model.TextTask()
	switch {
	case !ok:
		return nil, usage(s.model.path, "declares no task %q", text.Kind)
	case t.Batch.Method == "":
		return nil, usage(s.model.path, "was compiled for one sequence at a time").WithHint("compile it with rlxc --batch N")
	case o.Each != nil:
		return nil, usage("TextOptions.Each", "is set; give GenerateBatch a function that takes the prompt's number too")
	}
	if err := checkTextOptions(t, o); err != nil {
		return nil, err
	}
	for _, p := range prompts {
		if err := t.CheckPrompt(p, 0); err != nil {
			return nil, err
		}
		if len(p) > t.Context {
			return nil, t.TooLong(len(p))
		}
	}
	tok, err := s.tokenizer(t)
	if err != nil {
		return nil, err
	}
	if err := s.Load(ctx, t.Batch.Method); err != nil {
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
		b.texts[i] = &Text{Stop: StopCancelled, Start: start, Prompt: len(prompts[i])}
	}
	run, end := graceful(ctx)
	defer end()
	for err == nil && b.fill(tok) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		err = b.step(run, each)
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

// textBatch are the sequences of a GenerateBatch.
type textBatch struct {
	s       *Session
	task    *text.Task
	options TextOptions
	run     textRun
	count   []int32
	slots   []textSlot
	prompts [][]int
	texts   []*Text
	next    int   // the first prompt that was not begun
	full    error // of a text for which the context was too small
}

// textSlot is a sequence of a run.
type textSlot struct {
	prompt int
	seen   []int // tokens in the state
	rest   []int // tokens that are not in it yet
	out    *textStream
}

func newTextBatch(s *Session, t *text.Task, state *State, o TextOptions, prompts [][]int) *textBatch {
	n := t.Batch.Sequences
	b := &textBatch{s: s, task: t, options: o, slots: make([]textSlot, n), prompts: prompts, texts: make([]*Text, len(prompts)), count: make([]int32, n)}
	b.run.prepare(t, n)
	b.run.set(s, t, o, false)
	r := &b.run.request
	r.Method, r.State, r.Outputs = t.Batch.Method, state, b.run.chosen
	delete(r.Inputs, t.Slide.Dropped)
	r.Inputs[t.Inputs.Position] = Tensor{I32, []int{n}, tensor.Bytes(b.run.position)}
	r.Inputs[t.Inputs.Step] = Tensor{U32, []int{n, 2}, tensor.Bytes(b.run.step)}
	r.Inputs[t.Batch.Count] = Tensor{I32, []int{n}, tensor.Bytes(b.count)}
	return b
}

// fill begins prompts where sequences have ended, and reports whether there are any.
func (b *textBatch) fill(tok *Tokenizer) (active bool) {
	for i := range b.slots {
		q := &b.slots[i]
		if q.out == nil && b.next < len(b.prompts) {
			*q = textSlot{prompt: b.next, seen: q.seen[:0], rest: b.prompts[b.next], out: newTextStream(tok, b.options.Stop)}
			b.next++
		}
		active = active || q.out != nil
	}
	return active
}

// step makes one run, in which sequences that are short of tokens are filled up with others: what stands behind the tokens that count is overwritten before it is read.
func (b *textBatch) step(ctx context.Context, each func(int, Token) error) error {
	in, r := &b.task.Inputs, &b.run
	tokens := 1
	room := b.task.Chunk
	for _, q := range b.slots {
		if q.out != nil {
			tokens, room = max(tokens, len(q.rest)), min(room, b.task.Context-len(q.seen))
		}
	}
	tokens = min(tokens, room)
	window := 1
	if r.penalty[0] != 1 {
		window = b.task.Window
	}
	for i := range b.slots {
		q := &b.slots[i]
		n := min(len(q.rest), tokens)
		ids, recent := r.ids[i*tokens:(i+1)*tokens], r.recent[i*window:(i+1)*window]
		clear(ids)
		clear(recent)
		for k, id := range q.rest[:n] {
			ids[k] = int64(id)
		}
		at := len(q.seen)
		if q.out == nil { // an idle sequence writes to rows that the next prompt begins with
			at = 0
		} else {
			fillRecent(recent, ids[:n], q.seen)
		}
		r.position[i], b.count[i] = int32(at), int32(max(1, n))
		next := uint64(at + n)
		r.step[2*i], r.step[2*i+1] = uint32(next), uint32(next>>32)
	}
	n := len(b.slots)
	r.request.Inputs[in.IDs] = Tensor{I64, []int{n, tokens}, tensor.Bytes(r.ids[:n*tokens])}
	r.request.Inputs[in.Recent] = Tensor{I64, []int{n, window}, tensor.Bytes(r.recent[:n*window])}
	res, err := r.do(ctx, r.request)
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

// chosen takes the token of a sequence that a run of n of its tokens has chosen.
func (b *textBatch) chosen(i, n int, res *Result, each func(int, Token) error) error {
	q, out := &b.slots[i], &b.task.Outputs
	if q.out == nil {
		return nil
	}
	q.seen, q.rest = append(q.seen, q.rest[:n]...), q.rest[n:]
	if len(q.rest) > 0 {
		return nil
	}
	x := Token{ID: int(tensor.View[int32](res.Outputs[out.Token].Data)[i]), LogProb: tensor.View[float32](res.Outputs[out.LogProb].Data)[i]}
	if err := b.s.checkToken(b.task, x, len(q.seen)-1); err != nil {
		return err
	}
	t, v := b.texts[q.prompt], b.task.Vocabulary
	if b.options.Logits {
		t.Logits = append(t.Logits, tensor.View[float32](res.Outputs[out.Logits].Data)[i*v:(i+1)*v]...)
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
			b.full = b.task.Full(len(t.Tokens), b.options.Tokens)
		}
		t.Duration, q.out = time.Since(t.Start), nil
	}
	q.rest = slices.Clone([]int{x.ID})
	return err
}
