//go:build linux || darwin

package server

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// mapping is memory of this process: a read-only mapping of part of a file, or memory without a file.
type mapping struct {
	whole []byte
	data  []byte // the requested part
}

// errOutside is the error of mapFile for a range that is empty or not inside the file.
var errOutside = errors.New("want a range inside it")

// mapFile maps size bytes of f at offset, read-only. offset need not be a multiple of the page size.
func mapFile(f *os.File, offset, size int64) (*mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !wire.InRange(offset, size, st.Size()) || size == 0 {
		return nil, fmt.Errorf("%d bytes at %d of an artifact of %d bytes: %w", size, offset, st.Size(), errOutside)
	}
	lead := offset % int64(os.Getpagesize())
	b, err := unix.Mmap(int(f.Fd()), offset-lead, int(size+lead), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	adviseHuge(b)
	return &mapping{b, b[lead:]}, nil
}

// mapMemory maps size zeroed bytes without a file. size must be positive.
func mapMemory(size int64) (*mapping, error) {
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	return &mapping{b, b}, nil
}

func (m *mapping) close() {
	if m != nil && m.whole != nil {
		unix.Munmap(m.whole)
		m.whole, m.data = nil, nil
	}
}
