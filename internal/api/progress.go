package api

import "sync"

// A progress counts the requests in progress, so that a server that ends can wait for them. Those that begin after end
// was called do not count: they are refused, and clients that try again and again would keep the server from ending.
type progress struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // nil until end is called; closed once n is 0
}

// begin counts a request. The caller calls done when it is answered.
func (p *progress) begin() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return func() {}
	}
	p.n++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.n--; p.n == 0 && p.ended != nil {
			close(p.ended)
		}
	}
}

// end returns a channel that is closed when the requests in progress have been answered. It is called once.
func (p *progress) end() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = make(chan struct{})
	if p.n == 0 {
		close(p.ended)
	}
	return p.ended
}
