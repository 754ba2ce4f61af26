//go:build cgo && (darwin || amd64)

package backend

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// guard runs f, which speaks to the library, and returns what it returns. When the library aborts, in f or elsewhere, that is
// the error; then f may never end.
func guard[T any](f func() (T, error)) (T, error) {
	watchAbort.Do(func() {
		catchAbort(func(said string) {
			abortError = explainAbort(said)
			close(aborted)
		})
	})
	type result struct {
		value T
		err   error
	}
	var none T
	select {
	case <-aborted:
		return none, abortError
	default:
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() { done <- r }()
		defer caught(&r.err)
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		if p := (*panicked)(nil); errors.As(r.err, &p) {
			panic(p.Error())
		}
		return r.value, r.err
	case <-aborted:
		return none, abortError
	}
}

// panicked is a panic on its way to the goroutine that asked for the work, where it goes on: what runs a call may recover it,
// and could not on a goroutine that the call started.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// caught makes a panic of the function that defers it the function's error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &panicked{v, debug.Stack()}
	}
}
