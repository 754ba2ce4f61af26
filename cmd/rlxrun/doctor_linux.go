package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unconfined names what would confine backends, for machines on which nothing does.
const unconfined = "Linux 5.13 with landlock among the modules of /sys/kernel/security/lsm confines backends to their files"

// systemName returns the names of the distribution and of the kernel.
func systemName() string {
	var parts []string
	if name := value("/etc/os-release", "PRETTY_NAME", "="); name != "" {
		parts = append(parts, strings.Trim(name, `"`))
	}
	if release := firstLine("/proc/sys/kernel/osrelease"); release != "" {
		parts = append(parts, "kernel "+release)
	}
	return strings.Join(parts, ", ")
}

func processorName() string { return value("/proc/cpuinfo", "model name", ":") }

// memory returns the machine's memory and the free part of it, in bytes; 0 if unknown.
func memory() (total, free int64) { return kilobytes("MemTotal"), kilobytes("MemAvailable") }

// kilobytes returns a line of /proc/meminfo in bytes, or 0 if the line is missing.
func kilobytes(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(value("/proc/meminfo", name, ":"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n * 1024
}

func hugePagesFinding() (finding, bool) {
	const file = "/sys/kernel/mm/transparent_hugepage/enabled"
	line := firstLine(file)
	if line == "" {
		return finding{}, false
	}
	x := finding{"huge pages", stateOK, line, ""}
	if strings.Contains(line, "[never]") {
		x.State, x.Do = stateNote, "large models run faster with them: echo madvise | sudo tee "+file
	}
	return x, true
}

// driverState describes the GPUs that the system knows, and what to do.
func driverState() (found, do string) {
	var nodes, closed []string
	for _, pattern := range []string{"/dev/dri/renderD*", "/dev/nvidia[0-9]*"} {
		match, _ := filepath.Glob(pattern) // the patterns are valid
		nodes = append(nodes, match...)
	}
	for _, n := range nodes {
		f, err := os.OpenFile(n, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			closed = append(closed, n)
		}
		if err == nil {
			f.Close()
		}
	}
	var icds []string
	for _, dir := range []string{"/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"} {
		match, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		icds = append(icds, match...)
	}
	found = "no backend has a GPU; device files: " + listed(nodes) + "; Vulkan drivers: " + listed(icds)
	switch {
	case len(closed) > 0:
		return found, "your user may not open " + strings.Join(closed, ", ") +
			": sudo usermod -aG render $USER, and log in again"
	case len(nodes) > 0:
		return found, "install the GPU's Vulkan driver (NVIDIA: the proprietary driver with libnvidia-gl; AMD and Intel: mesa-vulkan-drivers), and the wgpu backend"
	}
	return found, "the kernel shows no GPU; the cpu backend runs all models"
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// firstLine returns the first line of a small file, or "".
func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Scan()
	return strings.TrimSpace(s.Text())
}

// value returns the text after the first line's name and separator in a file of such lines, or "".
func value(path, name, separator string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), separator); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
