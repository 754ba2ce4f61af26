package text

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// MaxDrafts bounds Generator.Draft.
const MaxDrafts = 16

// A drafter proposes tokens with the draft head of the model, which predicts one more token from the model's last
// hidden state.
type drafter struct {
	count  int        // number of tokens to propose at a time; 0 means no drafts
	spare  *rlx.State // a copy of the recurrent states, which have no positions; nil without such states
	fed    []string   // inputs of Task.Draft.Rewind
	copied bool       // spare is up to date

	request  rlx.Request // of the head
	ids      []int64
	position []int32
	hidden   []float32 // rows of the last run of the model, or the row from which the head continues
	next     int       // the next proposal

	base    int   // number of tokens in the state before the run that checks proposals
	pending []int // tokens of that run before the proposals
	drafts  []int // proposals in that run
	pause   bool  // the next run has no proposals, because the logits after its first tokens are needed
}

// Draft makes Generate decode speculatively: the draft head of the model proposes n tokens at a time, and one run of
// the model checks them all. Proposals that the model itself would not choose are dropped from text and state, so the
// text is the same. (A backend may round a product of several rows differently from one of a single row, which may swap
// two equally probable tokens.) n is 1 to MaxDrafts; 0 turns drafts off. Call Draft before the first tokens: the head
// proposes worse tokens if it has not seen the earlier ones.
//
// Errors match rlx.ErrUsage (the model has no draft head, or n is not allowed), or are those of rlx.Session.Load and
// rlx.Session.NewState.
func (g *Generator) Draft(ctx context.Context, n int) error {
	d, about := &g.draft, &g.spec.Draft
	most := g.spec.drafts()
	switch {
	case about.Method == "":
		return diag.New(diag.Usage, g.session.Model().Path(), "has no head that drafts tokens").WithHint(
			"decode without drafts")
	case n < 0 || n > most:
		return diag.New(diag.Usage, "drafts", "are %d; allowed are 0 to %d", n, most)
	case n == 0 || d.request.Method != "":
		d.count = n
		return nil
	}
	for _, name := range []string{about.Method, about.Rewind} {
		if name == "" {
			continue
		}
		if err := g.session.Load(ctx, name); err != nil {
			return err
		}
	}
	if about.Rewind != "" {
		m, err := g.session.Model().Method(about.Rewind)
		if err != nil {
			return err
		}
		if d.spare, err = g.session.NewState(ctx); err != nil {
			return err
		}
		for _, v := range m.Inputs {
			d.fed = append(d.fed, v.Name)
		}
	}
	d.ids, d.position = make([]int64, g.spec.Chunk), make([]int32, 1)
	d.request = rlx.Request{Method: about.Method,
		Inputs: map[string]rlx.Tensor{
			g.spec.Inputs.Position: {DType: rlx.I32, Shape: []int{}, Data: tensor.Bytes(d.position)}}}
	d.count = n
	return nil
}

// close frees the copy of states.
func (d *drafter) close() error {
	if d.spare == nil {
		return nil
	}
	return d.spare.Close()
}

// rewind copies the recurrent states from one state to another.
func (g *Generator) rewind(ctx context.Context, to, from *rlx.State) error {
	r := rlx.Request{Method: g.spec.Draft.Rewind, State: to, Feeds: map[string]*rlx.Resident{}, Outputs: []string{}}
	for _, name := range g.draft.fed {
		var err error
		if r.Feeds[name], err = from.Tensor(strings.TrimPrefix(name, task.StatePrefix)); err != nil {
			return err
		}
	}
	_, err := g.run.do.Run(ctx, r)
	return err
}

// propose runs the head on rows of hidden states, and on the token that follows each row. position is that of the first
// row.
func (g *Generator) propose(ctx context.Context, hidden []float32, ids []int, position int) error {
	d, about := &g.draft, &g.spec.Draft
	for i, id := range ids {
		d.ids[i] = int64(id)
	}
	d.position[0] = int32(position)
	d.request.State, d.request.Outputs = g.state, []string{about.Token, about.Hidden}
	d.request.Inputs[g.spec.Inputs.IDs] = rlx.Tensor{DType: rlx.I64, Shape: []int{1, len(ids)},
		Data: tensor.Bytes(d.ids[:len(ids)])}
	d.request.Inputs[about.Hidden] = rlx.Tensor{DType: rlx.F32, Shape: []int{1, len(ids), len(hidden) / len(ids)},
		Data: tensor.Bytes(hidden)}
	res, err := g.run.do.Run(ctx, d.request)
	if err != nil {
		return err
	}
	id := int(tensor.View[int32](res.Outputs[about.Token].Data)[0])
	if err := checkToken(g.session, g.spec, Token{ID: id}, position+len(ids)); err != nil {
		return err
	}
	d.next, d.hidden = id, tensor.View[float32](res.Outputs[about.Hidden].Data)
	return nil
}

// speculate makes one run with the proposals after the tokens that are not in the state yet. It returns the tokens that
// the model chooses, one more than the number of proposals that it agrees with; or fewer, perhaps none, if the next
// does not fit a grammar and the logits in its place are not known. The caller takes some of them and calls accept.
func (g *Generator) speculate(ctx context.Context, t *Result, o *Options) (chosen []Token, err error) {
	d, out := &g.draft, &g.spec.Draft
	d.base, d.pending, d.drafts = len(g.seen), slices.Clone(g.last), nil
	room := min(d.count, g.spec.Context-len(g.seen)-len(g.last))
	if len(d.pending) > d.count+1 || d.pause {
		room = 0 // first put the tokens into the state that are repeated after wrong proposals
	}
	d.pause = false
	ahead := o.guide.ahead()
	for i := range room {
		if i > 0 {
			if err := g.propose(ctx, d.hidden, d.drafts[i-1:], d.base+len(d.pending)-2+i); err != nil {
				return nil, err
			}
		}
		if ok, err := ahead.takes(d.next); err != nil {
			return nil, err
		} else if !ok { // the model cannot choose it
			break
		}
		d.drafts = append(d.drafts, d.next)
	}
	if len(d.drafts) > 0 && d.spare != nil && !d.copied {
		if err := g.rewind(ctx, d.spare, g.state); err != nil {
			return nil, err
		}
		d.copied = true
	}
	copied := d.copied
	outputs := []string{out.Choices, out.LogProbs, out.Hidden}
	if o.guide != nil {
		outputs = append(outputs, g.spec.Outputs.Logits)
	}
	res, err := g.step(ctx, slices.Concat(d.pending, d.drafts), outputs)
	if err != nil {
		return nil, err
	}
	d.copied = copied
	from := len(d.pending) - 1
	ids, logprobs := tensor.View[int32](res.Outputs[out.Choices].Data)[from:],
		tensor.View[float32](res.Outputs[out.LogProbs].Data)[from:]
	d.hidden = tensor.View[float32](res.Outputs[out.Hidden].Data)
	accepted := 0
	for i, after := 0, o.guide.ahead(); i < len(ids) && !after.over(); i++ {
		x := Token{ID: int(ids[i]), LogProb: logprobs[i]}
		if err := checkToken(g.session, g.spec, x, d.base+from+i); err != nil {
			if i > 0 {
				break // the next run finds it
			}
			return nil, cmp.Or(g.accept(ctx, nil), err)
		}
		if i == len(d.drafts) {
			if x, err = g.lastChoice(x, res, after, o); err != nil {
				return nil, cmp.Or(g.accept(ctx, nil), err)
			}
			chosen = append(chosen, x)
			break
		}
		if ok, err := after.takes(x.ID); err != nil {
			return nil, cmp.Or(g.accept(ctx, nil), err)
		} else if !ok {
			d.pause = true
			break
		}
		chosen = append(chosen, x)
		if x.ID != d.drafts[i] {
			break
		}
		accepted++
	}
	t.Drafted, t.Accepted = t.Drafted+len(d.drafts), t.Accepted+accepted
	return chosen, nil
}

// lastChoice returns the token that the model chooses after all tokens of a run: x, or the token that fits the grammar.
func (g *Generator) lastChoice(x Token, res *rlx.Result, after *guide, o *Options) (Token, error) {
	if after == nil {
		return x, nil
	}
	there := *o
	there.guide = after
	return g.spec.choose(x, &there, tensor.View[float32](res.Outputs[g.spec.Outputs.Logits].Data), g.seen, nil)
}

// ran records a run without proposals.
func (d *drafter) ran(base int, ids []int, hidden []float32) {
	d.base, d.pending, d.drafts, d.hidden = base, ids, nil, hidden
}

// accept updates state and sequence with the tokens that the caller took from speculate, and makes the next proposal.
func (g *Generator) accept(ctx context.Context, taken []int) error {
	d := &g.draft
	switch {
	case len(taken) == len(d.drafts)+1:
		g.last, d.copied = taken[len(taken)-1:], false
	case d.spare == nil && len(taken) > 0: // rows after the tokens that were taken are not read
		g.seen, g.last = g.seen[:d.base+len(d.pending)+len(taken)-1], taken[len(taken)-1:]
	case len(d.drafts) == 0:
		return nil
	default:
		if d.spare != nil {
			if err := g.rewind(ctx, g.state, d.spare); err != nil {
				return err
			}
		}
		g.seen, g.last = g.seen[:d.base], slices.Concat(d.pending, taken)
	}
	if len(taken) == 0 {
		return nil
	}
	next := slices.Concat(d.pending[1:], taken)
	width := len(d.hidden) / (len(d.pending) + len(d.drafts))
	return g.propose(ctx, d.hidden[:width*len(next)], next, d.base)
}

// checkDrafts fails for options that cannot be combined with drafts.
func (g *Generator) checkDrafts(o Options) error {
	switch s := g.spec.sampling(o); {
	case g.draft.count == 0:
		return nil
	case !s.Greedy():
		return diag.New(
			diag.Usage, "drafts", "are for the most probable tokens; the temperature is %v and the repeat penalty %v",
			s.Temperature, s.RepeatPenalty).
			WithHint("set the temperature to 0 and the penalty to 1, or decode without drafts")
	case o.Logits || o.Adjust != nil || o.Top > 0:
		return diag.New(diag.Usage, "drafts", "cannot be combined with Options.Logits, Adjust and Top")
	}
	return nil
}
