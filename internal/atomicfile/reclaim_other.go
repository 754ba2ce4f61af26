//go:build !unix && !windows

package atomicfile

// reclaim does nothing: without locks it cannot tell whether the file is in use.
func reclaim(string) {}
