//go:build linux || darwin || windows

package server

import (
	"errors"
	"fmt"
	"os"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// mapping is memory of this process: a read-only mapping of part of a file, or memory without a file.
type mapping struct {
	whole []byte
	data  []byte // the requested part
}

// errOutside is the error of mapFile for a range that is empty or not inside the file.
var errOutside = errors.New("want a range inside it")

// mapFile maps size bytes of f at offset, read-only. offset need not be a multiple of wire.Granularity.
func mapFile(f *os.File, offset, size int64) (*mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !wire.InRange(offset, size, st.Size()) || size == 0 {
		return nil, fmt.Errorf("%d bytes at %d of an artifact of %d bytes: %w", size, offset, st.Size(), errOutside)
	}
	lead := offset % wire.Granularity()
	b, err := wire.Map(f, offset-lead, size+lead, false)
	if err != nil {
		return nil, err
	}
	adviseHuge(b)
	return &mapping{b, b[lead:]}, nil
}

// mapMemory maps size zeroed bytes without a file. size must be positive.
func mapMemory(size int64) (*mapping, error) {
	b, err := wire.MapMemory(size)
	if err != nil {
		return nil, err
	}
	return &mapping{b, b}, nil
}

func (m *mapping) close() {
	if m != nil && m.whole != nil {
		wire.Unmap(m.whole)
		m.whole, m.data = nil, nil
	}
}
