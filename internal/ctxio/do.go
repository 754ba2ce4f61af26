package ctxio

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Do calls f on its own goroutine and returns its results. If ctx ends first, Do returns the cause of ctx at once and
// abandons f. f may go on, so it must not touch data that the caller uses afterwards. If an abandoned f succeeds, late,
// if not nil, gets its result, for example to close a file. phase names the work, for Phases.
//
// Use Do for work that takes long and does not look at a context, such as a compilation.
func Do[T any](ctx context.Context, phase string, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		v        T
		err      error
		panicked *Panic
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	ended := make(chan result)
	go func() {
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.panicked = &Panic{v, debug.Stack()}
			}
			select {
			case ended <- r:
			case <-ctx.Done():
				if r.panicked == nil && r.err == nil && late != nil {
					late(r.v)
				}
			}
		}()
		if hook, ok := ctx.Value(phases{}).(func(string)); ok {
			hook(phase)
		}
		r.v, r.err = f()
	}()
	select {
	case r := <-ended:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.v, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Panic is the value with which Do panics if f does.
type Panic struct {
	Value any
	Stack []byte // of f
}

func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// Run is Do for work that has no result.
func Run(ctx context.Context, phase string, f func() error) error {
	_, err := Do(ctx, phase, func() (struct{}, error) { return struct{}{}, f() }, nil)
	return err
}

type phases struct{}

// Phases returns a context with which Do calls hook at the beginning of each phase, on the phase's goroutine. Tests
// cancel a command in a phase that they hold there.
func Phases(ctx context.Context, hook func(phase string)) context.Context {
	return context.WithValue(ctx, phases{}, hook)
}
