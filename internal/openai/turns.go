package openai

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/text"
)

// turns continues the texts of a model that was compiled for one sequence. Their runs take turns token by token,
// because a session does one run at a time. Sequences of texts that have ended are kept for a while, so that the next
// request of a conversation computes only what is new.
type turns struct {
	engine *Engine

	mu    sync.Mutex
	of    *rlx.Session      // to which the kept sequences belong
	kept  []*text.Generator // that no request uses, the one used last at the end
	spare int               // how many may be kept
}

func (e *turns) generate(ctx context.Context, prompt []int, o text.Options) (*text.Result, error) {
	s, done, err := e.engine.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	p := text.Prompt{IDs: prompt, Images: o.Images}
	g, err := e.take(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if trace.SpanFromContext(ctx).IsRecording() {
		o.Runner = tracedRunner{s}
	}
	cached := len(g.IDs())
	if rest, ok := g.After(p); ok {
		p = rest
	}
	o.Images = p.Images
	r, err := g.Generate(ctx, p.IDs, o)
	e.put(g, s, err)
	if r != nil {
		r.Prompt, r.Cached = len(prompt), cached
	}
	return r, err
}

// take returns the kept sequence with which most of the prompt has been computed, or a new one.
func (e *turns) take(ctx context.Context, s *rlx.Session, prompt text.Prompt) (g *text.Generator, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of != s {
		e.of, e.kept = s, nil // the states of a lost session are lost
	}
	best, length := -1, 0
	for i, g := range e.kept {
		if n := len(g.IDs()); n > length {
			if _, ok := g.After(prompt); ok {
				best, length = i, n
			}
		}
	}
	switch {
	case best >= 0:
		g = e.kept[best]
		e.kept = slices.Delete(e.kept, best, best+1)
	case len(e.kept) == e.spare: // give its memory to the new one
		g = e.kept[0]
		e.kept = slices.Delete(e.kept, 0, 1)
		err = g.Reset(ctx)
	default:
		return text.NewGenerator(ctx, s)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// put keeps the sequence of a text that has ended with err.
func (e *turns) put(g *text.Generator, s *rlx.Session, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bad := err != nil && !errors.Is(err, context.Canceled) || errors.Is(err, rlx.ErrState)
	if s != e.of || bad || len(e.kept) == e.spare {
		g.Close()
		return
	}
	e.kept = append(e.kept, g)
}
