package rlx

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/units"
)

// A Budget limits the memory of this process and its backends. Memory is reserved before it is allocated, and a reservation beyond
// the limit fails; without a budget, the system would kill a process when memory runs out. Models and sessions reserve their
// memory. A program reserves its own data, such as images, with Reserve. Models, sessions and goroutines may share a budget.
type Budget struct {
	mu    sync.Mutex
	limit int64  // 0 means the memory in free
	free  int64  // free memory when the budget was made; negative if the system does not report it
	parts []part // with distinct names
}

// A part is the memory for one purpose, in bytes.
type part struct {
	what  string
	bytes int64
}

// NewBudget returns a budget of limit bytes. 0 means the memory that is free now, as reported by the system and the control groups
// of this process. If the system does not report it, the budget has no limit.
func NewBudget(limit int64) *Budget {
	b := &Budget{limit: limit, free: -1}
	if free, ok := freeMemory(); ok {
		b.free = free
	}
	return b
}

// Reserve reserves bytes until Release. what names the purpose in a word or two; reservations with the same name are added up. If
// the limit would be exceeded, the budget does not change, and the error matches ErrMemory and lists the reservations.
func (b *Budget) Reserve(what string, bytes int64) error { return b.reserve(part{what, bytes}) }

// Fits checks whether bytes could be reserved, without reserving them.
func (b *Budget) Fits(what string, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.check(merge(b.parts, part{what, bytes}))
}

// Release releases bytes that were reserved under the name what.
func (b *Budget) Release(what string, bytes int64) { b.release(part{what, bytes}) }

func (b *Budget) reserve(parts ...part) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := merge(b.parts, parts...)
	if err := b.check(all); err != nil {
		return err
	}
	b.parts = all
	return nil
}

func (b *Budget) release(parts ...part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range parts {
		if i := slices.IndexFunc(b.parts, func(q part) bool { return q.what == p.what }); i >= 0 {
			b.parts[i].bytes = max(0, b.parts[i].bytes-p.bytes)
		}
	}
}

// largest returns the largest possible reservation in bytes, or 0 if unknown.
func (b *Budget) largest() int64 {
	if b == nil {
		b = NewBudget(0)
	}
	if b.limit > 0 {
		return b.limit
	}
	return max(b.free, 0)
}

// merge returns list with parts added to those of the same name.
func merge(list []part, parts ...part) []part {
	out := slices.Clone(list)
	for _, p := range parts {
		i := slices.IndexFunc(out, func(q part) bool { return q.what == p.what })
		if i < 0 {
			i, out = len(out), append(out, part{what: p.what})
		}
		out[i].bytes = sum(out[i].bytes, p.bytes)
	}
	return out
}

// sum returns a + b, which must not be negative, or the largest int64 if the sum overflows.
func sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func (b *Budget) check(parts []part) error {
	total, texts := int64(0), []string{}
	for _, p := range parts {
		total = sum(total, p.bytes)
		if p.bytes > 0 {
			texts = append(texts, p.what+" "+units.Bytes(p.bytes))
		}
	}
	tooMuch := func(has string, bytes int64) *diag.Error {
		return diag.New(device.ErrMemory, "", "needs %s (%s); "+has, units.Bytes(total), strings.Join(texts, ", "), units.Bytes(bytes))
	}
	switch {
	case b.limit > 0 && total > b.limit:
		return tooMuch("the budget allows %s", b.limit)
	case b.limit == 0 && b.free >= 0 && total > b.free:
		return tooMuch("%s is free", b.free).WithHint("a budget with a limit overrides this check")
	}
	return nil
}

// about sets the subject of an error that has none.
func about(subject string, err error) error {
	if e, ok := err.(*diag.Error); ok && e.Subject == "" {
		e.Subject = subject
	}
	return err
}
