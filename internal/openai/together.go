package openai

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/text"
)

// together continues the texts of a model that was compiled for several sequences: all share every run. One goroutine
// makes the runs while there are texts. Other goroutines pass the texts to their clients, so a slow client does not
// delay others.
type together struct {
	engine *Engine

	mu      sync.Mutex
	joining []*member
	running bool

	pages atomic.Pointer[text.PageStats] // nil if the model's state is not in pages

	// These are of the goroutine that makes the runs.
	batch *text.Batch
	of    *rlx.Session
	count text.PageStats // of batch, as the metrics have them
}

// A member is a text in progress.
type member struct {
	ctx    context.Context
	prompt []int
	o      text.Options
	text   *text.BatchText

	mu     sync.Mutex
	tokens []text.Token  // that were not given to the client yet
	more   chan struct{} // has an element if there are any
	done   chan struct{} // closed when the text has ended, with result and err
	result *text.Result
	err    error
}

func (t *together) generate(ctx context.Context, prompt []int, o text.Options) (*text.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &member{ctx: ctx, prompt: prompt, o: o, more: make(chan struct{}, 1), done: make(chan struct{})}
	each := o.Each
	m.o.Each = func(x text.Token) error {
		if each == nil {
			return nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.tokens = append(m.tokens, x)
		select {
		case m.more <- struct{}{}:
		default:
		}
		return nil
	}
	t.join(m)
	give := func() {
		m.mu.Lock()
		tokens := m.tokens
		m.tokens = nil
		m.mu.Unlock()
		for _, x := range tokens {
			if ctx.Err() != nil {
				return
			}
			if err := each(x); err != nil {
				cancel(err) // the loop removes the text
				return
			}
		}
	}
	for {
		select {
		case <-m.more:
			give()
		case <-m.done:
			give()
			if cause := context.Cause(ctx); cause != nil && m.err == nil {
				return m.result, cause
			}
			return m.result, m.err
		}
	}
}

func (t *together) join(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.joining = append(t.joining, m)
	if !t.running {
		t.running = true
		go t.run()
	}
}

// run makes runs until there are no texts.
func (t *together) run() {
	var members []*member
	for {
		t.mu.Lock()
		joining := t.joining
		t.joining = nil
		if len(joining)+len(members) == 0 {
			t.running = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		members = append(members, joining...)
		if err := t.step(members, joining); err != nil {
			for _, m := range members {
				if m.text != nil {
					m.result = m.text.Result()
				}
				m.end(err)
			}
			members = nil
			continue
		}
		members = slices.DeleteFunc(members, func(m *member) bool {
			select {
			case <-m.done:
				return true
			default:
				return false
			}
		})
	}
}

// step lets texts join and leave, and continues the others. An error ends all of them.
func (t *together) step(members, joining []*member) error {
	s, done, err := t.engine.use(context.Background())
	if err != nil {
		return err
	}
	defer done()
	ctx := context.Background()
	if t.of != nil && t.of != s { // the backend was lost between two steps
		lost, some := t.of.Err(), t.batch.Len() > 0
		t.drop()
		if some {
			return lost
		}
	}
	if t.of == nil {
		if t.batch, err = text.NewBatch(ctx, s); err != nil {
			return err
		}
		t.of, t.batch.Alike = s, t.engine.limits.Alike
		if n := t.engine.limits.Budget; n > 0 {
			t.batch.Budget = n
		}
	}
	for _, m := range joining {
		if m.ctx.Err() != nil {
			m.end(context.Cause(m.ctx))
			continue
		}
		x, err := t.batch.Add(ctx, m.prompt, m.o)
		if err != nil {
			m.end(err)
			continue
		}
		m.text = x
	}
	for _, m := range members {
		if m.text != nil && m.ctx.Err() != nil && !m.text.Done() {
			t.batch.Remove(m.text)
		}
	}
	if n := t.batch.Len(); n > 0 {
		start := time.Now()
		err := t.batch.Step(ctx)
		traceStep(members, start, err)
		if err != nil {
			t.drop()
			return err
		}
		t.engine.metrics.step(n, time.Since(start))
	}
	t.note(t.batch.Pages())
	for _, m := range members {
		if m.text != nil && m.text.Done() {
			m.result = m.text.Result()
			m.end(m.text.Err())
		}
	}
	return nil
}

// drop ends the batch, whose texts cannot be continued. The next step begins another.
func (t *together) drop() {
	last := t.batch.Pages()
	t.note(text.PageStats{Pages: last.Pages, Evicted: last.Evicted, Preempted: last.Preempted})
	t.batch.Close()
	t.batch, t.of, t.count = nil, nil, text.PageStats{}
}

// note notes the numbers of pages of the batch for the metrics.
func (t *together) note(s text.PageStats) {
	if t.pages.Load() == nil {
		return
	}
	t.engine.metrics.evicted.Add(float64(s.Evicted - t.count.Evicted))
	t.engine.metrics.preempted.Add(float64(s.Preempted - t.count.Preempted))
	t.count = s
	t.pages.Store(&s)
}

// end reports that the text has ended.
func (m *member) end(err error) {
	select {
	case <-m.done:
	default:
		m.err = err
		close(m.done)
	}
}
