package gpu

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// guard runs f, which calls the API, and returns its results. If the API aborts meanwhile, guard returns that error at once, and f may never end.
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

// panicked carries a panic of f to the goroutine that called guard, which panics again. A caller can recover that panic. It could not recover
// one on the goroutine that guard starts.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// caught is for defer. It recovers a panic and stores it in *err, as an error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &panicked{v, debug.Stack()}
	}
}
