package wire

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Granularity returns the number of bytes of which each offset of a mapping in its file must be a multiple. On Windows
// it is larger than a page.
func Granularity() int64 { return 64 << 10 }

// Map maps size bytes of f at offset. size must be positive, and offset a multiple of Granularity.
func Map(f *os.File, offset, size int64, writable bool) ([]byte, error) {
	protection, access := uint32(windows.PAGE_READONLY), uint32(windows.FILE_MAP_READ)
	if writable {
		protection, access = windows.PAGE_READWRITE, windows.FILE_MAP_WRITE
	}
	return view(windows.Handle(f.Fd()), protection, access, offset, size, 0)
}

// MapMemory maps size zeroed bytes without a file. size must be positive.
func MapMemory(size int64) ([]byte, error) {
	return view(windows.InvalidHandle, windows.PAGE_READWRITE, windows.FILE_MAP_WRITE, 0, size, size)
}

// view maps a part of a file, or of memory without a file if file is InvalidHandle. A mapping of limit 0 is as large as
// the file.
func view(file windows.Handle, protection, access uint32, offset, size, limit int64) ([]byte, error) {
	m, err := windows.CreateFileMapping(file, nil, protection, uint32(limit>>32), uint32(limit), nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(m) // the view keeps the mapping
	at, err := windows.MapViewOfFile(m, access, uint32(offset>>32), uint32(offset), uintptr(size))
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size), nil // not memory of Go's, so it does not move
}

// Unmap unmaps what Map or MapMemory returned.
func Unmap(b []byte) { _ = windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
