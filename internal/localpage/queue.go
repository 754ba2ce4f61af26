package localpage

import (
	"context"
	"errors"
	"sync"
)

// errSuperseded ends a waiting request when its tab makes a newer one.
var errSuperseded = errors.New("a newer request of this tab takes its place")

// Enter waits until no other request uses the model; Leave lets the next one use it. If tab is not "", a newer request
// of the same tab replaces one that waits. The replaced request gets an error that Fail answers with status 409. If ctx
// ends first, Enter returns its cause.
func (p *Page) Enter(ctx context.Context, tab string) error { return p.queue.enter(ctx, tab) }

// Leave ends what Enter has begun.
func (p *Page) Leave() { p.queue.leave() }

// queue lets one request at a time use the model. At most one request per tab waits.
type queue struct {
	turn chan struct{} // holds a token while a request uses the model

	mu      sync.Mutex
	waiting map[string]*waiter // by tab
}

type waiter struct{ cancel context.CancelCauseFunc }

func newQueue() queue { return queue{turn: make(chan struct{}, 1), waiting: map[string]*waiter{}} }

func (q *queue) enter(ctx context.Context, tab string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if tab != "" {
		me := &waiter{cancel}
		q.mu.Lock()
		if older := q.waiting[tab]; older != nil {
			older.cancel(errSuperseded)
		}
		q.waiting[tab] = me
		q.mu.Unlock()
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.waiting[tab] == me {
				delete(q.waiting, tab)
			}
		}()
	}
	select {
	case q.turn <- struct{}{}:
		if err := context.Cause(ctx); err != nil { // ctx ended at the same time
			q.leave()
			return err
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *queue) leave() { <-q.turn }
