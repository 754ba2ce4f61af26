//go:build cgo && (darwin || amd64)

package backend

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestKeepCallbacks checks that no garbage is collected while callbacks are kept, even if the heap exceeds GOMEMLIMIT.
// After the last user the old settings apply.
func TestKeepCallbacks(t *testing.T) {
	const limit = 1 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	percent := debug.SetGCPercent(77)
	defer debug.SetGCPercent(percent)
	collections := func() uint32 {
		var kept [][]byte
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 64 {
			kept = append(kept, make([]byte, 1<<20))
		}
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(kept)
		return after.NumGC - before.NumGC
	}
	first, second := keepCallbacks(), keepCallbacks()
	first()
	if n := collections(); n > 0 {
		t.Errorf("%d collections", n)
	}
	second()
	if collections() == 0 {
		t.Error("nothing is collected afterwards: the test shows nothing")
	}
	if l := debug.SetMemoryLimit(-1); l != limit {
		t.Errorf("the limit is %d afterwards", l)
	}
	if p := debug.SetGCPercent(77); p != 77 {
		t.Errorf("the percentage is %d afterwards", p)
	}
}
