package text

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// A textRun holds the request for runs of the method. All runs of a generator reuse it.
type textRun struct {
	request           rlx.Request
	ids, recent       []int64
	position, topK    []int32
	dropped, rotary   []int32
	temperature, topP []float32
	minP, penalty     []float32
	seed, step        []uint32
	do                rlx.Runner
	none, chosen      []string // outputs of a run that chooses no token, and of a run that does
	token, logprob    string   // the outputs with the token and its log probability
}

// prepare makes the request for runs of n sequences.
func (r *textRun) prepare(t *spec, n int) {
	in := &t.Inputs
	r.ids, r.recent = make([]int64, n*t.Chunk), make([]int64, n*t.Window)
	r.position, r.topK = make([]int32, n), make([]int32, n)
	r.temperature, r.topP, r.minP, r.penalty = make([]float32, n), make([]float32, n), make([]float32, n),
		make([]float32, n)
	r.seed, r.step = make([]uint32, 2*n), make([]uint32, 2*n)
	scalar := []int{}
	r.request = rlx.Request{Method: t.Method, Inputs: map[string]rlx.Tensor{
		in.Position:      {DType: rlx.I32, Shape: scalar, Data: tensor.Bytes(r.position)},
		in.TopK:          {DType: rlx.I32, Shape: scalar, Data: tensor.Bytes(r.topK)},
		in.Temperature:   {DType: rlx.F32, Shape: scalar, Data: tensor.Bytes(r.temperature)},
		in.TopP:          {DType: rlx.F32, Shape: scalar, Data: tensor.Bytes(r.topP)},
		in.MinP:          {DType: rlx.F32, Shape: scalar, Data: tensor.Bytes(r.minP)},
		in.RepeatPenalty: {DType: rlx.F32, Shape: scalar, Data: tensor.Bytes(r.penalty)},
		in.Seed:          {DType: rlx.U32, Shape: []int{2}, Data: tensor.Bytes(r.seed)},
		in.Step:          {DType: rlx.U32, Shape: []int{2}, Data: tensor.Bytes(r.step)},
	}}
	r.dropped = make([]int32, 1)
	if t.slides() {
		r.request.Inputs[t.Slide.Dropped] = rlx.Tensor{DType: rlx.I32, Shape: scalar, Data: tensor.Bytes(r.dropped)}
	}
}

// set sets the options of a call. hidden tells whether hidden states are wanted, too.
func (r *textRun) set(s *rlx.Session, t *spec, o Options, hidden bool) {
	x := t.sampling(o)
	r.draw(0, x, o.Seed)
	r.choose(t, x.Greedy())
	r.chosen = []string{r.token, r.logprob}
	if o.Logits || o.onHost() {
		r.chosen = append(r.chosen, t.Outputs.Logits)
	}
	r.none = []string{}
	if hidden {
		r.none, r.chosen = append(r.none, t.Draft.Hidden), append(r.chosen, t.Draft.Hidden)
	}
	r.do = o.Runner
	if r.do == nil {
		r.do = s
	}
}

// draw sets the parameters of sequence i.
func (r *textRun) draw(i int, x task.Sampling, seed uint64) {
	off := func(v, otherwise float64) float32 {
		if v == 0 {
			return float32(otherwise)
		}
		return float32(v)
	}
	r.temperature[i], r.topK[i], r.minP[i] = float32(x.Temperature), int32(x.TopK), float32(x.MinP)
	r.topP[i], r.penalty[i] = off(x.TopP, 1), off(x.RepeatPenalty, 1)
	r.seed[2*i], r.seed[2*i+1] = uint32(seed), uint32(seed>>32)
}

// choose sets the names of the outputs with the tokens. greedy tells that all sequences take the most probable one.
func (r *textRun) choose(t *spec, greedy bool) {
	var x task.Sampling
	if !greedy {
		x.Temperature = 1
	}
	r.token, r.logprob = (*task.Text)(t).Chosen(x)
}

// check checks ids and their images against the vocabulary and the context. It returns all ids that must be computed
// before a token can be chosen, and the places of the images among them.
func (g *Generator) check(ids []int, images []*Image) ([]int, []place, error) {
	if err := g.spec.checkPrompt(ids, len(g.seen)+len(g.last)); err != nil {
		return nil, nil, err
	}
	places, err := g.spec.places(ids, images)
	if err != nil {
		return nil, nil, err
	}
	for i := range places {
		places[i].at += len(g.last)
	}
	all := slices.Concat(g.last, ids)
	if len(all) == 0 { // there is no token to choose from
		return nil, nil, g.spec.checkPrompt(nil, 0)
	}
	return all, places, nil
}

// grace is the time that a run may continue after its context is done. Then it is cancelled, which invalidates the
// state.
const grace = time.Second

// graceful returns a context for runs that is cancelled a grace period after ctx.
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

// feed adds the first n of ids to the state, in several runs. It stops between two runs if ctx is done.
func (g *Generator) feed(ctx, run context.Context, ids []int, n int, images []place) error {
	for at := 0; at < n; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		end := min(n, at+g.spec.Chunk)
		if len(images) > 0 && images[0].at == at {
			if err := g.look(run, images[0].image); err != nil {
				return err
			}
			at, images = at+images[0].image.Tokens(), images[1:]
			continue
		}
		if len(images) > 0 {
			end = min(end, images[0].at)
		}
		res, err := g.step(run, ids[at:end], g.run.none)
		if err != nil {
			return err
		}
		if err := g.follow(run, res, ids[at+1:end+1]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// follow passes the hidden states of a run to the draft head, with the token that follows each of the run's tokens.
func (g *Generator) follow(ctx context.Context, res *rlx.Result, next []int) error {
	if g.draft.count == 0 {
		return nil
	}
	return g.propose(ctx, tensor.View[float32](res.Outputs[g.spec.Draft.Hidden].Data), next, len(g.seen)-len(next))
}

// step adds up to a chunk of ids to the state.
func (g *Generator) step(ctx context.Context, ids []int, outputs []string) (*rlx.Result, error) {
	r, in := &g.run, &g.spec.Inputs
	for i, id := range ids {
		r.ids[i] = int64(id)
	}
	at := len(g.seen)
	if at-g.dropped+len(ids) > g.spec.Context {
		if err := g.slide(ctx); err != nil {
			return nil, err
		}
	}
	r.position[0], r.dropped[0] = int32(at), int32(g.dropped)
	if g.spec.takesImages() {
		r.setRotary(g.spec, []int{next(at, g.shown)}, len(ids), 3, len(ids))
	}
	next := uint64(at + len(ids)) // position of the chosen token
	r.step[0], r.step[1] = uint32(next), uint32(next>>32)
	recent := r.recent[:1]
	recent[0] = r.ids[len(ids)-1]
	if r.penalty[0] != 1 && len(outputs) > 0 {
		recent = g.recent(ids)
	}
	r.request.State, r.request.Outputs = g.state, outputs
	r.request.Inputs[in.IDs] = rlx.Tensor{DType: rlx.I64, Shape: []int{1, len(ids)},
		Data: tensor.Bytes(r.ids[:len(ids)])}
	r.request.Inputs[in.Recent] = rlx.Tensor{DType: rlx.I64, Shape: []int{len(recent)}, Data: tensor.Bytes(recent)}
	res, err := r.do.Run(ctx, r.request)
	if err != nil {
		return nil, err
	}
	g.seen, g.last, g.draft.copied = append(g.seen, ids...), nil, false
	return res, nil
}

// setRotary sets the positions of n tokens of texts, whose first positions are given.
func (r *textRun) setRotary(t *spec, firsts []int, n int, shape ...int) {
	r.rotary = r.rotary[:0]
	for range 3 { // text has the same time, row and column
		for _, first := range firsts {
			for i := range n {
				r.rotary = append(r.rotary, int32(first+i))
			}
		}
	}
	r.request.Inputs[t.Images.Rotary] = rlx.Tensor{DType: rlx.I32, Shape: shape, Data: tensor.Bytes(r.rotary)}
}

// slide drops the rows of a full state that no later token sees.
func (g *Generator) slide(ctx context.Context) error {
	w := &g.spec.Slide
	first := []int32{int32(len(g.seen) - g.dropped - w.Keep)}
	_, err := g.run.do.Run(
		ctx, rlx.Request{Method: w.Method, State: g.state,
			Inputs:  map[string]rlx.Tensor{w.First: {DType: rlx.I32, Shape: []int{}, Data: tensor.Bytes(first)}},
			Outputs: []string{}})
	if err == nil {
		g.dropped += int(first[0])
	}
	return err
}

// recent returns the last tokens of the sequence that ends with ids. It always fills the window, so all runs have the
// same size.
func (g *Generator) recent(ids []int) []int64 {
	fillRecent(g.run.recent, g.run.ids[:len(ids)], g.seen)
	return g.run.recent
}

// fillRecent fills w with the last tokens of seen and ids, in any order, and pads it with the very last token.
func fillRecent(w, ids []int64, seen []int) {
	n := copy(w, ids[max(0, len(ids)-len(w)):])
	for i := len(seen) - 1; i >= 0 && n < len(w); i-- {
		w[n] = int64(seen[i])
		n++
	}
	for ; n < len(w); n++ {
		w[n] = ids[len(ids)-1]
	}
}

// ended adds the characters that were held back to a text that ends early.
func (t *Result) ended(out *textStream) *Result {
	t.Text += out.flush()
	return t
}

// chooseOne runs the tokens that are not in the state yet, and returns the token that follows.
func (g *Generator) chooseOne(ctx context.Context, ids []int, t *Result, o *Options) ([]Token, error) {
	res, err := g.step(ctx, ids, g.run.chosen)
	if err != nil {
		return nil, err
	}
	x, err := g.chosen(res, t, o)
	if err == nil && g.draft.count > 0 {
		g.draft.ran(len(g.seen)-len(ids), ids, tensor.View[float32](res.Outputs[g.spec.Draft.Hidden].Data))
	}
	return []Token{x}, err
}

// chosen returns the token that a run chose.
func (g *Generator) chosen(res *rlx.Result, t *Result, o *Options) (x Token, err error) {
	id := tensor.View[int32](res.Outputs[g.run.token].Data)[0]
	x.ID, x.LogProb = int(id), tensor.View[float32](res.Outputs[g.run.logprob].Data)[0]
	if err := checkToken(g.session, g.spec, x, len(g.seen)-1); err != nil {
		return x, err
	}
	if !o.Logits && !o.onHost() {
		return x, nil
	}
	logits := tensor.View[float32](res.Outputs[g.spec.Outputs.Logits].Data)
	if o.Logits {
		t.Logits = append(t.Logits, logits...)
	}
	if o.onHost() {
		return g.spec.choose(x, o, logits, g.seen, t.Tokens)
	}
	return x, nil
}

// checkToken checks a token that was chosen after position after of the sequence.
func checkToken(s *rlx.Session, t *spec, x Token, after int) error {
	if x.LogProb != x.LogProb || math.IsInf(float64(x.LogProb), 1) {
		return diag.New(device.ErrNaN, t.Method, "the logits after token %d hold a NaN or infinity", after)
	}
	if x.ID < 0 || x.ID >= t.Vocabulary {
		return diag.New(device.ErrLost, "backend "+s.Backend().Name, "chose token %d; the vocabulary has 0 to %d", x.ID,
			t.Vocabulary-1)
	}
	return nil
}

// parseIDs parses the tokens of a state file.
func (g *Generator) parseIDs(path, s string) ([]int, error) {
	var ids []int
	for f := range strings.FieldsSeq(s) {
		id, err := strconv.Atoi(f)
		if err != nil || id < 0 || id >= g.spec.Vocabulary {
			return nil, diag.New(device.ErrInput, path, "holds the token %.20q; the vocabulary has 0 to %d", f,
				g.spec.Vocabulary-1)
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 || len(ids) > g.spec.most()+1 {
		return nil, diag.New(device.ErrInput, path, "holds %d tokens of a text; want 1 to %d", len(ids),
			g.spec.most()+1).
			WithHint("a file that Generator.Save or rlxrun --prompt --save-state has written has them")
	}
	return ids, nil
}

// parseDropped parses the number of rows that the state in a file has dropped. tokens is the number of tokens in the
// file.
func (g *Generator) parseDropped(path, s string, tokens int) (n int, err error) {
	if s != "" {
		n, err = strconv.Atoi(s)
	}
	if err != nil || n < 0 || n > max(0, tokens-g.spec.Slide.Keep) || n > 0 && !g.spec.slides() ||
		tokens-n > g.spec.Context {
		return 0, diag.New(device.ErrInput, path, "says that %.20q of %d rows were dropped; the state has %d", s,
			tokens, g.spec.Context)
	}
	return n, nil
}
