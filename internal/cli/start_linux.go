package cli

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processStart returns when the kernel started this process, to within a clock tick (10 ms). See proc_pid_stat(5),
// field 22: ticks since boot.
func processStart() (time.Time, bool) {
	const ticks = 100 // USER_HZ, the same on every Linux that Go supports
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return time.Time{}, false
	}
	// Field 2 is the name in parentheses. It may contain anything, even blanks.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(string(f[19]), 10, 64)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Time{}, false
	}
	age := time.Duration(now.Nano()) - time.Duration(n)*(time.Second/ticks)
	return time.Now().Add(-age), age >= 0
}
