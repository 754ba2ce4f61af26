package text

import (
	"context"
	"errors"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
)

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
			b.slots[i].seen, b.slots[i].pure, b.slots[i].pages = nil, 0, nil
		}
		if b.pages != nil {
			b.pages.reset()
		}
	}
	return err
}

// step is Step for one device.
func (b *Batch) step(ctx context.Context) error {
	run, end := graceful(ctx)
	defer end()
	b.admit()
	for budget, stalled := b.Budget, 0; stalled < len(b.prompts); {
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
		if ok {
			budget -= n
			b.prompts = append(b.prompts[1:], x)
			if err := b.look(run, x, image); err != nil {
				return err
			}
			continue
		}
		group, err := b.group(run, x, n, budget)
		if err != nil {
			return err
		}
		group = b.withRoom(group, n)
		if len(group) == 0 {
			stalled++
			if k := slices.Index(b.prompts, x); k >= 0 {
				b.prompts = append(slices.Delete(b.prompts, k, k+1), x)
			}
			continue
		}
		budget, stalled = budget-n*len(group), 0
		b.prompts = append(slices.DeleteFunc(b.prompts, func(x *BatchText) bool { return slices.Contains(group, x) }),
			group...)
		if err := b.advance(run, group, n); err != nil {
			return err
		}
	}
	texts := b.withRoom(slices.Clone(b.texts), 1)
	switch {
	case len(texts) == 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return b.advance(run, texts, 1)
}

// piece returns the number of tokens of a prompt to compute next. Like a Generator, it ends a piece at each multiple of
// the chunk, and no piece has few rows that would not have them there. So both give the same bits. A piece ends before
// an image; it is 0 if an image is next.
func (b *Batch) piece(x *BatchText) int {
	seen := len(b.slots[x.slot].seen)
	left := min(len(x.rest), b.spec.Chunk-seen%b.spec.Chunk)
	if b.Alike && x.again { // tokens that were chosen before are computed one by one again
		if seen >= x.result.Prompt {
			return 1
		}
		left = min(left, x.result.Prompt-seen)
	}
	if p, ok := x.image(seen); ok {
		left = min(left, p.at-seen)
	}
	most := max(1, b.Budget/wholeRows) * wholeRows
	if b.Alike && !b.alikeRows(most, left) {
		return left
	}
	if left > most+b.fewRows(most) {
		return most
	}
	return left
}

// group returns the prompts whose next n tokens are computed in one run: x, and others that have at least n tokens, up
// to budget tokens in all. Of prompts that begin alike, only one is in the group, because the others can copy the
// beginning. With Alike, x is alone, because pieces of other lengths give other bits.
func (b *Batch) group(ctx context.Context, x *BatchText, n, budget int) ([]*BatchText, error) {
	group := []*BatchText{x}
	if b.Alike {
		return group, nil
	}
	for _, y := range b.prompts[1:] {
		if n*(len(group)+1) > budget {
			break
		}
		if err := b.share(ctx, y); err != nil {
			return nil, err
		}
		_, image := b.nextImage(y)
		same := func(z *BatchText) bool { return b.alike(y, z) >= len(b.slots[y.slot].seen)+b.leastShared() }
		if !image && b.piece(y) >= n && !slices.ContainsFunc(group, same) {
			group = append(group, y)
		}
	}
	return group, nil
}

// alike returns the number of tokens with which both texts begin.
func (b *Batch) alike(x, y *BatchText) (n int) {
	at := func(x *BatchText, i int) int {
		if seen := b.slots[x.slot].seen; i < len(seen) {
			return seen[i]
		} else {
			return x.rest[i-len(seen)]
		}
	}
	most := min(len(b.slots[x.slot].seen)+len(x.rest), len(b.slots[y.slot].seen)+len(y.rest))
	for n < most && at(x, n) == at(y, n) {
		n++
	}
	return n
}

// rows returns the number of rows of a run that adds a token to each of n texts.
func (b *Batch) rows(n int) int {
	return rowsOf(n, len(b.slots), b.bounds, b.device, b.Alike, b.lanes() == 1)
}

// rowsOf is rows for a number of slots. bounds are those of the backend, device tells whether runs are on a device
// other than a processor, and pads whether there may be more rows than texts without Alike.
func rowsOf(n, slots int, bounds *rlx.RowBounds, device, alike, pads bool) int {
	switch {
	case alike && bounds == nil:
		return slots // always
	case alike:
		least := 1
		for _, bound := range bounds.Products {
			if bound < slots {
				least = max(least, bound+1)
			}
		}
		return min(max(n, least), slots)
	case n > deviceRows && device && pads:
		return min((n+deviceRows-1)/deviceRows*deviceRows, slots)
	}
	return n
}

// padded adds texts of nothing, so that a run has n rows. They write to rows that are not in use.
func (b *Batch) padded(texts []*BatchText, n int) []*BatchText {
	for i := range b.slots {
		if len(texts) >= n {
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
	if b.pages == nil {
		set(b.spec.Batch.Sequence, rlx.I32, tensor.Bytes(r.sequence[:k]), k)
		return logits
	}
	each := b.spec.perSequence()
	for i, x := range texts {
		row := r.pages[i*each : (i+1)*each]
		clear(row[copy(row, b.slots[x.slot].pages):])
	}
	set(b.spec.Batch.Pages, rlx.I32, tensor.Bytes(r.pages[:k*each]), k, each)
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
