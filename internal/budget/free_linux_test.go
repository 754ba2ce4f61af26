package budget

import (
	"testing"
	"testing/fstest"
)

// TestFreeMemory uses files as Linux writes them (proc_meminfo(5), cgroups(7), the kernel's cgroup-v2 document).
func TestFreeMemory(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const meminfo = "MemTotal:       16384000 kB\nMemFree:         1000 kB\nMemAvailable:    8000000 kB\n"
	for _, c := range []struct {
		name string
		fs   fstest.MapFS
		want int64
		ok   bool
	}{
		{"nothing known", fstest.MapFS{}, 1<<63 - 1, false},
		{"no groups", fstest.MapFS{"proc/meminfo": file(meminfo)}, 8000000 << 10, true},
		{"version 2, limit of an ancestor", fstest.MapFS{
			"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/user.slice/job\n"),
			"sys/fs/cgroup/user.slice/job/memory.max":     file("max\n"),
			"sys/fs/cgroup/user.slice/job/memory.current": file("5\n"),
			"sys/fs/cgroup/user.slice/memory.max":         file("1000000\n"),
			"sys/fs/cgroup/user.slice/memory.current":     file("400000\n"),
			"sys/fs/cgroup/user.slice/memory.stat":        file("anon 1\ninactive_file 100000\n")}, 700000, true},
		{"version 2, the container's own root", fstest.MapFS{
			"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("2000000\n"), "sys/fs/cgroup/memory.current": file("2500000\n")}, 0, true},
		{"version 1", fstest.MapFS{
			"proc/meminfo": file(meminfo), "proc/self/cgroup": file("7:cpu,cpuacct:/x\n4:memory:/box\n"),
			"sys/fs/cgroup/memory/box/memory.limit_in_bytes": file("3000000\n"),
			"sys/fs/cgroup/memory/box/memory.usage_in_bytes": file("1000000\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     file("9223372036854771712\n"),
			"sys/fs/cgroup/memory/memory.usage_in_bytes":     file("1\n")}, 2000000, true},
	} {
		if got, ok := freeMemoryIn(c.fs); got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, ok, c.want, c.ok)
		}
	}
	if n, ok := freeMemory(); !ok || n <= 0 {
		t.Errorf("this machine: %d, %v", n, ok)
	}
}
