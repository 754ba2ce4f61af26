package main

import (
	"context"
	"errors"
	"sync"

	"github.com/rlx-go/rlx"
)

// A lasting runs methods for the page of `rlxrun serve`. If the backend is lost, it starts another and repeats the run
// once, so that neither a backend that was killed between two clicks nor one that crashed during a click ends the page.
type lasting struct {
	s   *session
	ctx context.Context // ends with the page

	mu sync.Mutex // held during a run and a start
}

// Model returns the open artifact.
func (l *lasting) Model() *rlx.Model { return l.s.model }

// Run executes a method. The error matches rlx.ErrLost if the backend was lost twice, and rlx.ErrCrashing if it has
// crashed too often before any run; a later run tries again.
func (l *lasting) Run(ctx context.Context, r rlx.Request) (*rlx.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.s.strictly(ctx, r.Method); err != nil {
		return nil, err
	}
	res, err := l.s.host.Run(ctx, r)
	if err == nil || !errors.Is(err, rlx.ErrLost) || l.ctx.Err() != nil {
		return res, err
	}
	if err := l.restart(err); err != nil {
		return nil, err
	}
	return l.s.host.Run(ctx, r)
}

// restart replaces a session whose backend was lost because of why. A client that leaves meanwhile does not end it.
func (l *lasting) restart(why error) error {
	l.s.host.Close()
	return l.s.renew(l.ctx, why)
}

// renew starts another session in place of one whose backend was lost because of why.
func (s *session) renew(ctx context.Context, why error) error {
	host, err := s.model.NewSession(ctx, s.options)
	if err != nil {
		return err
	}
	s.host = host
	s.env.Notef("%v; it was started again", inFlags(why))
	return nil
}

// wait waits for a run or start in progress. The page's context has ended.
func (l *lasting) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
}
