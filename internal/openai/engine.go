package openai

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/api"
	"github.com/rlx-go/rlx/text"
)

// Limits bound what an engine does at a time.
type Limits struct {
	// Parallel bounds the texts in progress. 0 means as many as share a run, or 4 if the model was compiled for one
	// sequence. In the second case each text in progress has a state of rlx.Model.StateSize, and up to Parallel states
	// of texts that have ended are kept.
	Parallel  int
	Waiting   int     // requests that wait for others; more are refused
	PerClient int     // texts of one client, in progress or waiting; 0 means any number
	Budget    int     // see text.Batch.Budget; 0 means its default
	Alike     bool    // see text.Batch.Alike
	Tokens    *Tokens // of each client; nil means any number
	// Label is the model's name in the metrics, if the server has several models.
	Label string
}

// turnsParallel is the default of Limits.Parallel for models that were compiled for one sequence.
const turnsParallel = 4

// maxTries bounds how often a text is started, if the backend is lost before anything was sent.
const maxTries = 4

// An Engine continues texts, several at a time. They share runs if the model was compiled for several sequences, and
// take turns if not.
type Engine struct {
	open    func(context.Context) (*rlx.Session, error)
	limits  Limits
	places  *places
	metrics *metrics // of the model's name
	gauges  *prometheus.Registry
	way     interface {
		generate(ctx context.Context, prompt []int, o text.Options) (*text.Result, error)
	}

	embedding  sync.Mutex // held while embedder is in use
	embedder   *text.Generator
	embedderOf *rlx.Session

	mu      sync.Mutex
	session *rlx.Session
	uses    map[*rlx.Session]int // so that a lost session is closed after its last use
}

// NewEngine returns an engine for a model with the task text. open starts a session; it is called again when the
// backend is lost.
func NewEngine(m *rlx.Model, open func(context.Context) (*rlx.Session, error), l Limits) (*Engine, error) {
	facts, err := text.FactsOf(m)
	if err != nil {
		return nil, err
	}
	e := &Engine{open: open, uses: map[*rlx.Session]int{}}
	if facts.Sequences > 1 {
		x := &together{engine: e}
		if facts.Pages > 0 {
			x.pages.Store(&text.PageStats{Pages: facts.Pages})
		}
		e.way = x
		if l.Parallel == 0 || l.Parallel > facts.Sequences {
			l.Parallel = facts.Sequences
		}
	} else {
		if l.Parallel == 0 {
			l.Parallel = turnsParallel
		}
		e.way = &turns{engine: e, spare: l.Parallel}
	}
	e.limits, e.places = l, newPlaces(l)
	e.metrics, e.gauges = newMetrics(l), newGauges(e)
	return e, nil
}

// Limits returns the limits, with those that NewEngine has chosen.
func (e *Engine) Limits() Limits { return e.limits }

// Ready starts the session if none runs, and returns the error if that fails.
func (e *Engine) Ready() error {
	if e.places.isDraining() {
		return errDraining
	}
	_, done, err := e.use(context.Background())
	if err == nil {
		done()
	}
	return err
}

// drain refuses requests from now on.
func (e *Engine) drain() { e.places.drain() }

// use returns the session, which it starts if there is none or if it is lost. The caller calls done after use.
func (e *Engine) use(ctx context.Context) (s *rlx.Session, done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old := e.session; old == nil || old.Err() != nil {
		e.session = nil
		if old != nil {
			e.metrics.lost.Inc()
			if e.uses[old] == 0 {
				old.Close()
			}
		}
		if e.session, err = e.open(context.WithoutCancel(ctx)); err != nil {
			e.session = nil
			return nil, nil, err
		}
	}
	s = e.session
	e.uses[s]++
	return s, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.uses[s]--; e.uses[s] == 0 {
			delete(e.uses, s)
			if s != e.session {
				s.Close()
			}
		}
	}, nil
}

// A Client is the sender of a request.
type Client struct {
	Name string
	// Begun says that the request already has texts in progress. Its other texts may wait, but are not refused.
	Begun bool
	// Entered, if not nil, is called when the text has a place or waits for one.
	Entered func()
}

// Generate continues a prompt for a client. It waits if Limits.Parallel texts are in progress. If the backend is lost
// before o.Each was called, or if Each is nil, Generate restarts the backend and the text. Errors match ErrBusy,
// ErrClient or ErrTokens, or are those of text.Generator.Generate. A full context is not an error.
func (e *Engine) Generate(ctx context.Context, client Client, prompt []int, o text.Options) (*text.Result, error) {
	began := time.Now()
	ctx, span := api.Span(ctx, "text")
	defer span.End()
	leave, err := e.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	defer leave()
	e.metrics.queue.Observe(time.Since(began).Seconds())
	sent := false
	if each := o.Each; each != nil {
		o.Each = func(t text.Token) error {
			sent = true
			return each(t)
		}
	}
	for try := 1; ; try++ {
		t, err := e.way.generate(ctx, prompt, o)
		if errors.Is(err, rlx.ErrLost) && !sent && ctx.Err() == nil && try < maxTries {
			e.metrics.repeated.Inc()
			span.AddEvent("the backend was lost: the text is begun anew")
			continue
		}
		if errors.Is(err, text.ErrContext) && t != nil && len(t.Tokens) > 0 {
			err = nil // the answer says so in its finish_reason
		}
		if t != nil {
			e.limits.Tokens.spend(client.Name, t.Prompt-t.Cached+len(t.Tokens))
		}
		e.metrics.text(t, err, began)
		traceText(ctx, t, err)
		return t, err
	}
}

// enter waits for a place; leave gives it back.
func (e *Engine) enter(ctx context.Context, client Client) (leave func(), err error) {
	_, span := api.Span(ctx, "queue")
	if !client.Begun {
		err = e.limits.Tokens.check(client.Name)
	}
	if err == nil {
		leave, err = e.places.take(ctx, client)
	}
	if err != nil {
		e.metrics.refuse(err)
	}
	api.EndSpan(span, err)
	return leave, err
}
