// Package budget reserves memory before it is allocated. The runtime and the compiler use it.
package budget

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/units"
)

// Names of the limit in errors; see diag.Error.Options.
const (
	Option    = "rlx.Budget"
	AnyOption = "an rlx.Budget with a limit"
)

// A Budget limits the memory of a process and of those that it starts. A reservation beyond the limit fails. Goroutines
// may share a budget.
type Budget struct {
	mu    sync.Mutex
	limit int64  // 0 means the memory in free
	free  int64  // free memory when the budget was made; negative if the system does not report it
	parts []Part // with distinct names
}

// A Part is the memory for one purpose, in bytes.
type Part struct {
	What  string
	Bytes int64
}

// New returns a budget of limit bytes. 0 means the memory that is free now, as reported by the system and the control
// groups of this process. If the system does not report it, the budget has no limit.
func New(limit int64) *Budget {
	free, ok := freeMemory()
	if !ok {
		free = -1
	}
	return With(limit, free)
}

// With is New with the memory that is free, which is negative if it is unknown.
func With(limit, free int64) *Budget { return &Budget{limit: limit, free: free} }

// Limited reports whether the budget was made with a limit.
func (b *Budget) Limited() bool { return b.limit > 0 }

// Reserved returns the bytes that are reserved.
func (b *Budget) Reserved() (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.parts {
		n = Sum(n, p.Bytes)
	}
	return n
}

// Fits checks whether parts could be reserved, without reserving them.
func (b *Budget) Fits(parts ...Part) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.check(Merge(b.parts, parts...))
}

// Reserve reserves memory until Release. Parts of the same name are added up. If the limit would be exceeded, the
// budget does not change, and the error has code device.ErrMemory and lists the parts.
func (b *Budget) Reserve(parts ...Part) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := Merge(b.parts, parts...)
	if err := b.check(all); err != nil {
		return err
	}
	b.parts = all
	return nil
}

// Release releases memory that was reserved.
func (b *Budget) Release(parts ...Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range parts {
		if i := slices.IndexFunc(b.parts, func(q Part) bool { return q.What == p.What }); i >= 0 {
			b.parts[i].Bytes = max(0, b.parts[i].Bytes-p.Bytes)
		}
	}
}

// Largest returns the largest possible reservation in bytes, or 0 if unknown.
func (b *Budget) Largest() int64 {
	if b.limit > 0 {
		return b.limit
	}
	return max(b.free, 0)
}

// Merge returns list with parts added to those of the same name.
func Merge(list []Part, parts ...Part) []Part {
	out := slices.Clone(list)
	for _, p := range parts {
		i := slices.IndexFunc(out, func(q Part) bool { return q.What == p.What })
		if i < 0 {
			i, out = len(out), append(out, Part{What: p.What})
		}
		out[i].Bytes = Sum(out[i].Bytes, p.Bytes)
	}
	return out
}

// Sum returns a + b, which must not be negative, or the largest int64 if the sum overflows.
func Sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func (b *Budget) check(parts []Part) error {
	total, texts := int64(0), []string{}
	for _, p := range parts {
		total = Sum(total, p.Bytes)
		if p.Bytes > 0 {
			texts = append(texts, p.What+" "+units.Bytes(p.Bytes))
		}
	}
	tooMuch := func(has string, bytes int64) *diag.Error {
		return diag.New(device.ErrMemory, "", "needs %s (%s); "+has, units.Bytes(total), strings.Join(texts, ", "),
			units.Bytes(bytes))
	}
	switch {
	case b.limit > 0 && total > b.limit:
		return tooMuch(Option+" allows %s", b.limit).Naming(Option)
	case b.limit == 0 && b.free >= 0 && total > b.free:
		return tooMuch("%s is free", b.free).WithHint("%s overrides this check", AnyOption).Naming(AnyOption)
	}
	return nil
}
