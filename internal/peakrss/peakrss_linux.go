package peakrss

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Own returns the peak resident size of this process in bytes, 0 if the system does not report it.
func Own() int64 { return Of(os.Getpid()) }

// Of returns the peak resident size of a live process in bytes, 0 if it is unknown. It does not use getrusage or wait,
// because their peak includes the parent's memory before exec.
func Of(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(v), []byte("kB")))), 10,
				64)
			return n << 10
		}
	}
	return 0
}
