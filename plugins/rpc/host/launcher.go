package host

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
)

// A Launcher starts backends for a long-lived host. Each start is a new session. If a backend crashes repeatedly before
// a run has succeeded, Start waits before it starts it again, and after maxCrashes within crashWindow it returns
// code.Quarantined. A backend that has worked is started again at once, so that a server goes on, however often its
// backend is killed. The zero Launcher is ready to use.
type Launcher struct {
	mu      sync.Mutex
	crashes map[string][]time.Time // times of the crashes within crashWindow, by absolute path

	start func(context.Context, Options) (*Session, error) // replaced by tests
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// backoff is the pause before a start, indexed by the number of crashes within crashWindow.
var backoff = [maxCrashes]time.Duration{0, 100 * time.Millisecond, 500 * time.Millisecond}

const (
	crashWindow = time.Minute
	maxCrashes  = 3
)

// Start starts a session. It pauses first if the same file has crashed recently.
func (l *Launcher) Start(ctx context.Context, opts Options) (*Session, error) {
	start, now, sleep := l.start, l.now, l.sleep
	if start == nil {
		start, now, sleep = Start, time.Now, sleepFor
	}
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		path = opts.Path
	}
	n, oldest := l.recent(path, now())
	if n >= maxCrashes {
		return nil, lost(code.Quarantined, "backend "+opts.backendName(), "%s crashed %d times within %v", path, n,
			crashWindow).
			WithHint("it can be started again in %v", (crashWindow - now().Sub(oldest)).Round(time.Second))
	}
	if err := sleep(ctx, backoff[n]); err != nil {
		return nil, interrupted("backend "+opts.backendName(), ctx)
	}
	s, err := start(ctx, opts)
	if err != nil {
		l.note(path, now(), err)
		return nil, err
	}
	go func() {
		if <-s.Done(); !s.worked.Load() {
			l.note(path, now(), s.Err())
		}
	}()
	return s, nil
}

// recent returns the number of crashes within crashWindow and the time of the oldest.
func (l *Launcher) recent(path string, now time.Time) (n int, oldest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.crashes[path][:0]
	for _, t := range l.crashes[path] {
		if now.Sub(t) < crashWindow {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 {
		delete(l.crashes, path)
		return 0, now
	}
	l.crashes[path] = kept
	return len(kept), kept[0]
}

// note records a crash if err shows that the backend ended the session.
func (l *Launcher) note(path string, now time.Time, err error) {
	if err == nil || !errors.Is(err, device.ErrLost) {
		return
	}
	for _, c := range []diag.Code{code.Closed, code.NotPlugin, code.Digest, code.Version, code.Host, code.Platform,
		code.Sandbox} {
		if errors.Is(err, c) {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.crashes == nil {
		l.crashes = map[string][]time.Time{}
	}
	l.crashes[path] = append(l.crashes[path], now)
}

func sleepFor(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
