package api

import "sync"

// Uses counts the requests that use a model, so that the model ends after the last of them when another has taken its
// place.
type Uses struct {
	mu       sync.Mutex
	n        int
	replaced bool
	end      func()
}

// NewUses returns a count for a model that end ends; end may be nil.
func NewUses(end func()) *Uses { return &Uses{end: end} }

// Begin counts a request. The caller calls done when the request has ended.
func (u *Uses) Begin() (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.n--
		u.endIfUnused()
	}
}

// Replaced reports that no further request begins. The model ends at once, or when its last request has.
func (u *Uses) Replaced() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replaced = true
	u.endIfUnused()
}

func (u *Uses) endIfUnused() {
	if u.replaced && u.n == 0 && u.end != nil {
		go u.end()
		u.end = nil
	}
}
