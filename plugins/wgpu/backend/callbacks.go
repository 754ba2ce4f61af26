//go:build cgo && (darwin || amd64)

package backend

import (
	"runtime/debug"
	"sync"
)

// The binding keeps the address of a Go variable in C until a buffer is mapped or a submission has ended, and does not keep
// the variable alive. So no collection may begin meanwhile; one that is under way spares what is allocated during it.
var callbacks struct {
	sync.Mutex
	users   int
	percent int // of the garbage collector, when there are none
}

// keepCallbacks holds garbage collection off until the function that it returns is called.
func keepCallbacks() (end func()) {
	callbacks.Lock()
	defer callbacks.Unlock()
	if callbacks.users++; callbacks.users == 1 {
		callbacks.percent = debug.SetGCPercent(-1)
	}
	return func() {
		callbacks.Lock()
		defer callbacks.Unlock()
		if callbacks.users--; callbacks.users == 0 {
			debug.SetGCPercent(callbacks.percent)
		}
	}
}
