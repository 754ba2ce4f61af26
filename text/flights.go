package text

import (
	"context"
	"slices"

	"github.com/rlx-go/rlx"
)

// A batchRun has the inputs of a run of a Batch.
type batchRun struct {
	textRun
	count, sequence []int32
	pages           []int32 // in rows, those of each sequence
}

// A flight is a run of a Batch. All devices do the runs of a session in the order in which they were queued. So what
// the state holds after a run is known when the run is queued, and only its tokens are not.
type flight struct {
	texts  []*BatchText
	chosen bool // it chooses a token for each text whose prompt it ends
	run    *batchRun
	landed chan struct{} // closed when res and err are set; nil for a run that nobody waits for
	res    *rlx.Result
	err    error
}

// lanes returns how many runs are in progress at a time.
func (b *Batch) lanes() int {
	if b.Alike { // it fills runs up with rows of other texts, in which nothing may be in progress
		return 1
	}
	return len(b.session.Devices())
}

// prepare returns a run with n tokens of each of some texts, and adds these tokens to what the slots hold.
func (b *Batch) prepare(texts []*BatchText, n int) *flight {
	f := &flight{texts: texts}
	for _, x := range texts {
		f.chosen = f.chosen || n == len(x.rest)
	}
	if k := len(b.runs); k > 0 {
		f.run, b.runs = b.runs[k-1], b.runs[:k-1]
	} else {
		f.run = b.newRun()
	}
	rows := texts
	adds := n == 1 && texts[0].result.Tokens != nil && len(b.slots[texts[0].slot].seen) >= texts[0].result.Prompt
	if want := b.rows(len(texts)); want > len(texts) && adds {
		rows = b.padded(slices.Clone(texts), want)
	}
	logits := b.fill(f.run, rows, n)
	r := f.run
	r.request.Outputs = []string{}
	if f.chosen { // the last tokens of a prompt, or the only one of each text
		r.request.Outputs = []string{r.token, r.logprob}
		if logits {
			r.request.Outputs = append(r.request.Outputs, b.spec.Outputs.Logits)
		}
	}
	for _, x := range texts {
		s := &b.slots[x.slot]
		before := len(s.seen)
		s.seen = append(s.seen, x.rest[:n]...)
		if s.pure == before && (len(x.result.Tokens) == 0 || len(s.seen) <= x.result.Prompt) {
			s.pure = len(s.seen)
		}
		if b.pages != nil {
			b.keep(s, before/b.pages.rows, len(s.seen)/b.pages.rows*b.pages.rows)
		}
		x.rest = x.rest[n:]
		x.flying = len(x.rest) == 0
	}
	return f
}

func (b *Batch) newRun() *batchRun {
	t, n := b.spec, len(b.slots)
	r := &batchRun{count: make([]int32, n), sequence: make([]int32, n)}
	r.prepare(t, n)
	if b.pages != nil {
		r.pages = make([]int32, n*t.perSequence())
	}
	r.request.Method, r.request.State = t.Batch.Method, b.state
	delete(r.request.Inputs, t.Slide.Dropped)
	return r
}

// land takes the tokens of a run that has ended.
func (b *Batch) land(f *flight) error {
	b.runs = append(b.runs, f.run)
	if f.err != nil {
		return f.err
	}
	if !f.chosen {
		return nil
	}
	for i, x := range f.texts {
		x.flying = false
		if x.done || len(x.rest) > 0 { // it was removed in the meantime, or its prompt goes on
			continue
		}
		if err := b.chosen(x, i, f); err != nil {
			return err
		}
	}
	return nil
}

// fly is Step for several devices: it begins runs until there is one for each device, and takes the tokens of the first
// that ends.
func (b *Batch) fly(ctx context.Context) error {
	for len(b.flights) < b.lanes() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		texts, n, err := b.next(ctx)
		if err != nil {
			return err
		}
		if texts == nil {
			break
		}
		b.launch(ctx, b.prepare(texts, n))
	}
	if len(b.flights) == 0 {
		return nil
	}
	f := b.flights[0]
	<-f.landed
	b.flights = b.flights[1:]
	return b.land(f)
}

// next returns the texts of the next run, and how many tokens it computes of each: a piece of a prompt, or one token of
// as many texts as a device gets if all have equally many. After Budget tokens of prompts it is the turn of the texts.
func (b *Batch) next(ctx context.Context) (texts []*BatchText, n int, err error) {
	b.admit()
	most := (len(b.texts) + b.lanes() - 1) / b.lanes()
	for _, x := range b.texts {
		if !x.flying && len(texts) < most {
			texts = append(texts, x)
		}
	}
	texts = b.withRoom(texts, 1)
	if len(texts) == 0 {
		texts = nil
	}
	for range len(b.prompts) {
		if len(b.prompts) == 0 { // an image has ended the last text
			break
		}
		x := b.prompts[0]
		b.prompts = append(b.prompts[1:], x)
		if x.flying || b.spent >= b.Budget && texts != nil {
			continue
		}
		run, end := graceful(ctx)
		err := b.share(run, x)
		if err == nil {
			err = b.lookAll(run, x)
		}
		end()
		if err != nil {
			return nil, 0, err
		}
		if x.done {
			continue
		}
		n := b.piece(x)
		if len(b.withRoom([]*BatchText{x}, n)) == 0 {
			continue
		}
		b.spent += n
		return []*BatchText{x}, n, nil
	}
	texts = slices.DeleteFunc(texts, func(x *BatchText) bool { return slices.Contains(b.waiting, x) })
	if len(texts) == 0 {
		return nil, 1, nil
	}
	b.spent = 0
	return texts, 1, nil
}

// launch begins a run. It returns when the run has its place in the order of all runs.
func (b *Batch) launch(ctx context.Context, f *flight) {
	run, end := graceful(ctx)
	queued := make(chan struct{})
	f.landed = make(chan struct{})
	f.run.request.Queued = func() { close(queued) }
	do, q := b.do(), f.run.request
	go func() {
		defer end()
		defer close(f.landed)
		f.res, f.err = do.Run(run, q)
	}()
	select {
	case <-queued:
	case <-f.landed:
	}
	b.flights = append(b.flights, f)
}

// drain waits for all runs in progress and drops their tokens.
func (b *Batch) drain() {
	for _, f := range b.flights {
		<-f.landed
		for _, x := range f.texts {
			x.flying = false
		}
		b.runs = append(b.runs, f.run)
	}
	b.flights = nil
}
