//go:build cgo && (darwin || amd64)

package backend

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// guard runs f, which calls the library, and returns its results. If the library aborts, in f or elsewhere, guard returns that as
// an error, and f may never end.
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

// panicked carries a panic to the goroutine that called guard, which raises it again. There a caller may recover it; on a goroutine
// that guard started it could not.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// caught turns a panic of the function that defers it into the function's error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &panicked{v, debug.Stack()}
	}
}
