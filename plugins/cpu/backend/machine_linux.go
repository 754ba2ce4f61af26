package backend

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// allocate maps n bytes of zeroed memory and returns a function that unmaps it. Anonymous memory takes physical pages
// only where it is touched. Huge pages save the kernels most of their TLB misses.
func allocate(n int64) ([]byte, func(), error) {
	if n == 0 {
		return nil, nil, nil
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // works without, only slower
	return b, func() { _ = unix.Munmap(b) }, nil
}

func physicalMemory() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return int64(s.Totalram) * int64(s.Unit)
}

func processorName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				return strings.TrimSpace(v)
			}
		}
	}
	return "processor"
}
