package gpu

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// guard calls f on another goroutine and returns its results. If the API aborts meanwhile, guard returns the API's
// error at once, and f may never return.
func guard[T any](api API, f func() (T, error)) (T, error) {
	aborted, why := api.Aborted()
	type result struct {
		value T
		err   error
	}
	var none T
	select {
	case <-aborted:
		return none, why()
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
		return none, why()
	}
}

// panicked is the value of a panic, as an error. guard passes a panic of f to the goroutine of its caller, where it can
// be recovered, and panics again there.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// caught recovers a panic and stores it in *err. It must be deferred.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &panicked{v, debug.Stack()}
	}
}
