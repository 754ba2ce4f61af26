package text

import (
	"context"
	"slices"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
)

// checkSequences checks that the model was compiled for several sequences.
func (t *spec) checkSequences(m *rlx.Model) error {
	switch {
	case t.Batch.Method == "":
		return diag.New(diag.Usage, m.Path(), "was compiled for one sequence at a time").WithHint(
			"compile it with rlxc --batch N")
	case t.Batch.Sequence == "" && t.Batch.Pages == "":
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
	// long prompts do not keep the other texts waiting. The default depends on the device.
	Budget int
	// Alike makes texts independent of the others that are in progress: with the same options and seed, a prompt gives
	// the same text bit for bit. On cpu, products of few rows add in another order than those of many. So runs with few
	// texts compute extra rows, and a text that is alone may take several times as long. If a backend does not report
	// the numbers of rows at which its products change (rlx.BackendInfo.RowBounds), every run has as many rows as
	// there may be texts. Set it before the first text joins.
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
	prompts   []*BatchText   // whose prompts are not computed yet, in the order of their turns
	texts     []*BatchText   // that get a token in each step
	waiting   []*BatchText   // for pages, in the order in which they joined
	pages     *pages         // of the state; nil if each slot is a part of it
	clock     int            // of uses
	device    bool           // runs are on a device other than a processor
	bounds    *rlx.RowBounds // of the backend; nil if it does not say
}

// A batchSlot is a sequence of the state. Without a text, one in pages has no tokens: they are in the tree of pages.
type batchSlot struct {
	seen  []int      // tokens in it
	shown []shown    // images among them
	pure  int        // of these, the first that prompts have brought
	used  int        // when it was last taken
	text  *BatchText // nil if no text has it
	pages []int32    // of the text; it may have one more than its tokens take
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
	number  int  // of texts that joined before
	again   bool // it has given up its pages
}

// Done reports whether the text has ended.
func (x *BatchText) Done() bool { return x.done }

// Err returns the error that ended the text, such as one that matches ErrContext or rlx.ErrNaN, or that of
// Options.Each.
func (x *BatchText) Err() error { return x.err }

// Result returns the text so far.
func (x *BatchText) Result() *Result { return x.result }

const (
	promptBudget = 128 // the default of Batch.Budget on a processor
	// deviceBudget is the default on other devices, which take about as long for this many rows as for 128.
	deviceBudget = 512
	// deviceRows: a run that adds a token to more texts than this has a multiple of this many rows. So runs have few
	// different sizes, each of which a device must prepare. The padding costs these devices no time.
	deviceRows = 8
	// wholeRows is a number of queries after which a prompt can be divided without a change of bits: backends compute
	// attention for this many queries at a time, or for a divisor of it.
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
	b := &Batch{Budget: min(promptBudget, t.Chunk), session: s, spec: t, bounds: s.Backend().RowBounds}
	if kind := s.Device().Type; kind != "cpu" && kind != rlx.SoftwareDevice {
		b.device, b.Budget = true, deviceBudget
	}
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
	if t.Batch.Pages != "" {
		b.pages = newPages(t.Batch.PageCount, t.Batch.Rows)
	}
	return b, nil
}

// Close frees the state.
func (b *Batch) Close() error {
	b.drain()
	return b.state.Close()
}

// Len returns the number of texts.
func (b *Batch) Len() int { return len(b.prompts) + len(b.texts) + len(b.waiting) }

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
	b.clock++
	x.number = b.clock
	if b.pages != nil {
		x.slot = slices.IndexFunc(b.slots, func(s batchSlot) bool { return s.text == nil })
		b.slots[x.slot].text = x
		b.waiting = append(b.waiting, x)
		return x, nil
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
	if !x.again {
		x.result.Cached += n
	}
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

// alikeRows reports whether the backend adds in the same order for m and n tokens of a prompt.
func (b *Batch) alikeRows(m, n int) bool {
	if m == n {
		return true
	}
	if b.bounds == nil {
		return false
	}
	between := func(bound int) bool { return min(m, n) <= bound && bound < max(m, n) }
	return !slices.ContainsFunc(b.bounds.Products, between) && !slices.ContainsFunc(b.bounds.Queries, between)
}

// fewRows returns the largest number of rows, less than most, up to which the backend may add in another order than for
// more.
func (b *Batch) fewRows(most int) (few int) {
	if b.bounds == nil {
		return 0
	}
	for _, bound := range slices.Concat(b.bounds.Products, b.bounds.Queries) {
		if bound < most {
			few = max(few, bound)
		}
	}
	return few
}

// asPieces reduces a beginning of k tokens of a prompt so that the rest is computed like a part of the whole: its first
// piece must not have few rows if that would be a part of a larger one.
func (b *Batch) asPieces(k, prompt int) int {
	k = k / wholeRows * wholeRows
	for ; k > 0; k -= wholeRows {
		begin := k - k%b.spec.Chunk
		end := min(prompt, begin+b.spec.Chunk)
		if b.alikeRows(end-k, end-begin) {
			break
		}
	}
	return max(0, k)
}

// leastShared is the least number of tokens that are copied from another sequence. Fewer are quickly computed.
func (b *Batch) leastShared() int { return min(b.spec.Batch.Rows, 16) }

// share copies the beginning of a prompt that another sequence has computed.
func (b *Batch) share(ctx context.Context, x *BatchText) error {
	if b.pages != nil {
		return b.sharePages(ctx, x)
	}
	s, t := &b.slots[x.slot], &b.spec.Batch
	all := slices.Concat(s.seen, x.rest)
	from, n := b.longest(all, x.images, x.slot)
	if n < len(s.seen)+b.leastShared() {
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
	if b.pages != nil {
		b.waiting = slices.DeleteFunc(b.waiting, same)
		b.release(&b.slots[x.slot])
	}
	b.slots[x.slot].text = nil
	x.result.Duration, x.done = time.Since(x.result.Start), true
	x.result.Unfinished = x.options.guide.unfinished()
}
