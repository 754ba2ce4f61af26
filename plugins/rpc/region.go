//go:build linux || darwin

package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/tensor"
)

// The shared region is one file: a header for heartbeats, followed by the program's IO space. spec/protocol.md defines the layout. Neither
// side trusts its contents: sizes and offsets are sent in messages.
const (
	regionHeader  = 64 << 10 // size of the header in bytes, a multiple of every page size in use
	regionMagic   = "RLXIOREG"
	regionVersion = 1

	// Indices of 8-byte words that only the backend writes. The heartbeat has a cache line of its own.
	wordBeat       = 64 / 8  // the heartbeat, a counter
	wordGeneration = 128 / 8 // generation of the last run that has begun; 0 before the first
	wordSteps      = 136 / 8 // number of steps of that run that have started
)

// region is one side's mapping of the shared region.
type region struct {
	mu     sync.RWMutex // prevents reads of the header after unmapping
	file   *os.File
	header []byte
	words  []int64
	data   []byte // nil until the size is known
	dirty  spans  // the parts of data that may contain nonzero bytes; used only by the host, and guarded by its session's runSlot
}

// newRegion creates the region on the host, with only the header. So the backend can be started before the program is known. grow sets
// the final size.
func newRegion() (*region, error) {
	f, err := newMemfd("rlx-io", 0)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(regionHeader); err == nil {
		err = sealShrink(f)
	}
	var r *region
	if err == nil {
		r, err = mapHeader(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	copy(r.header, regionMagic)
	binary.LittleEndian.PutUint32(r.header[8:], regionVersion)
	binary.LittleEndian.PutUint32(r.header[12:], regionHeader)
	return r, nil
}

// mapHeader maps the header of the region in f.
func mapHeader(f *os.File) (*region, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, regionHeader, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the shared region: %w", err)
	}
	return &region{file: f, header: b, words: tensor.View[int64](b)}, nil
}

// grow sets the size of the data part, in bytes. It may be called only once.
func (r *region) grow(size int64) error {
	if err := r.file.Truncate(regionHeader + size); err != nil {
		return err
	}
	if err := sealShape(r.file); err != nil {
		return err
	}
	return r.mapData(size)
}

// mapData maps the data part of a region whose size is final.
func (r *region) mapData(size int64) error {
	st, err := r.file.Stat()
	if err != nil {
		return err
	}
	if st.Size() != regionHeader+size || !isSealed(r.file) {
		return fmt.Errorf("shared region has %d bytes, sealed %v; want %d, sealed", st.Size(), isSealed(r.file), regionHeader+size)
	}
	if size == 0 {
		r.data = []byte{}
		return nil
	}
	b, err := unix.Mmap(int(r.file.Fd()), regionHeader, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the shared region: %w", err)
	}
	r.data = b
	return nil
}

// close unmaps the region. data must not be used afterwards. load returns 0.
func (r *region) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.words == nil {
		return
	}
	r.words = nil
	unix.Munmap(r.header)
	if len(r.data) > 0 {
		unix.Munmap(r.data)
	}
	r.header, r.data = nil, nil
	r.file.Close()
}

// load returns a word of the header, or 0 if the region is closed or nil.
func (r *region) load(word int) int64 {
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

// store writes a word of the header. Only backends call it.
func (r *region) store(word int, v int64) {
	if r != nil {
		atomic.StoreInt64(&r.words[word], v)
	}
}

// mapping is memory of this process: a read-only mapping of part of a file, or memory without a file.
type mapping struct {
	whole []byte
	data  []byte // the requested part
}

// errOutside is the error for a range that is not inside a file.
var errOutside = errors.New("outside the file")

// mapFile maps size bytes of f at offset, read-only. offset need not be a multiple of the page size.
func mapFile(f *os.File, offset, size int64) (*mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !inRange(offset, size, st.Size()) || size == 0 {
		return nil, fmt.Errorf("%w: %d bytes at %d of a file of %d bytes", errOutside, size, offset, st.Size())
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
