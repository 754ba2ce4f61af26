//go:build linux || darwin

package wire

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewWeights is memory for weights that replace those of the artifact, each at its offset in the space of the weights.
// Only the host writes to it. Only what is written takes memory, so it may be as large as that space.
type NewWeights struct {
	File *os.File
	Data []byte // nil until the size is known
}

// MakeNewWeights creates the memory on the host, without any bytes. So the backend can inherit it before it is needed.
func MakeNewWeights() (*NewWeights, error) {
	f, err := NewMemfd("rlx-weights", 0)
	if err != nil {
		return nil, err
	}
	return &NewWeights{File: f}, nil
}

// Grow sets the size in bytes. It may be called only once.
func (w *NewWeights) Grow(size int64) error {
	err := w.File.Truncate(size)
	if err == nil {
		w.Data, err = unix.Mmap(int(w.File.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		sealWrites(w.File) // now, because the host's own mapping stays writable
		err = sealShape(w.File)
	}
	return err
}

// Close unmaps and closes the memory. w may be nil.
func (w *NewWeights) Close() {
	if w == nil {
		return
	}
	if w.Data != nil {
		unix.Munmap(w.Data)
		w.Data = nil
	}
	w.File.Close()
}

// MapNewWeights maps the memory that a backend inherited in f, read-only. It must have at least size bytes.
func MapNewWeights(f *os.File, size int64) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < size || st.Size() == 0 || !isSealed(f) {
		return nil, fmt.Errorf("the memory for new weights has %d bytes, sealed %v; want at least %d, sealed", st.Size(),
			isSealed(f), size)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping new weights: %w", err)
	}
	return b, nil
}
