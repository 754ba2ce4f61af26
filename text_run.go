package rlx

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/task/text"
	"github.com/rlx-go/rlx/core/task/text/tokenizer"
	"github.com/rlx-go/rlx/core/tensor"
)

// tokenizer reads the tokenizer of an artifact once; nil if it has none.
func (m *Model) tokenizer(t *text.Task) (*tokenizer.Tokenizer, error) {
	if t.Tokenizer == "" {
		return nil, nil
	}
	m.parsing.Lock()
	defer m.parsing.Unlock()
	if m.parsed == nil {
		b, err := m.attachment(t.Tokenizer)
		if err != nil {
			return nil, err
		}
		if m.parsed, err = tokenizer.Parse(b); err != nil {
			return nil, about(m.path, err)
		}
	}
	return m.parsed, nil
}

// attachment reads a file that travels in the artifact, once its digests are verified. The error matches ErrArtifact.
func (m *Model) attachment(name string) ([]byte, error) {
	t, ok := m.v.Weights().Find(name)
	if !ok {
		panic("BUG: no attachment " + name) // the verifier has checked those that the task names
	}
	if err := m.v.VerifyWeights(t.Offset, t.Size); err != nil {
		return nil, about(m.path, err)
	}
	return m.weight(t.Offset, t.Size)
}

// textRun is a run of the method, whose memory all runs of a generator share.
type textRun struct {
	request           Request
	ids, recent       []int64
	position, topK    []int32
	temperature, topP []float32
	minP, penalty     []float32
	seed, step        []uint32
	none, chosen      []string // outputs of a run that chooses no token, and of one that does
}

// prepare makes the request of g's runs.
func (r *textRun) prepare(g *Generator) {
	t := &g.Task
	in := &t.Inputs
	r.ids, r.recent = make([]int64, t.Chunk), make([]int64, t.Window)
	r.position, r.topK = make([]int32, 1), make([]int32, 1)
	r.temperature, r.topP, r.minP, r.penalty = make([]float32, 1), make([]float32, 1), make([]float32, 1), make([]float32, 1)
	r.seed, r.step = make([]uint32, 2), make([]uint32, 2)
	scalar := []int{}
	r.request = Request{Method: t.Method, Inputs: map[string]Tensor{
		in.Position: {I32, scalar, tensor.Bytes(r.position)}, in.TopK: {I32, scalar, tensor.Bytes(r.topK)},
		in.Temperature: {F32, scalar, tensor.Bytes(r.temperature)}, in.TopP: {F32, scalar, tensor.Bytes(r.topP)},
		in.MinP: {F32, scalar, tensor.Bytes(r.minP)}, in.RepeatPenalty: {F32, scalar, tensor.Bytes(r.penalty)},
		in.Seed: {U32, []int{2}, tensor.Bytes(r.seed)}, in.Step: {U32, []int{2}, tensor.Bytes(r.step)},
	}}
	r.set(t, TextOptions{})
}

// set takes the options of a call.
func (r *textRun) set(t *text.Task, o TextOptions) {
	s := o.Sampling
	off := func(v, otherwise float64) float32 {
		if v == 0 {
			return float32(otherwise)
		}
		return float32(v)
	}
	r.temperature[0], r.topK[0], r.minP[0] = float32(s.Temperature), int32(s.TopK), float32(s.MinP)
	r.topP[0], r.penalty[0] = off(s.TopP, 1), off(s.RepeatPenalty, 1)
	r.seed[0], r.seed[1] = uint32(o.Seed), uint32(o.Seed>>32)
	out := &t.Outputs
	r.chosen = []string{out.Token, out.LogProb}
	if o.Logits {
		r.chosen = append(r.chosen, out.Logits)
	}
	r.none = []string{}
}

// check compares ids with the vocabulary and the context, and returns all that are to be computed before a token can be chosen.
func (g *Generator) check(ids []int) ([]int, error) {
	all := slices.Concat(g.last, ids)
	for i, id := range ids {
		if id < 0 || id >= g.Task.Vocabulary {
			return nil, diag.New(text.CodePrompt, "prompt", "id %d is %d; the vocabulary has 0 to %d", i, id, g.Task.Vocabulary-1)
		}
	}
	if n := len(g.seen) + len(all); n > g.Task.Context {
		e := diag.New(text.CodeContext, "prompt", "has %d tokens", len(ids))
		if len(g.seen)+len(g.last) > 0 {
			e.Msg += " after " + strconv.Itoa(len(g.seen)+len(g.last))
		}
		e.Msg += "; the context of " + g.session.model.path + " has " + strconv.Itoa(g.Task.Context)
		return nil, e.WithHint("give a shorter prompt, or compile the model with a larger context (rlxc --context)")
	}
	return all, nil
}

// grace is how long a run may go on after its context is done before it is cancelled, which invalidates the state.
const grace = time.Second

// graceful returns a context for runs that is cancelled some time after ctx.
func graceful(ctx context.Context) (run context.Context, end func()) {
	run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(ctx))
		case <-run.Done():
		}
	})
	return run, func() {
		stop()
		cancel(nil)
	}
}

// feed adds ids to the state, between which ctx may end it.
func (g *Generator) feed(ctx, run context.Context, ids []int) error {
	for len(ids) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(len(ids), g.Task.Chunk)
		if _, err := g.step(run, ids[:n], g.run.none); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// step adds up to a chunk of ids to the state.
func (g *Generator) step(ctx context.Context, ids []int, outputs []string) (*Result, error) {
	r, in := &g.run, &g.Task.Inputs
	for i, id := range ids {
		r.ids[i] = int64(id)
	}
	at := len(g.seen)
	r.position[0] = int32(at)
	next := uint64(at + len(ids)) // the place of the token that is chosen
	r.step[0], r.step[1] = uint32(next), uint32(next>>32)
	recent := r.recent[:1]
	recent[0] = r.ids[len(ids)-1]
	if r.penalty[0] != 1 && len(outputs) > 0 {
		recent = g.recent(ids)
	}
	r.request.State, r.request.Outputs = g.state, outputs
	r.request.Inputs[in.IDs] = Tensor{I64, []int{1, len(ids)}, tensor.Bytes(r.ids[:len(ids)])}
	r.request.Inputs[in.Recent] = Tensor{I64, []int{len(recent)}, tensor.Bytes(recent)}
	res, err := g.session.Run(ctx, r.request)
	if err != nil {
		return nil, err
	}
	g.seen, g.last = append(g.seen, ids...), nil
	return res, nil
}

// recent is the last tokens of the sequence that ends with ids, a full window of them, so that all runs have one size: the last one
// fills it up.
func (g *Generator) recent(ids []int) []int64 {
	w := g.run.recent
	n := copy(w, g.run.ids[max(0, len(ids)-len(w)):len(ids)])
	for i := len(g.seen) - 1; i >= 0 && n < len(w); i-- {
		w[n] = int64(g.seen[i])
		n++
	}
	for ; n < len(w); n++ {
		w[n] = int64(ids[len(ids)-1])
	}
	return w
}

// generate is Generate; each is called with every token, and returns false to stop.
func (g *Generator) generate(ctx context.Context, ids []int, o TextOptions, each func(Token) bool) (*Text, error) {
	start := time.Now()
	if err := g.Task.CheckSampling(o.Sampling); err != nil {
		return nil, err
	}
	if o.Tokens < 0 {
		return nil, usage("TextOptions.Tokens", "is %d; allowed are 1 and more, and 0 for no limit", o.Tokens)
	}
	all, err := g.check(ids)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, diag.New(text.CodePrompt, "prompt", "has no tokens; want one or more")
	}
	run, end := graceful(ctx)
	defer end()
	g.run.set(&g.Task, o)
	t := &Text{Stop: StopCancelled, Prompt: len(all)}
	defer func() { t.Duration = time.Since(start) }()
	first := (len(all) - 1) / g.Task.Chunk * g.Task.Chunk
	if err := g.feed(ctx, run, all[:first]); err != nil {
		return nil, err
	}
	out := newTextStream(g.tokenizer, o.Stop)
	for feed := all[first:]; ; feed = g.last {
		if ctx.Err() != nil {
			return t.ended(out), context.Cause(ctx)
		}
		res, err := g.step(run, feed, g.run.chosen)
		if err != nil {
			return t.ended(out), err
		}
		x, err := g.chosen(res, t, o.Logits)
		if err != nil {
			return t.ended(out), err
		}
		x.Time = time.Since(start)
		if len(t.Tokens) == 0 {
			t.Prefill = x.Time
		}
		g.last = []int{x.ID}
		over := false
		switch {
		case !o.IgnoreEnd && slices.Contains(g.Task.End, x.ID):
			t.Stop, over = StopEnd, true
			x.Text = out.flush()
		default:
			x.Text, over = out.next(x.ID)
			if over {
				t.Stop = StopString
			}
		}
		full := len(g.seen) == g.Task.Context
		if !over && (full || len(t.Tokens)+1 == o.Tokens) {
			t.Stop = StopLength
			if len(t.Tokens)+1 != o.Tokens {
				t.Stop = StopContext
			}
			over = true
			x.Text += out.flush()
		}
		t.Tokens = append(t.Tokens, x)
		t.Text += x.Text
		if !each(x) && !over {
			t.Stop = StopCancelled
			return t.ended(out), nil
		}
		switch {
		case t.Stop == StopContext && o.Tokens > 0:
			return t, diag.New(text.CodeContext, g.session.model.path, "its context of %d tokens is full after %d of %d tokens", g.Task.Context, len(t.Tokens), o.Tokens).
				WithHint("give a shorter prompt, generate less, or compile the model with a larger context (rlxc --context)")
		case over:
			return t, nil
		}
	}
}

// ended is a text that ends before its time: what was held back belongs to it.
func (t *Text) ended(out *textStream) *Text {
	t.Text += out.flush()
	return t
}

// chosen reads the token of a run.
func (g *Generator) chosen(res *Result, t *Text, logits bool) (x Token, err error) {
	out := &g.Task.Outputs
	id := tensor.View[int32](res.Outputs[out.Token].Data)[0]
	x.ID, x.LogProb = int(id), tensor.View[float32](res.Outputs[out.LogProb].Data)[0]
	if x.LogProb != x.LogProb || math.IsInf(float64(x.LogProb), 1) {
		return x, diag.New(device.ErrNaN, g.Task.Method, "the logits after token %d hold a NaN or infinity", len(g.seen)-1)
	}
	if x.ID < 0 || x.ID >= g.Task.Vocabulary {
		return x, diag.New(device.ErrLost, "backend "+g.session.backend.Name(), "chose token %d; the vocabulary has 0 to %d", x.ID, g.Task.Vocabulary-1)
	}
	if logits {
		t.Logits = append(t.Logits, tensor.View[float32](res.Outputs[out.Logits].Data)...)
	}
	return x, nil
}

// parseIDs reads the tokens of a state file.
func (g *Generator) parseIDs(path, s string) ([]int, error) {
	var ids []int
	for f := range strings.FieldsSeq(s) {
		id, err := strconv.Atoi(f)
		if err != nil || id < 0 || id >= g.Task.Vocabulary {
			return nil, diag.New(device.ErrInput, path, "holds the token %.20q; the vocabulary has 0 to %d", f, g.Task.Vocabulary-1)
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 || len(ids) > g.Task.Context+1 {
		return nil, diag.New(device.ErrInput, path, "holds %d tokens of a text; want 1 to %d", len(ids), g.Task.Context+1).
			WithHint("a file that Generator.Save or rlxrun --prompt --save-state has written has them")
	}
	return ids, nil
}
