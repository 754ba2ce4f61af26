//go:build linux || darwin || windows

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rlx-go/rlx/core/tensor"
)

// The shared region is one file: a header for heartbeats, followed by the program's IO space. spec/protocol.md defines
// the layout. Neither side trusts its contents: sizes and offsets are sent in messages.
const (
	RegionHeader  = 64 << 10 // size of the header in bytes, a multiple of every Granularity
	regionMagic   = "RLXIOREG"
	regionVersion = 1

	// Indices of 8-byte words that only the backend writes. The heartbeat has a cache line of its own.
	WordBeat       = 64 / 8  // the heartbeat, a counter
	WordGeneration = 128 / 8 // generation of the last run that has begun; 0 before the first
	WordSteps      = 136 / 8 // number of steps of that run that have started
	// The first of ReadyOutputs words, one for each output of that run: how many of its bytes the region has already.
	WordReady    = 1024 / 8
	ReadyOutputs = 256
)

// Region is one side's mapping of the shared region.
type Region struct {
	mu     sync.RWMutex // prevents reads of the header after unmapping
	File   *os.File
	Header []byte
	words  []int64
	Data   []byte // nil until the size is known
}

// NewRegion creates the region on the host, with only the header. So the backend can be started before the program is
// known. Grow sets the final size.
func NewRegion() (*Region, error) {
	f, err := newShared("rlx-io")
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(RegionHeader); err == nil {
		err = sealShrink(f)
	}
	var r *Region
	if err == nil {
		r, err = mapHeader(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	copy(r.Header, regionMagic)
	binary.LittleEndian.PutUint32(r.Header[8:], regionVersion)
	binary.LittleEndian.PutUint32(r.Header[12:], RegionHeader)
	return r, nil
}

// OpenRegion maps the header of the region that this process inherited in f.
func OpenRegion(f *os.File) (*Region, error) {
	r, err := mapHeader(f)
	if err == nil && !bytes.HasPrefix(r.Header, []byte(regionMagic)) {
		err = errors.New("the io descriptor is not a shared region")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// mapHeader maps the header of the region in f.
func mapHeader(f *os.File) (*Region, error) {
	b, err := Map(f, 0, RegionHeader, true)
	if err != nil {
		return nil, fmt.Errorf("mapping the shared region: %w", err)
	}
	return &Region{File: f, Header: b, words: tensor.View[int64](b)}, nil
}

// Grow sets the size of the data part, in bytes. It may be called only once.
func (r *Region) Grow(size int64) error {
	if err := r.File.Truncate(RegionHeader + size); err != nil {
		return err
	}
	if err := sealShape(r.File); err != nil {
		return err
	}
	return r.MapData(size)
}

// MapData maps the data part of a region whose size is final.
func (r *Region) MapData(size int64) error {
	st, err := r.File.Stat()
	if err != nil {
		return err
	}
	if st.Size() != RegionHeader+size || !isSealed(r.File) {
		return fmt.Errorf("shared region has %d bytes, sealed %v; want %d, sealed", st.Size(), isSealed(r.File),
			RegionHeader+size)
	}
	if size == 0 {
		r.Data = []byte{}
		return nil
	}
	b, err := Map(r.File, RegionHeader, size, true)
	if err != nil {
		return fmt.Errorf("mapping the shared region: %w", err)
	}
	r.Data = b
	return nil
}

// Close unmaps the region. Data must not be used afterwards. Load returns 0.
func (r *Region) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.words == nil {
		return
	}
	r.words = nil
	Unmap(r.Header)
	if len(r.Data) > 0 {
		Unmap(r.Data)
	}
	r.Header, r.Data = nil, nil
	r.File.Close()
}

// Load returns a word of the header, or 0 if the region is closed or nil.
func (r *Region) Load(word int) int64 {
	if r == nil {
		return 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.words == nil {
		return 0
	}
	return atomic.LoadInt64(&r.words[word])
}

// Store writes a word of the header. Only backends call it.
func (r *Region) Store(word int, v int64) {
	if r != nil {
		atomic.StoreInt64(&r.words[word], v)
	}
}
