//go:build !linux && !darwin && !windows

package atomicfile

func freeSpace(string) (bytes int64, ok bool) { return 0, false }
