package openai

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/text"
)

// ErrBusy reports that as many requests wait as may.
var ErrBusy = errors.New("the server is busy; try again later")

var errDraining = errors.New("the server is ending")

// An Engine continues texts. Several may be in progress: their runs take turns token by token, because a session does
// one run at a time. Sequences of texts that have ended are kept for a while, so that the next request of a
// conversation computes only what is new.
type Engine struct {
	open     func(context.Context) (*rlx.Session, error)
	queue    chan struct{} // has an element for each request, in progress or waiting
	parallel chan struct{} // has an element for each text in progress

	mu       sync.Mutex
	session  *rlx.Session
	kept     []*text.Generator // sequences of session that no request uses, the one used last at the end
	spare    int               // how many may be kept
	draining bool
	running  map[*rlx.Session]int // texts in progress, so that a lost session is closed after the last one
}

// NewEngine returns an engine. open starts a session; it is called again when the backend is lost. parallel bounds the
// texts in progress, and waiting the requests that wait for others. Each text in progress, and each of as many that are
// kept, has a state of rlx.Model.StateSize.
func NewEngine(open func(context.Context) (*rlx.Session, error), parallel, waiting int) *Engine {
	return &Engine{open: open, queue: make(chan struct{}, parallel+waiting), parallel: make(chan struct{}, parallel),
		spare: parallel, running: map[*rlx.Session]int{}}
}

// Ready starts the session if none runs, and returns the error if that fails.
func (e *Engine) Ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return errDraining
	}
	_, err := e.current(context.Background())
	return err
}

// drain refuses requests from now on.
func (e *Engine) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
}

// current returns the session. The caller holds e.mu.
func (e *Engine) current(ctx context.Context) (*rlx.Session, error) {
	if e.session != nil && e.session.Err() == nil {
		return e.session, nil
	}
	if old := e.session; old != nil {
		e.session, e.kept = nil, nil
		if e.running[old] == 0 {
			old.Close()
		}
	}
	s, err := e.open(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	e.session = s
	return s, nil
}

// A Text is the result of Generate.
type Text struct {
	*text.Result
	Cached int // tokens of the prompt that were not computed again
}

// Generate continues a prompt. It waits while as many texts are in progress as may be. If the backend is lost before
// the first token, it is started again and the text is begun anew. Errors match ErrBusy, or are those of
// text.Generator.Generate.
func (e *Engine) Generate(ctx context.Context, prompt []int, o text.Options) (Text, error) {
	select {
	case e.queue <- struct{}{}:
		defer func() { <-e.queue }()
	default:
		return Text{}, ErrBusy
	}
	select {
	case e.parallel <- struct{}{}:
		defer func() { <-e.parallel }()
	case <-ctx.Done():
		return Text{}, context.Cause(ctx)
	}
	sent, each := false, o.Each
	o.Each = func(t text.Token) error {
		sent = true
		return each(t)
	}
	t, err := e.generate(ctx, prompt, o)
	if errors.Is(err, rlx.ErrLost) && !sent && ctx.Err() == nil {
		return e.generate(ctx, prompt, o)
	}
	return t, err
}

func (e *Engine) generate(ctx context.Context, prompt []int, o text.Options) (Text, error) {
	g, s, err := e.take(ctx, prompt)
	if err != nil {
		return Text{}, err
	}
	cached := len(g.IDs())
	r, err := g.Generate(ctx, prompt[cached:], o)
	e.put(g, s, err)
	return Text{r, cached}, err
}

// take returns the kept sequence with which most of the prompt has been computed, or a new one.
func (e *Engine) take(ctx context.Context, prompt []int) (*text.Generator, *rlx.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return nil, nil, errDraining
	}
	s, err := e.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	best, length := -1, 0
	for i, g := range e.kept {
		seen := g.IDs()
		if len(seen) < len(prompt) && len(seen) > length && slices.Equal(seen, prompt[:len(seen)]) {
			best, length = i, len(seen)
		}
	}
	var g *text.Generator
	switch {
	case best >= 0:
		g = e.kept[best]
		e.kept = slices.Delete(e.kept, best, best+1)
	case len(e.kept) == e.spare: // give its memory to the new one
		g = e.kept[0]
		e.kept = slices.Delete(e.kept, 0, 1)
		err = g.Reset(ctx)
	default:
		g, err = text.NewGenerator(ctx, s)
	}
	if err != nil {
		if g != nil {
			g.Close()
		}
		return nil, nil, err
	}
	e.running[s]++
	return g, s, nil
}

// put keeps the sequence of a text that has ended with err.
func (e *Engine) put(g *text.Generator, s *rlx.Session, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running[s]--; e.running[s] == 0 {
		delete(e.running, s)
	}
	switch {
	case s != e.session: // lost, and replaced
		g.Close()
		if e.running[s] == 0 {
			s.Close()
		}
	case err != nil && !errors.Is(err, context.Canceled) || errors.Is(err, rlx.ErrState) || len(e.kept) == e.spare:
		g.Close()
	default:
		e.kept = append(e.kept, g)
	}
}
