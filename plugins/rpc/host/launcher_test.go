//go:build linux || darwin

package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

func TestLauncher(t *testing.T) {
	t.Parallel()
	now, fails := time.Unix(0, 0), error(lost(code.Crashed, "b", "x"))
	var pauses []time.Duration
	l := &Launcher{
		now:   func() time.Time { return now },
		sleep: func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil },
		start: func(context.Context, Options) (*Session, error) { return nil, fails },
	}
	pace := time.Second
	start := func() error {
		_, err := l.Start(t.Context(), Options{Path: "/b", Name: "b"})
		now = now.Add(pace)
		return err
	}
	for range 3 {
		wantCode(t, start(), code.Crashed)
	}
	wantCode(t, start(), code.Quarantined, "/b crashed 3 times within 1m0s", "can be started again in 57s")
	if _, err := l.Start(t.Context(), Options{Path: "/c"}); !errors.Is(err, code.Crashed) {
		t.Errorf("another backend: %v", err)
	}
	now, pace = time.Unix(60, 0), time.Millisecond // the first crash is a minute old, the others are not
	wantCode(t, start(), code.Crashed)
	wantCode(t, start(), code.Quarantined)
	if got, want := fmt.Sprint(pauses), "[0s 100ms 500ms 0s 500ms]"; got != want {
		t.Errorf("pauses %s; want %s", got, want)
	}
	now = time.Unix(200, 0)
	for _, e := range []error{lost(code.Version, "b", "x"), lost(code.Closed, "b", "x"),
		diag.New(diag.Interrupted, "b", "x")} {
		fails = e
		for range 4 { // the error is not the fault of the backend, so it is never quarantined
			if err := start(); !errors.Is(err, e) {
				t.Errorf("%v; want %v", err, e)
			}
		}
	}
}

func TestLauncherSession(t *testing.T) {
	t.Parallel()
	var l Launcher
	opts, _ := testOptions(t, "kill@run:1")
	s, err := l.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := runOnce(t.Context(), t, s, 1); !errors.Is(err, code.Crashed) {
		t.Fatal(err)
	}
	for n := 0; n == 0; n, _ = l.recent(opts.Path, time.Now()) {
		time.Sleep(time.Millisecond)
	}
}
