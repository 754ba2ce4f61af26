package sysmem

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// status is MEMORYSTATUSEX, with sizes in bytes. A commitment is memory that a process has asked for, touched or not.
type status struct {
	length, load            uint32
	total, free             uint64
	totalCommit, freeCommit uint64
	others                  [3]uint64
}

// Read returns the machine's memory, and what of it can still be allocated, in bytes. ok is false if it is unknown.
func Read() (total, free int64, ok bool) {
	s := status{length: uint32(unsafe.Sizeof(status{}))}
	if done, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s))); done == 0 {
		return 0, 0, false
	}
	return int64(s.total), int64(min(s.free, s.freeCommit)), true
}
