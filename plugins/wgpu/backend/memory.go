//go:build cgo && (darwin || amd64)

package backend

import (
	"runtime"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/wgpu/kernels"
)

// space is a range of device memory in one or more buffers. All buffers but the last have the same size.
type space struct {
	buffers []*wgpu.Buffer
	size    int64 // of each buffer but the last
	bytes   int64 // of all of them
}

// slack is memory to bind for a value that is empty.
const slack = program.Align

const memoryHint = "end other programs on the device, choose another with --device, or run with --backend cpu"

// newBuffer makes a buffer of a size in bytes. what names it in the error if there is no memory.
func (g *gpu) newBuffer(what string, bytes int64, usage wgpu.BufferUsage) (*wgpu.Buffer, error) {
	return g.makeBuffer(&wgpu.BufferDescriptor{Label: what, Size: uint64(bytes), Usage: usage})
}

func (g *gpu) makeBuffer(d *wgpu.BufferDescriptor) (*wgpu.Buffer, error) {
	g.calls.Lock()
	defer g.calls.Unlock()
	b, err := g.device.CreateBuffer(d)
	if err != nil {
		return nil, diag.New(device.ErrMemory, "wgpu", "a buffer of %s for %s cannot be made on %s: %w", megabytes(int64(d.Size)), d.Label, g.name, oneLine(err)).WithHint(memoryHint)
	}
	return b, nil
}

// planSpace decides how a space is divided into buffers; make allocates them.
func (g *gpu) planSpace(bytes int64) *space {
	total := program.AlignUp(bytes) + slack
	return &space{buffers: make([]*wgpu.Buffer, (total+g.maxBuffer-1)/g.maxBuffer), size: g.maxBuffer, bytes: total}
}

// make allocates the buffers. After an error there are none.
func (s *space) make(g *gpu, what string) (err error) {
	for i := range s.buffers {
		size := min(s.bytes-int64(i)*s.size, s.size)
		if s.buffers[i], err = g.newBuffer(what, size, wgpu.BufferUsage_Storage|wgpu.BufferUsage_CopyDst|wgpu.BufferUsage_CopySrc); err != nil {
			s.release()
			return err
		}
	}
	return nil
}

func (s *space) release() {
	if s == nil {
		return
	}
	for _, b := range s.buffers {
		if b != nil {
			b.Destroy()
			b.Release()
		}
	}
	s.buffers = nil
}

// piece is a part of a space within one buffer.
type piece struct {
	buffer       *wgpu.Buffer
	offset, size int64
}

// pieces cuts a range at the ends of buffers and, unless most is 0, into parts of at most that many bytes.
func (s *space) pieces(offset, size, most int64) (out []piece) {
	for size > 0 {
		i := offset / s.size
		in := offset - i*s.size
		n := min(size, s.size-in)
		if most > 0 {
			n = min(n, most)
		}
		out = append(out, piece{s.buffers[i], in, n})
		offset, size = offset+n, size-n
	}
	return out
}

// view returns the bindings for a range of a space. Where the offset is not aligned enough, the first binding begins before it.
func (g *gpu) view(s *space, offset, bytes int64, elementSize int) ([]piece, kernels.View) {
	begin := offset &^ (program.Align - 1)
	size := (max(bytes, 1) + offset - begin + 15) &^ 15 // whole vectors
	v := kernels.View{Skip: (offset - begin) / int64(elementSize)}
	ps := s.pieces(begin, size, g.maxBinding)
	for _, p := range ps {
		v.Windows = append(v.Windows, kernels.Window{Offset: p.offset, Size: p.size})
	}
	return ps, v
}

// staging is a buffer that the host maps, reused by every run.
type staging struct {
	buffer *wgpu.Buffer
	mode   wgpu.MapMode
	size   int64
}

func (g *gpu) newStaging(mode wgpu.MapMode, size int64) (*staging, error) {
	usage := wgpu.BufferUsage_MapWrite | wgpu.BufferUsage_CopySrc
	if mode == wgpu.MapMode_Read {
		usage = wgpu.BufferUsage_MapRead | wgpu.BufferUsage_CopyDst
	}
	size = program.AlignUp(max(size, 1))
	if size > g.maxBuffer {
		return nil, diag.New(device.ErrMemory, "wgpu", "inputs or outputs of %d bytes; %s has buffers of at most %d", size, g.name, g.maxBuffer).
			WithHint("choose another device with --device, or run with --backend cpu")
	}
	b, err := g.newBuffer("staging", size, usage)
	if err != nil {
		return nil, err
	}
	return &staging{b, mode, size}, nil
}

func (s *staging) release() {
	if s != nil {
		s.buffer.Destroy()
		s.buffer.Release()
	}
}

// access maps n bytes, calls f with them and unmaps them. It waits for the device. due is about when the device will be done, zero if
// that is unknown.
func (g *gpu) access(s *staging, n int64, due time.Time, f func([]byte)) error {
	n = (n + 15) &^ 15
	status, done := wgpu.BufferMapAsyncStatus_Unknown, false
	err := s.buffer.MapAsync(s.mode, 0, uint64(n), func(st wgpu.BufferMapAsyncStatus) { status, done = st, true })
	for wait := newPatience(due); err == nil && !done; wait.pause() {
		g.poll()
	}
	switch {
	case err != nil:
		return deviceError(err)
	case status != wgpu.BufferMapAsyncStatus_Success:
		return g.lose("mapping memory ended with status " + status.String())
	}
	f(s.buffer.GetMappedRange(0, uint(n)))
	return s.buffer.Unmap()
}

// wait returns when the device has finished all submissions. It polls, because the library's own wait times out after five seconds,
// takes the work for done and frees what it uses.
func (g *gpu) wait() {
	for wait := newPatience(time.Time{}); !g.poll(); {
		wait.pause()
	}
}

// poll lets the library notice what has ended, and reports whether everything has.
func (g *gpu) poll() (idle bool) {
	idle = g.device.Poll(false, nil)
	if g.polled != nil {
		g.polled()
	}
	return idle
}

// patience is the interval between polls: none at first and about when the work is due, otherwise growing.
type patience struct{ since, due time.Time }

func newPatience(due time.Time) patience { return patience{time.Now(), due} }

func (p patience) pause() {
	if d := p.nap(time.Now()); d > 0 {
		sleep(d)
	} else {
		runtime.Gosched()
	}
}

// nap is how long to sleep before the next poll, 0 for not at all.
func (p patience) nap(now time.Time) time.Duration {
	const eager = time.Millisecond
	waited, early := now.Sub(p.since), p.due.Sub(now)
	switch {
	case !p.due.IsZero() && early > eager:
		return min(early-eager, 200*time.Microsecond)
	case !p.due.IsZero() && early > -eager || waited < 2*eager:
		return 0
	case waited < 100*time.Millisecond:
		return 20 * time.Microsecond
	}
	return 200 * time.Microsecond
}
