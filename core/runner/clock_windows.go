package runner

import (
	"math/bits"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

var (
	kernel  = syscall.NewLazyDLL("kernel32.dll") // always loaded
	counter = kernel.NewProc("QueryPerformanceCounter")
	second  = sync.OnceValue(func() uint64 {
		var n uint64
		kernel.NewProc("QueryPerformanceFrequency").Call(uintptr(unsafe.Pointer(&n)))
		return max(n, 1)
	})
)

// clock returns the time since some moment. The clock of package time advances in steps of half a millisecond and more
// on Windows, which is longer than most steps of a program.
func clock() time.Duration {
	var n uint64
	counter.Call(uintptr(unsafe.Pointer(&n))) // cannot fail since Windows XP
	high, low := bits.Mul64(n, uint64(time.Second))
	q, _ := bits.Div64(high%second(), low, second())
	return time.Duration(q)
}
