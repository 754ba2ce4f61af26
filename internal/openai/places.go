package openai

import (
	"context"
	"errors"
	"slices"
	"sync"
)

var (
	// ErrBusy reports that the queue is full.
	ErrBusy = errors.New("the server is busy; try again later")
	// ErrClient reports that a client has reached Limits.PerClient.
	ErrClient = errors.New("this client has as many texts in progress or waiting as it may; try again later")

	errDraining = errors.New("the server is ending")
)

// places bounds the texts in progress. Others wait, and take free places in turns by client, so that a client with
// many requests does not keep the others waiting.
type places struct {
	parallel, waiting, perClient int

	mu       sync.Mutex
	taken    int
	clients  map[string]*client
	turns    []*client // that have requests waiting, in order
	queued   int
	draining bool
}

type client struct {
	name  string
	all   int             // requests in progress or waiting
	queue []chan struct{} // closed when a request gets its place
}

func newPlaces(l Limits) *places {
	return &places{parallel: l.Parallel, waiting: l.Waiting, perClient: l.PerClient, clients: map[string]*client{}}
}

// drain refuses requests from now on.
func (p *places) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
}

func (p *places) isDraining() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// counts returns how many texts are in progress, and how many wait.
func (p *places) counts() (taken, queued int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.queued
}

// take waits for a place; leave gives it back. Errors are ErrBusy, ErrClient, errDraining, or the cause of ctx.
func (p *places) take(ctx context.Context, who Client) (leave func(), err error) {
	c, ready, err := p.enter(who)
	if err != nil {
		return nil, err
	}
	if who.Entered != nil {
		who.Entered()
	}
	leave = func() { p.leave(c) }
	if ready == nil {
		return leave, nil
	}
	select {
	case <-ready:
		return leave, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(c.queue, ready)
	if i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		p.queued--
		p.forget(c)
	}
	p.mu.Unlock()
	if i < 0 { // it got its place at the same time
		leave()
	}
	return nil, context.Cause(ctx)
}

// enter takes a place, or waits in the queue: then ready is closed when it gets one.
func (p *places) enter(who Client) (c *client, ready chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c = p.clients[who.Name]
	switch {
	case p.draining && !who.Begun:
		return nil, nil, errDraining
	case c != nil && p.perClient > 0 && c.all >= p.perClient && !who.Begun:
		return nil, nil, ErrClient
	case p.taken >= p.parallel && p.queued >= p.waiting && !who.Begun:
		return nil, nil, ErrBusy
	}
	if c == nil {
		c = &client{name: who.Name}
		p.clients[who.Name] = c
	}
	c.all++
	if p.taken < p.parallel {
		p.taken++
		return c, nil, nil
	}
	ready = make(chan struct{})
	if len(c.queue) == 0 {
		p.turns = append(p.turns, c)
	}
	c.queue = append(c.queue, ready)
	p.queued++
	return c, ready, nil
}

// forget counts a request of a client as ended. The caller holds p.mu.
func (p *places) forget(c *client) {
	if c.all--; c.all == 0 {
		delete(p.clients, c.name)
	}
	if len(c.queue) == 0 {
		p.turns = slices.DeleteFunc(p.turns, func(x *client) bool { return x == c })
	}
}

// leave gives the place to the next client in turn.
func (p *places) leave(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
	if len(p.turns) == 0 {
		p.taken--
		return
	}
	next := p.turns[0]
	p.turns = p.turns[1:]
	close(next.queue[0])
	if next.queue = next.queue[1:]; len(next.queue) > 0 {
		p.turns = append(p.turns, next)
	}
	p.queued--
}
