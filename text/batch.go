package text

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// GenerateBatch continues several prompts together, up to Facts.Sequences in each run. When a text ends, the next
// prompt takes its place. Each text equals the one that Generator.Generate would return for its prompt alone, with the
// same options and seed, up to rounding. each, if not nil, is used in place of Options.Each: it is called with the
// number of the prompt and every token as it is chosen. Its error ends all texts.
//
// The results are in the order of prompts. Errors match rlx.ErrUsage (the model was compiled for one sequence),
// ErrPrompt, ErrSampling, ErrContext (a prompt and Tokens exceed the context), or are those of Generator.Generate and
// rlx.Session.NewState. A text whose context is full does not end the others; its error is returned at the end. If some
// tokens were generated, the results are returned with the error.
func GenerateBatch(ctx context.Context, s *rlx.Session, prompts [][]int, o Options,
	each func(prompt int, t Token) error) ([]*Result, error) {
	t, err := specOf(s.Model())
	if err != nil {
		return nil, err
	}
	if err := t.checkSequences(s.Model()); err != nil {
		return nil, err
	}
	if len(o.Images) > 0 {
		return nil, diag.New(diag.Usage, "Options.Images", "is set; give texts with images to Batch.Add")
	}
	if o.Each != nil {
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
	b, err := NewBatch(ctx, s)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	b.together = true
	b.SetRunner(o.Runner)
	texts, next, start := make([]*BatchText, len(prompts)), 0, time.Now()
	for err = error(nil); err == nil && (next < len(prompts) || b.Len() > 0); {
		for ; err == nil && next < len(prompts) && b.Free() > 0; next++ {
			o, i := o, next
			if each != nil {
				o.Each = func(t Token) error { return each(i, t) }
			}
			texts[i], err = b.Add(ctx, prompts[i], o)
		}
		if err == nil {
			err = b.Step(ctx)
		}
		for _, x := range texts[:next] {
			if x != nil && x.Err() != nil && x.result.Stop != StopContext {
				err = cmp.Or(err, x.Err())
			}
		}
	}
	out := make([]*Result, len(prompts))
	var full error
	for i, x := range texts {
		if x == nil {
			out[i] = &Result{Stop: StopCancelled, Start: start, Prompt: len(prompts[i])}
		} else {
			if !x.Done() {
				b.Remove(x)
			}
			out[i], full = x.result, cmp.Or(full, x.Err())
		}
		out[i].Start, out[i].Duration = start, cmp.Or(out[i].Duration, time.Since(start))
	}
	return out, cmp.Or(err, full)
}

// checkSequences checks that the model was compiled for several sequences.
func (t *spec) checkSequences(m *rlx.Model) error {
	switch {
	case t.Batch.Method == "":
		return diag.New(diag.Usage, m.Path(), "was compiled for one sequence at a time").WithHint(
			"compile it with rlxc --batch N")
	case t.Batch.Sequence == "":
		return diag.New(diag.Usage, m.Path(),
			"was compiled by an rlxc whose batches have one set of parameters for all").WithHint("compile it again with rlxc --batch N")
	}
	return nil
}

// A Batch continues several texts together, each with its own options. All texts share the runs of the model, so that
// its weights are read once for all of them. Texts join by Add and leave when they end, or by Remove; a Batch keeps the
// tokens of texts that have left for a while, and a prompt that begins like another text computes only the rest.
//
// A Batch is not safe for concurrent use.
type Batch struct {
	// Budget is the approximate maximum number of tokens of prompts that a step computes, in multiples of 64, so that
	// long prompts do not keep the other texts waiting.
	Budget int
	// Alike makes texts independent of the others that are in progress: with the same options and seed, a prompt gives
	// the same text bit for bit. On cpu, products of few rows add in another order than those of many. So runs with few
	// texts compute extra rows, and a text that is alone may take several times as long. Set it before the first text
	// joins.
	Alike bool

	session   *rlx.Session
	spec      *spec
	state     *rlx.State
	tokenizer *Tokenizer
	runner    rlx.Runner  // in place of the session, if not nil
	runs      []*batchRun // that are not in use
	flights   []*flight   // runs in progress, the first one first
	spent     int         // tokens of prompts since the last run that added tokens, with several devices
	together  bool        // an error of Options.Each ends all texts
	slots     []batchSlot
	prompts   []*BatchText // whose prompts are not computed yet, in the order of their turns
	texts     []*BatchText // that get a token in each step
	clock     int          // of uses
}

// A batchSlot is a sequence of the state.
type batchSlot struct {
	seen  []int      // tokens in it
	shown []shown    // images among them
	pure  int        // of these, the first that prompts have brought
	used  int        // when it was last taken
	text  *BatchText // nil if no text has it
}

// A BatchText is a text of a Batch.
type BatchText struct {
	slot    int
	rest    []int   // tokens that are not in the state yet
	images  []place // of the prompt
	options Options
	out     *textStream
	result  *Result
	err     error
	done    bool
	flying  bool // a run is in progress that adds a token
}

// Done reports whether the text has ended.
func (x *BatchText) Done() bool { return x.done }

// Err returns the error that ended the text, such as one that matches ErrContext or rlx.ErrNaN, or that of
// Options.Each.
func (x *BatchText) Err() error { return x.err }

// Result returns the text so far.
func (x *BatchText) Result() *Result { return x.result }

const (
	promptBudget = 128 // the default of Batch.Budget
	// fewRows bounds the rows of products, and the queries of attention, for which backends may add in another order
	// than for more. A piece of a prompt has more of them, unless the prompt has not.
	fewRows = 16
	// wholeRows is a number of queries after which another piece may begin without a change of bits: backends compute
	// attention for so many together, or for a divisor of it.
	wholeRows = 64
)

// NewBatch loads the methods for several sequences and makes a state for Facts.Sequences of them. Close the batch after
// use; closing the session frees its memory, too.
//
// Errors match rlx.ErrUsage (the model does not declare the task "text", or was compiled for one sequence),
// rlx.ErrArtifact (its tokenizer is damaged), or are those of rlx.Session.Load and rlx.Session.NewState.
func NewBatch(ctx context.Context, s *rlx.Session) (*Batch, error) {
	t, err := specOf(s.Model())
	if err == nil {
		err = t.checkSequences(s.Model())
	}
	if err != nil {
		return nil, err
	}
	b := &Batch{Budget: min(promptBudget, t.Chunk), session: s, spec: t}
	if b.tokenizer, err = tokenizerOf(s.Model(), t); err != nil {
		return nil, err
	}
	if err := s.Load(ctx, t.Batch.Method, t.Batch.Move); err != nil {
		return nil, err
	}
	if b.state, err = s.NewState(ctx); err != nil {
		return nil, err
	}
	n := t.Batch.Sequences
	b.slots = make([]batchSlot, n)
	return b, nil
}

// Close frees the state.
func (b *Batch) Close() error {
	b.drain()
	return b.state.Close()
}

// Len returns the number of texts.
func (b *Batch) Len() int { return len(b.prompts) + len(b.texts) }

// Free returns the number of texts that may join.
func (b *Batch) Free() int { return len(b.slots) - b.Len() }

// SetRunner lets r run methods in place of the session, for example to set Request.CheckNaN in each request. If the
// session has several devices, r must be safe for concurrent use.
func (b *Batch) SetRunner(r rlx.Runner) { b.runner = r }

func (b *Batch) do() rlx.Runner {
	if b.runner != nil {
		return b.runner
	}
	return b.session
}

// Add begins a text; Free must not be 0. Options.Each is called by Step; its error ends this text alone.
// Options.Runner does not apply. Errors match ErrPrompt, ErrSampling or ErrContext, or are those of rlx.Session.Run.
func (b *Batch) Add(ctx context.Context, prompt []int, o Options) (*BatchText, error) {
	if err := b.spec.check(o); err != nil {
		return nil, err
	}
	if err := b.spec.checkPrompt(prompt, 0); err != nil {
		return nil, err
	}
	if len(prompt) > b.spec.Context {
		return nil, b.spec.tooLong(len(prompt))
	}
	images, err := b.spec.places(prompt, o.Images)
	if err != nil {
		return nil, err
	}
	if b.Free() == 0 {
		return nil, diag.New(diag.Usage, "Batch", "has %d texts, as many as may be in progress", len(b.slots))
	}
	x := &BatchText{rest: slices.Clone(prompt), images: images, options: o, out: newTextStream(b.tokenizer, o.Stop),
		result: &Result{Stop: StopCancelled, Start: time.Now(), Prompt: len(prompt)}}
	// The prompt takes the slot whose tokens have been unused for the longest time, unless it continues a text.
	if err := x.options.begin(b.spec, b.tokenizer); err != nil {
		return nil, err
	}
	x.slot = -1
	from, shared := b.longest(prompt, images, -1)
	if from >= 0 && b.slots[from].text == nil && len(b.slots[from].seen) < shared+b.spec.Batch.Rows/4 {
		x.slot = from
	}
	for i := range b.slots {
		if s := &b.slots[i]; from != x.slot || x.slot < 0 {
			if s.text == nil && (x.slot < 0 || s.used < b.slots[x.slot].used) {
				x.slot = i
			}
		}
	}
	b.clock++
	s := &b.slots[x.slot]
	kept := 0
	if from == x.slot {
		kept = shared
	}
	s.text, s.used = x, b.clock
	s.trim(kept)
	x.reuse(kept)
	b.prompts = append(b.prompts, x)
	return x, nil
}

// reuse takes n tokens of the rest as computed.
func (x *BatchText) reuse(n int) {
	x.rest = x.rest[n:]
	x.result.Cached += n
}

// longest returns the slot, other than except, whose tokens have the longest beginning in common with a prompt. n is
// the length of that beginning, at most all tokens but one, because the next token is chosen from the last.
func (b *Batch) longest(prompt []int, images []place, except int) (slot, n int) {
	slot = -1
	for i, s := range b.slots {
		k, most := 0, min(len(s.seen), len(prompt)-1)
		if b.Alike && len(images) > 0 {
			most = 0 // runs end at images, so others would have other numbers of rows
		}
		if b.Alike {
			most = min(most, s.pure)
		}
		for k < most && s.seen[k] == prompt[k] {
			k++
		}
		k = s.sharedImages(k, images)
		if b.Alike {
			k = b.asPieces(k, len(prompt))
		}
		if i != except && k > n {
			slot, n = i, k
		}
	}
	return slot, n
}

// asPieces reduces a beginning of k tokens of a prompt so that the rest is computed like a part of the whole.
func (b *Batch) asPieces(k, prompt int) int {
	k = k / wholeRows * wholeRows
	// the last piece must have few rows only if it would have few without the beginning
	if last := (prompt-1)%b.spec.Chunk + 1; last > fewRows && prompt-k <= fewRows {
		k -= wholeRows
	}
	return max(0, k)
}

// share copies the beginning of a prompt that another sequence has computed.
func (b *Batch) share(ctx context.Context, x *BatchText) error {
	s, t := &b.slots[x.slot], &b.spec.Batch
	all := slices.Concat(s.seen, x.rest)
	from, n := b.longest(all, x.images, x.slot)
	if n < len(s.seen)+min(t.Rows, 16) { // a few tokens are quickly computed
		return nil
	}
	index := func(i int) rlx.Tensor {
		return rlx.Tensor{DType: rlx.I32, Shape: []int{}, Data: tensor.Bytes([]int32{int32(i)})}
	}
	for row := len(s.seen); row < n; row += t.Rows {
		_, err := b.do().Run(
			ctx, rlx.Request{Method: t.Move, State: b.state,
				Inputs: map[string]rlx.Tensor{t.From: index(from), t.To: index(x.slot),
					t.Row: index(min(row, b.spec.Context-t.Rows))}, Outputs: []string{}})
		if err != nil {
			return err
		}
	}
	if s.pure == len(s.seen) {
		s.pure = min(n, b.slots[from].pure)
	}
	x.reuse(n - len(s.seen))
	for _, p := range x.images {
		if p.at >= len(s.seen) && p.at < n {
			s.shown = append(s.shown, p.image.shownAt(p.at))
		}
	}
	s.seen = append(s.seen, all[len(s.seen):n]...)
	return nil
}

// Remove ends a text early. Its result stays.
func (b *Batch) Remove(x *BatchText) {
	if !x.done {
		x.result.ended(x.out)
		b.leave(x)
	}
}

func (b *Batch) leave(x *BatchText) {
	same := func(y *BatchText) bool { return x == y }
	b.prompts, b.texts = slices.DeleteFunc(b.prompts, same), slices.DeleteFunc(b.texts, same)
	b.slots[x.slot].text = nil
	x.result.Duration, x.done = time.Since(x.result.Start), true
	x.result.Unfinished = x.options.guide.unfinished()
}

// Step computes up to Budget tokens of prompts, in turns, and then adds a token to each text whose prompt is computed.
// If the session has several devices (rlx.Options.Devices) and Alike is not set, the texts are divided into as many
// groups, whose runs are in progress at the same time, and Step returns when the first of these has ended.
//
// An error ends all texts. It is one of rlx.Session.Run, or the cause of ctx if a run was cancelled or would have begun
// after ctx was done.
func (b *Batch) Step(ctx context.Context) error {
	step := b.step
	if b.lanes() > 1 {
		step = b.fly
	}
	err := step(ctx)
	if err != nil { // nobody knows which tokens are in the state
		b.drain()
		for i := range b.slots {
			b.slots[i].seen, b.slots[i].pure = nil, 0
		}
	}
	return err
}

// step is Step for one device.
func (b *Batch) step(ctx context.Context) error {
	run, end := graceful(ctx)
	defer end()
	for budget := b.Budget; len(b.prompts) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x := b.prompts[0]
		if err := b.share(run, x); err != nil {
			return err
		}
		n := b.piece(x)
		image, ok := b.nextImage(x)
		if ok {
			n = image.Tokens()
		}
		if n > budget && budget < b.Budget {
			break
		}
		budget -= n
		b.prompts = append(b.prompts[1:], x)
		if ok {
			if err := b.look(run, x, image); err != nil {
				return err
			}
			continue
		}
		if err := b.advance(run, []*BatchText{x}, n); err != nil {
			return err
		}
	}
	switch {
	case len(b.texts) == 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return b.advance(run, slices.Clone(b.texts), 1)
}

// piece returns the number of tokens of a prompt to compute next. Like a Generator, it ends a piece at each multiple of
// the chunk, and no piece has few rows that would not have them there. So both give the same bits. A piece ends before
// an image; it is 0 if an image is next.
func (b *Batch) piece(x *BatchText) int {
	seen := len(b.slots[x.slot].seen)
	left := min(len(x.rest), b.spec.Chunk-seen%b.spec.Chunk)
	if p, ok := x.image(seen); ok {
		left = min(left, p.at-seen)
	}
	if most := max(1, b.Budget/wholeRows) * wholeRows; left > most+fewRows {
		return most
	}
	return left
}

// padded adds texts of nothing, so that a run has enough rows for Alike. They write to rows that are not in use.
func (b *Batch) padded(texts []*BatchText) []*BatchText {
	for i := range b.slots {
		if len(texts) > min(fewRows/2, len(b.slots)-1) {
			break
		}
		s := &b.slots[i]
		if slices.ContainsFunc(texts, func(x *BatchText) bool { return x.slot == i }) {
			continue
		}
		if len(s.seen) == b.spec.Context {
			s.trim(len(s.seen) - 1)
		}
		texts = append(texts, &BatchText{slot: i, rest: []int{0}, options: Options{Sampling: &Sampling{}}})
	}
	return texts
}

// advance makes a run with n tokens of each of some texts.
func (b *Batch) advance(ctx context.Context, texts []*BatchText, n int) error {
	f := b.prepare(texts, n)
	f.res, f.err = b.do().Run(ctx, f.run.request)
	return b.land(f)
}

// fill sets the inputs of a run, and the names of the outputs with its tokens. It reports whether logits are wanted.
func (b *Batch) fill(r *batchRun, texts []*BatchText, n int) (logits bool) {
	in, greedy, window := &b.spec.Inputs, true, 1
	for i, x := range texts {
		sampling := b.spec.sampling(x.options)
		r.draw(i, sampling, x.options.Seed)
		logits = logits || x.options.Logits || x.options.onHost()
		greedy = greedy && sampling.Greedy()
		if r.penalty[i] != 1 {
			window = b.spec.Window
		}
	}
	r.choose(b.spec, greedy)
	for i, x := range texts {
		seen, ids := b.slots[x.slot].seen, r.ids[i*n:(i+1)*n]
		for k, id := range x.rest[:n] {
			ids[k] = int64(id)
		}
		fillRecent(r.recent[i*window:(i+1)*window], ids, seen)
		r.position[i], r.count[i], r.sequence[i] = int32(len(seen)), int32(n), int32(x.slot)
		next := uint64(len(seen) + n)
		r.step[2*i], r.step[2*i+1] = uint32(next), uint32(next>>32)
	}
	k := len(texts)
	if b.spec.takesImages() {
		firsts := make([]int, k)
		for i, x := range texts {
			s := &b.slots[x.slot]
			firsts[i] = next(len(s.seen), s.shown)
		}
		r.setRotary(b.spec, firsts, n, 3, k, n)
	}
	set := func(name string, d rlx.DType, data []byte, shape ...int) {
		r.request.Inputs[name] = rlx.Tensor{DType: d, Shape: shape, Data: data}
	}
	set(in.IDs, rlx.I64, tensor.Bytes(r.ids[:k*n]), k, n)
	set(in.Recent, rlx.I64, tensor.Bytes(r.recent[:k*window]), k, window)
	set(in.Position, rlx.I32, tensor.Bytes(r.position[:k]), k)
	set(in.Temperature, rlx.F32, tensor.Bytes(r.temperature[:k]), k)
	set(in.TopK, rlx.I32, tensor.Bytes(r.topK[:k]), k)
	set(in.TopP, rlx.F32, tensor.Bytes(r.topP[:k]), k)
	set(in.MinP, rlx.F32, tensor.Bytes(r.minP[:k]), k)
	set(in.RepeatPenalty, rlx.F32, tensor.Bytes(r.penalty[:k]), k)
	set(in.Seed, rlx.U32, tensor.Bytes(r.seed[:2*k]), k, 2)
	set(in.Step, rlx.U32, tensor.Bytes(r.step[:2*k]), k, 2)
	set(b.spec.Batch.Count, rlx.I32, tensor.Bytes(r.count[:k]), k)
	set(b.spec.Batch.Sequence, rlx.I32, tensor.Bytes(r.sequence[:k]), k)
	return logits
}

// fail ends a text, and all others if they end together.
func (b *Batch) fail(x *BatchText, err error) error {
	x.err = err
	if b.together {
		return err
	}
	b.Remove(x)
	return nil
}

// chosen takes the token that a run chose for a text, which had row i in it.
func (b *Batch) chosen(x *BatchText, i int, f *flight) error {
	s, t, res := &b.slots[x.slot], x.result, f.res
	token := Token{ID: int(tensor.View[int32](res.Outputs[f.run.token].Data)[i]),
		LogProb: tensor.View[float32](res.Outputs[f.run.logprob].Data)[i]}
	if err := checkToken(b.session, b.spec, token, len(s.seen)-1); err != nil {
		if !errors.Is(err, rlx.ErrNaN) {
			x.err = err
			return err
		}
		return b.fail(x, err)
	}
	if o, v := &x.options, b.spec.Vocabulary; o.Logits || o.onHost() {
		logits := tensor.View[float32](res.Outputs[b.spec.Outputs.Logits].Data)[i*v : (i+1)*v]
		if o.Logits {
			t.Logits = append(t.Logits, logits...)
		}
		if o.onHost() {
			var err error
			if token, err = b.spec.choose(token, o, logits, s.seen, t.Tokens); err != nil {
				return b.fail(x, err)
			}
		}
	}
	if k := slices.Index(b.prompts, x); k >= 0 {
		b.prompts, b.texts = slices.Delete(b.prompts, k, k+1), append(b.texts, x)
	}
	over, err := t.take(b.spec, token, len(s.seen) == b.spec.Context, x.out, &x.options)
	x.rest = []int{token.ID}
	switch {
	case err != nil:
		t.Stop, x.err = StopCancelled, err
		b.Remove(x)
		if b.together {
			return err
		}
	case over:
		if t.Stop == StopContext && x.options.Tokens > 0 {
			x.err = b.spec.full(len(t.Tokens), x.options.Tokens)
		}
		b.leave(x)
	}
	return nil
}
