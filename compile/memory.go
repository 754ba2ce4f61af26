package compile

import (
	"errors"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/budget"
)

// memory is the budget of a compilation.
type memory struct{ *budget.Budget }

// newMemory returns a budget of limit bytes, or of the memory that is free if it is 0.
func newMemory(limit int64) memory { return memory{budget.New(limit)} }

// Reserve implements pass.Memory. Its errors name the flag.
func (m memory) Reserve(what string, bytes int64) error {
	err := m.Budget.Reserve(budget.Part{What: what, Bytes: bytes})
	if e, ok := errors.AsType[*diag.Error](err); ok {
		e.Rename(func(option string) string {
			if option == budget.AnyOption {
				return "--memory SIZE"
			}
			return "--memory"
		})
	}
	return err
}

// Release implements pass.Memory.
func (m memory) Release(what string, bytes int64) {
	m.Budget.Release(budget.Part{What: what, Bytes: bytes})
}

// aboutSource sets the subject of an error about memory.
func aboutSource(src string, err error) error {
	if e, ok := errors.AsType[*diag.Error](err); ok && errors.Is(e, device.ErrMemory) && e.Subject == "" {
		e.Subject = src
	}
	return err
}
