package peakrss

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var getMemoryInfo = windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")

// counters is PROCESS_MEMORY_COUNTERS.
type counters struct {
	size       uint32
	pageFaults uint32
	peak       uintptr
	others     [7]uintptr
}

// Own returns the peak resident size of this process in bytes, 0 if the system does not report it.
func Own() int64 { return OfHandle(windows.CurrentProcess()) }

// OfHandle returns the peak resident size of a live process in bytes, 0 if it is unknown.
func OfHandle(process windows.Handle) int64 {
	c := counters{size: uint32(unsafe.Sizeof(counters{}))}
	if getMemoryInfo.Find() != nil {
		return 0
	}
	if ok, _, _ := getMemoryInfo.Call(uintptr(process), uintptr(unsafe.Pointer(&c)), uintptr(c.size)); ok == 0 {
		return 0
	}
	return int64(c.peak)
}
