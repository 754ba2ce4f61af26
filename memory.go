package rlx

import (
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/budget"
)

// A Budget limits the memory of this process and its backends. Memory is reserved before it is allocated, and a
// reservation beyond the limit fails; without a budget, the system would kill a process when memory runs out. Models
// and sessions reserve their memory. A program reserves its own data, such as images, with Reserve. Models, sessions
// and goroutines may share a budget.
type Budget struct{ budget *budget.Budget }

// NewBudget returns a budget of limit bytes. 0 means the memory that is free now, as reported by the system and the
// control groups of this process. If the system does not report it, the budget has no limit.
func NewBudget(limit int64) *Budget { return &Budget{budget.New(limit)} }

// Reserve reserves bytes until Release. what names the purpose in a word or two; reservations with the same name are
// added up. If the limit would be exceeded, the budget does not change, and the error matches ErrMemory and lists the
// reservations.
func (b *Budget) Reserve(what string, bytes int64) error { return b.budget.Reserve(part(what, bytes)) }

// Fits checks whether bytes could be reserved, without reserving them.
func (b *Budget) Fits(what string, bytes int64) error { return b.budget.Fits(part(what, bytes)) }

// Release releases bytes that were reserved under the name what.
func (b *Budget) Release(what string, bytes int64) { b.budget.Release(part(what, bytes)) }

// largest returns the largest possible reservation in bytes, or 0 if unknown.
func (b *Budget) largest() int64 {
	if b == nil {
		b = NewBudget(0)
	}
	return b.budget.Largest()
}

func part(what string, bytes int64) budget.Part { return budget.Part{What: what, Bytes: bytes} }

// about sets the subject of an error without a subject.
func about(subject string, err error) error {
	if e, ok := err.(*diag.Error); ok && e.Subject == "" {
		e.Subject = subject
	}
	return err
}
