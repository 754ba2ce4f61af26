package main

import (
	"errors"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/budget"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/units"
)

// memory is the budget of a compilation.
type memory struct{ *budget.Budget }

// newMemory returns the budget for the value of --memory; empty means the memory that is free.
func newMemory(size string) (memory, error) {
	limit := int64(0)
	if size != "" {
		var ok bool
		if limit, ok = units.ParseBytes(size); !ok {
			return memory{}, cli.Usagef("--memory "+size, "is not a size such as 300M, 1.5G or 2Gi")
		}
	}
	return memory{budget.New(limit)}, nil
}

// Reserve implements pass.Memory. Its errors name the flag.
func (m memory) Reserve(what string, bytes int64) error {
	err := m.Budget.Reserve(budget.Part{What: what, Bytes: bytes})
	if e, ok := errors.AsType[*diag.Error](err); ok {
		e.Msg = strings.Replace(e.Msg, "the budget allows", "--memory allows", 1)
		e.Hint = strings.Replace(e.Hint, "a budget with a limit", "--memory SIZE", 1)
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
