//go:build cgo && (darwin || amd64)

package backend

import (
	"math"
	"runtime/debug"
	"sync"
)

// The Go binding of the library hands the address of a Go variable to C and does not keep the variable alive. C uses
// the address until a buffer is mapped or a submission has ended. So garbage collection is off during that time.
var callbacks struct {
	sync.Mutex
	users   int
	limit   int64 // GOMEMLIMIT, to be restored
	percent int   // GOGC, to be restored
}

// keepCallbacks turns garbage collection off until the caller calls end.
func keepCallbacks() (end func()) {
	callbacks.Lock()
	defer callbacks.Unlock()
	if callbacks.users++; callbacks.users == 1 {
		callbacks.limit = debug.SetMemoryLimit(math.MaxInt64)
		callbacks.percent = debug.SetGCPercent(-1) // waits for a collection that is under way
	}
	return func() {
		callbacks.Lock()
		defer callbacks.Unlock()
		if callbacks.users--; callbacks.users == 0 {
			debug.SetGCPercent(callbacks.percent)
			debug.SetMemoryLimit(callbacks.limit)
		}
	}
}
