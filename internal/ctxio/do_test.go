package ctxio

import (
	"context"
	"errors"
	"testing"
)

// TestDo checks that work which never ends does not hold its caller once the context has ended, and that a late result
// is handed over.
func TestDo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	begun, release, late := make(chan string, 1), make(chan struct{}), make(chan int, 1)
	go func() {
		<-begun
		cancel(errTold)
	}()
	v, err := Do(Phases(ctx, func(phase string) { begun <- phase }), "work",
		func() (int, error) { <-release; return 7, nil }, func(v int) { late <- v })
	if v != 0 || !errors.Is(err, errTold) {
		t.Errorf("%d, %v", v, err)
	}
	close(release)
	if v := <-late; v != 7 {
		t.Errorf("late result %d", v)
	}
	if v, err := Do(t.Context(), "work", func() (int, error) { return 3, nil }, nil); v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	broken := errors.New("broken")
	if err := Run(t.Context(), "work", func() error { return broken }); err != broken {
		t.Error(err)
	}
	defer func() {
		if p, ok := recover().(*Panic); !ok || p.Value != "bug" || len(p.Stack) == 0 {
			t.Error("the panic of the work did not reach its caller")
		}
	}()
	Run(t.Context(), "work", func() error { panic("bug") })
}
