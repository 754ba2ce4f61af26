package gpu

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// phases receives how long the phases of a start take; nil for nothing.
var phases atomic.Pointer[slog.Logger]

// began is about when the process started.
var began = time.Now()

// LogPhases makes Phase log to l.
func LogPhases(l *slog.Logger) { phases.Store(l) }

// Phase begins a phase of opening a device or loading a program. Its end logs at level debug how long it took, and how
// long after the start of the process it ended. rlxrun --log debug shows that.
func Phase(name string, args ...any) (end func()) {
	l := phases.Load()
	if l == nil || !l.Enabled(context.Background(), slog.LevelDebug) {
		return func() {}
	}
	from := time.Now()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	return func() {
		now := time.Now()
		l.Debug(name, append(args, slog.Float64("ms", ms(now.Sub(from))),
			slog.Float64("ended_ms", ms(now.Sub(began))))...)
	}
}
