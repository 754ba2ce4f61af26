package gpu

import (
	"errors"
	"runtime"
	"time"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// space is a range of device memory in one or more buffers. All buffers but the last have the same size.
type space struct {
	buffers []Buffer
	size    int64  // of each buffer but the last
	bytes   int64  // of all buffers together
	host    []byte // memory of the host that the buffers lie over; nil if they have memory of their own
}

// slack is the number of extra bytes at the end of a space. Empty values at the end of a space are bound to them.
const slack = program.Align

// planSpace divides a space into buffers. make allocates them.
func (g *gpu) planSpace(bytes int64) *space {
	total, most := program.AlignUp(bytes)+slack, g.limits.Buffer
	return &space{buffers: make([]Buffer, (total+most-1)/most), size: most, bytes: total}
}

// spaceOver plans a space over memory of the host, which begins at a page boundary. bytes is rounded up to whole pages.
func (g *gpu) spaceOver(host []byte, bytes int64) *space {
	page := g.limits.Page
	bytes, most := (bytes+page-1)&^(page-1), g.limits.Buffer&^(page-1)
	return &space{buffers: make([]Buffer, (bytes+most-1)/most), size: most, bytes: bytes, host: host}
}

// atPage reports whether the device can use memory of the host in place: it must support that, and the memory must
// begin at a page boundary.
func (g *gpu) atPage(memory []byte) bool {
	page := g.limits.Page
	return page > 0 && len(memory) > 0 && uintptr(unsafe.Pointer(&memory[0]))%uintptr(page) == 0
}

// make allocates the buffers. If the device rejects the memory of the host, they get memory of their own. After an
// error no buffers are left.
func (s *space) make(g *gpu, what string) (err error) {
	if s.host != nil {
		if err := s.over(g.dev.(InPlace), what); err == nil {
			return nil
		}
		s.host = nil
	}
	for i := range s.buffers {
		size := min(s.bytes-int64(i)*s.size, s.size)
		if s.buffers[i], err = g.dev.NewBuffer(what, size, Storage); err != nil {
			s.buffers[i] = nil
			s.empty()
			return err
		}
	}
	return nil
}

// over makes the buffers over the memory of the host. After an error no buffers are left.
func (s *space) over(d InPlace, what string) (err error) {
	for i := range s.buffers {
		from := int64(i) * s.size
		if s.buffers[i], err = d.Over(what, s.host[from:min(from+s.size, int64(len(s.host)))]); err != nil {
			s.buffers[i] = nil
			s.empty()
			return err
		}
	}
	return nil
}

// release releases the buffers of a space that is not used any more. s may be nil.
func (s *space) release() {
	if s != nil {
		s.empty()
		s.buffers = nil
	}
}

// empty releases the buffers; make can allocate them again.
func (s *space) empty() {
	for i, b := range s.buffers {
		if b != nil {
			b.Release()
			s.buffers[i] = nil
		}
	}
}

// pieces divides a range of the space at the boundaries of buffers and, unless most is 0, into pieces of at most that
// many bytes.
func (s *space) pieces(offset, size, most int64) (out []Piece) {
	for size > 0 {
		i := offset / s.size
		in := offset - i*s.size
		n := min(size, s.size-in)
		if most > 0 {
			n = min(n, most)
		}
		out = append(out, Piece{s.buffers[i], in, n})
		offset, size = offset+n, size-n
	}
	return out
}

// view returns the bindings for a range of a space. If the offset is not aligned, the first binding begins before it,
// and View.Skip is the number of elements between.
func (g *gpu) view(s *space, offset, bytes int64, elementSize int) ([]Piece, kernels.View) {
	begin := offset &^ (program.Align - 1)
	size := (max(bytes, 1) + offset - begin + 15) &^ 15 // a multiple of the size of a vector
	v := kernels.View{Skip: (offset - begin) / int64(elementSize)}
	ps := s.pieces(begin, size, g.limits.Binding)
	for _, p := range ps {
		v.Windows = append(v.Windows, kernels.Window{Offset: p.Offset, Size: p.Size})
	}
	return ps, v
}

// staging is a buffer for transfers, which the host can map.
type staging struct {
	buffer Buffer
	size   int64
	shown  int64 // number of bytes that show has requested; 0 if the buffer is not mapped
}

// newStaging allocates a staging buffer of at least size bytes.
func (g *gpu) newStaging(use Usage, size int64) (*staging, error) {
	size = program.AlignUp(max(size, 1))
	if most := g.limits.Buffer; size > most {
		return nil,
			diag.New(device.ErrMemory, g.api.Name(), "inputs or outputs of %d bytes; %s has buffers of at most %d",
				size, g.name, most).
				WithHint("choose another device with --device, or run with --backend cpu")
	}
	b, err := g.dev.NewBuffer("staging", size, use)
	if err != nil {
		return nil, err
	}
	return &staging{buffer: b, size: size}, nil
}

func (s *staging) release() {
	if s != nil {
		s.buffer.Release()
	}
}

// show requests that the first n bytes are mapped, unless an earlier call has done so since the last hide.
func (s *staging) show(n int64) error {
	if s.shown > 0 {
		return nil
	}
	n = (n + 15) &^ 15
	if err := s.buffer.Map(n); err != nil {
		return err
	}
	s.shown = n
	return nil
}

// await waits until the request of show has completed and returns the mapped bytes. due is when the device is expected
// to finish; zero means unknown.
func (g *gpu) await(s *staging, due time.Time) ([]byte, error) {
	for wait := NewPatience(due); ; wait.Pause() {
		done, err := s.buffer.Mapped()
		if !done && err == nil {
			if _, err = g.poll(); err == nil {
				done, err = s.buffer.Mapped()
			}
		}
		if err != nil {
			return nil, g.seen(err)
		}
		if done {
			return s.buffer.Bytes(s.shown), nil
		}
	}
}

// hide unmaps the buffer.
func (s *staging) hide() error {
	s.shown = 0
	return s.buffer.Unmap()
}

// access maps n bytes, calls f with them and unmaps the buffer.
func (g *gpu) access(s *staging, n int64, due time.Time, f func([]byte)) error {
	if err := s.show(n); err != nil {
		return g.seen(err)
	}
	b, err := g.await(s, due)
	if err != nil {
		return err
	}
	f(b)
	return s.hide()
}

// wait waits until the device has finished all submissions, or one of them fails. due is when that is expected; zero
// means unknown.
func (g *gpu) wait(due time.Time) error {
	for wait := NewPatience(due); ; wait.Pause() {
		if idle, err := g.poll(); idle || err != nil {
			return err
		}
	}
}

// drain waits until the device has finished all submissions, even if some fail. It drops their errors, since the runs
// that they belong to have ended.
func (g *gpu) drain() {
	for wait := NewPatience(time.Time{}); ; wait.Pause() {
		if idle, _ := g.poll(); idle {
			return
		}
	}
}

// poll lets the driver process submissions that have ended, and reports whether all have. It does not block.
func (g *gpu) poll() (idle bool, err error) {
	idle, err = g.dev.Poll()
	if g.polled != nil {
		g.polled()
	}
	return idle, g.seen(err)
}

// upload starts to copy data to an offset of a space. Device.Uploaded waits until the data has been read.
func (g *gpu) upload(s *space, offset int64, data []byte) error {
	for _, p := range s.pieces(offset, int64(len(data)), 0) {
		if err := g.dev.Upload(p.Buffer, p.Offset, data[:p.Size]); err != nil {
			return g.seen(err)
		}
		data = data[p.Size:]
	}
	return nil
}

// deviceError wraps an error that has no code as a device.ErrDevice.
func (g *gpu) deviceError(err error) error {
	if d := (*diag.Error)(nil); err == nil || errors.As(err, &d) {
		return err
	}
	return diag.New(device.ErrDevice, g.api.Name(), "%w", err)
}

// Patience paces a loop that polls. Pause does not sleep at the beginning of the wait, or around the time when the work
// is expected to end. In between it sleeps, the longer the longer the wait has taken, because each poll takes processor
// time that a software device or other programs need.
type Patience struct{ since, due time.Time }

// NewPatience returns a Patience for a wait that begins now. due is when the work is expected to end; zero means
// unknown.
func NewPatience(due time.Time) Patience { return Patience{time.Now(), due} }

// Pause returns when it is time to poll again. It yields the processor to other goroutines if it does not sleep.
func (p Patience) Pause() {
	if d := p.nap(time.Now()); d > 0 {
		sleep(d)
	} else {
		runtime.Gosched()
	}
}

// nap returns how long to sleep before the next poll. It may be 0.
func (p Patience) nap(now time.Time) time.Duration {
	const eager, longest = time.Millisecond, time.Millisecond
	waited, early := now.Sub(p.since), p.due.Sub(now)
	late := waited // since the work was expected to end, or the wait began
	if !p.due.IsZero() {
		late = -early
	}
	switch {
	case late < -eager:
		return min(early-eager, longest)
	case !p.due.IsZero() && late < eager || waited < 2*eager:
		return 0
	}
	return min(max(late/200, 20*time.Microsecond), longest)
}
