package text

import (
	"cmp"
	"context"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
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
