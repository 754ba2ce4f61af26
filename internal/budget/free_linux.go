package budget

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// freeMemory returns the memory that can still be allocated: MemAvailable of /proc/meminfo, or less if a control group
// of this process has a limit.
func freeMemory() (bytes int64, ok bool) { return freeMemoryIn(os.DirFS("/")) }

// freeMemoryIn is freeMemory with files below root.
func freeMemoryIn(root fs.FS) (bytes int64, ok bool) {
	free := int64(math.MaxInt64)
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err == nil {
		if kb, found := field(string(b), "MemAvailable:"); found {
			free, ok = kb<<10, true
		}
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "": // version 2
			for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
				if n, found := groupFree(root, "sys/fs/cgroup"+dir, "memory.max", "memory.current",
					"inactive_file"); found {
					free, ok = min(free, n), true
				}
				if dir == "/" {
					break
				}
			}
		case strings.Contains(","+parts[1]+",", ",memory,"): // version 1
			for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
				if n, found := groupFree(root, "sys/fs/cgroup/memory"+dir, "memory.limit_in_bytes",
					"memory.usage_in_bytes", "total_inactive_file"); found {
					free, ok = min(free, n), true
				}
				if dir == "/" {
					break
				}
			}
		}
	}
	return free, ok
}

// groupFree returns the limit of a group minus its use. File pages that the kernel would evict first count as free.
func groupFree(root fs.FS, dir, limit, usage, cached string) (int64, bool) {
	dir = path.Clean(dir)
	read := func(name string) (int64, bool) {
		b, err := fs.ReadFile(root, path.Join(dir, name))
		n, perr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		return n, err == nil && perr == nil // "max" is not a number and means no limit
	}
	most, ok := read(limit)
	used, ok2 := read(usage)
	if !ok || !ok2 || most >= 1<<60 {
		return 0, false
	}
	stat, _ := fs.ReadFile(root, path.Join(dir, "memory.stat"))
	if n, found := field(string(stat), cached); found {
		used -= n
	}
	return max(0, most-used), true
}

// field returns the number after a name at the start of a line.
func field(text, name string) (int64, bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
