//go:build cgo && (darwin || amd64)

package backend

import (
	"math"
	"runtime/debug"
	"sync"
)

// The binding keeps the address of a Go variable in C until a buffer is mapped or a submission has ended, and does not keep
// the variable alive. So there is no collection meanwhile: neither because the heap has grown, nor because it is larger than
// GOMEMLIMIT.
var callbacks struct {
	sync.Mutex
	users   int
	limit   int64 // of memory, when there are no users
	percent int   // of the garbage collector, then
}

// keepCallbacks holds garbage collection off until the function that it returns is called.
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
