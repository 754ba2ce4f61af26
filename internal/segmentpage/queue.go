package segmentpage

import (
	"context"
	"errors"
	"sync"
)

// errSuperseded ends a request that waits when its tab makes a newer one.
var errSuperseded = errors.New("a newer request of this tab takes its place")

// queue gives the model to one request at a time. Of each tab at most one waits.
type queue struct {
	turn chan struct{} // holds a token while a request has the model

	mu      sync.Mutex
	waiting map[string]*waiter // by tab
}

type waiter struct{ cancel context.CancelCauseFunc }

func newQueue() queue { return queue{turn: make(chan struct{}, 1), waiting: map[string]*waiter{}} }

// enter waits for the model; leave gives it back. A request of the same tab that waits ends with errSuperseded, unless the tab is "".
// Otherwise the error is the cause of ctx.
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
		if err := context.Cause(ctx); err != nil { // it came to this at the same time
			q.leave()
			return err
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *queue) leave() { <-q.turn }
