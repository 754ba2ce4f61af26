//go:build linux || darwin

package wire

import (
	"os"

	"golang.org/x/sys/unix"
)

// Granularity returns the number of bytes of which each offset of a mapping in its file must be a multiple.
func Granularity() int64 { return int64(os.Getpagesize()) }

// Map maps size bytes of f at offset. size must be positive, and offset a multiple of Granularity.
func Map(f *os.File, offset, size int64, writable bool) ([]byte, error) {
	access := unix.PROT_READ
	if writable {
		access |= unix.PROT_WRITE
	}
	return unix.Mmap(int(f.Fd()), offset, int(size), access, unix.MAP_SHARED)
}

// MapMemory maps size zeroed bytes without a file. Only pages that are touched take memory. size must be positive.
func MapMemory(size int64) ([]byte, error) {
	return unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// Unmap unmaps what Map or MapMemory returned.
func Unmap(b []byte) { _ = unix.Munmap(b) }
