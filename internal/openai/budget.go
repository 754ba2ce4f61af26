package openai

import (
	"errors"
	"math"
	"sync"
	"time"
)

// ErrTokens reports that a client has used its tokens. It matches a *tokensError, which says when to try again.
var ErrTokens = errors.New("this client has used its tokens of a minute")

type tokensError struct{ wait time.Duration }

func (e *tokensError) Error() string { return ErrTokens.Error() + "; try again later" }

// Is makes the error match ErrTokens.
func (e *tokensError) Is(target error) bool { return target == ErrTokens }

// seconds returns the value of the header Retry-After.
func (e *tokensError) seconds() int { return max(1, int(math.Ceil(e.wait.Seconds()))) }

// Tokens bound the tokens of each client: those of prompts that are computed, and those that are generated. A client
// that has used nothing for a minute has the tokens of a whole minute, and they come back evenly. A text that has begun
// may end, so a client may overdraw; its next text waits until the tokens have come back. Several engines may share
// one.
type Tokens struct {
	perMinute float64
	now       func() time.Time // with a monotonic clock

	mu      sync.Mutex
	clients map[string]*account
}

// An account has the tokens that a client may use, as of a time.
type account struct {
	left float64
	at   time.Time
}

// NewTokens returns a budget of perMinute tokens a minute for each client.
func NewTokens(perMinute int) *Tokens {
	return &Tokens{perMinute: float64(perMinute), now: time.Now, clients: map[string]*account{}}
}

// check returns a *tokensError if a client has no tokens left. A nil budget allows all.
func (t *Tokens) check(client string) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.clients[client]
	if a == nil {
		return nil
	}
	if t.fill(a); a.left > 0 {
		return nil
	}
	return &tokensError{time.Duration((1 - a.left) / t.perMinute * float64(time.Minute))}
}

// spend takes tokens from a client.
func (t *Tokens) spend(client string, n int) {
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.clients[client]
	if a == nil {
		t.forget()
		a = &account{t.perMinute, t.now()}
		t.clients[client] = a
	}
	t.fill(a)
	a.left -= float64(n)
}

// fill gives back what has come since the last time. A clock that jumps back takes nothing away. The caller holds t.mu.
func (t *Tokens) fill(a *account) {
	now := t.now()
	a.left = min(t.perMinute, a.left+max(0, now.Sub(a.at).Minutes())*t.perMinute)
	a.at = now
}

// forget drops clients that have all of their tokens again, so clients that came once do not stay in memory.
func (t *Tokens) forget() {
	for name, a := range t.clients {
		if t.fill(a); a.left == t.perMinute {
			delete(t.clients, name)
		}
	}
}
