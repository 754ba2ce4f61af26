//go:build linux || darwin || windows

package wire

import (
	"fmt"
	"os"
)

// NewWeights is memory for weights that replace those of the artifact, each at its offset in the space of the weights.
// Only the host writes to it. Only pages that are written take memory, so it may be as large as that space.
type NewWeights struct {
	File *os.File
	Data []byte // nil until the size is known
}

// MakeNewWeights creates the memory on the host, without any bytes. So the backend can inherit it before it is needed.
func MakeNewWeights() (*NewWeights, error) {
	f, err := newShared("rlx-weights")
	if err != nil {
		return nil, err
	}
	return &NewWeights{File: f}, nil
}

// Grow sets the size in bytes. It may be called only once.
func (w *NewWeights) Grow(size int64) error {
	err := w.File.Truncate(size)
	if err == nil {
		w.Data, err = Map(w.File, 0, size, true)
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
		Unmap(w.Data)
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
	b, err := Map(f, 0, st.Size(), false)
	if err != nil {
		return nil, fmt.Errorf("mapping new weights: %w", err)
	}
	return b, nil
}
