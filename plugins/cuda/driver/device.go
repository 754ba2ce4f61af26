package driver

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// opened is an open device with its stream, in which everything runs in the order of submission.
type opened struct {
	*adapter
	stream uintptr
	feeder *feeder
	linked atomic.Bool  // Compile has kept code since it last trimmed the folder
	config launchConfig // of the current launch

	beside         uintptr // a stream for copies beside commands; 0 until it is needed
	forked, joined uintptr // events with which it waits for the other stream, and that for it

	mu       sync.Mutex
	inFlight []uintptr // events that end submissions, in their order
	events   []uintptr // not in use
	sent     int       // number of submissions
	done     int       // number of submissions that have ended
	err      error     // of the first submission that failed; nil once it has been reported
	waiting  gpu.Callbacks
}

func (d *opened) Use() (end func())  { return func() {} }
func (d *opened) Exclusive(f func()) { f() }

// enter makes the device's context current to the calling goroutine.
func (d *opened) enter() (end func()) { return d.use(d.context) }

// failure returns the error of a call; what says what was done. An error that destroyed the context also aborts the
// API, because all further calls would fail with it.
func (d *opened) failure(what string, r result) error {
	if !r.sticky() {
		return diag.New(device.ErrDevice, "cuda", "%s failed on %s: %s", what, d.info.Name, explain(d, r))
	}
	err := diag.New(device.ErrDeviceLost, "cuda", "%s was lost while %s: %s", d.info.Name, what, explain(d, r)).
		WithHint("run again; if that fails, too, it is a bug of the cuda backend: report it, and use --backend wgpu or cpu")
	d.api.abort(err)
	return err
}

func (d *opened) check(what string, r result) error {
	if r == success {
		return nil
	}
	return d.failure(what, r)
}

// buffer is memory of the device, or pinned memory of the host, which the device can copy from and to. Both have one
// address for host and device.
type buffer struct {
	d      *opened
	at     uintptr
	size   int64
	host   bool
	pinned bool // the memory is not the buffer's
}

// Pin page-locks memory of the host. The device then copies from and to it directly.
func (d *opened) Pin(memory []byte) (gpu.Buffer, error) {
	defer d.enter()()
	at := uintptr(unsafe.Pointer(&memory[0]))
	if r := d.call(cuMemHostRegister, at, uintptr(len(memory)), 0); r != success {
		return nil, d.failure("pinning memory of the host", r)
	}
	return &buffer{d: d, at: at, size: int64(len(memory)), host: true, pinned: true}, nil
}

func (d *opened) NewBuffer(label string, bytes int64, use gpu.Usage) (gpu.Buffer, error) {
	defer d.enter()()
	at := made[uintptr]()
	host := use == gpu.ToDevice || use == gpu.ToHost
	var r result
	if host {
		r = d.call(cuMemHostAlloc, address(at), uintptr(bytes), 0)
	} else {
		r = d.call(cuMemAlloc, address(at), uintptr(bytes))
	}
	if r == errorMemory {
		return nil, gpu.MemoryError("cuda", d.info.Name, label, bytes, errors.New(explain(d, r)))
	} else if r != success {
		return nil, d.failure("allocating "+label, r)
	}
	b := &buffer{d: d, at: *at, size: bytes, host: host}
	if host {
		clear(memory(b.at, bytes))
		return b, nil
	}
	if r = d.call(cuMemsetD8Async, b.at, 0, uintptr(bytes), d.stream); r != success {
		b.Release()
		return nil, d.failure("clearing "+label, r)
	}
	return b, nil
}

// Release frees the memory. The library waits for submissions that use it.
func (b *buffer) Release() {
	_ = b.d.feeder.flush() // after an error, it may have copies to the buffer
	defer b.d.enter()()
	if b.host {
		b.d.call(cuStreamSynchronize, b.d.stream)
	}
	switch {
	case b.pinned:
		b.d.call(cuMemHostUnregister, b.at)
	case b.host:
		b.d.call(cuMemFreeHost, b.at)
	default:
		b.d.call(cuMemFree, b.at)
	}
}

func (b *buffer) Map(int64) error      { return nil }
func (b *buffer) Unmap() error         { return nil }
func (b *buffer) Bytes(n int64) []byte { return memory(b.at, b.size)[:n:n] }

// Mapped reports whether the device is idle. Like Poll, it returns the error of a submission that has failed.
func (b *buffer) Mapped() (bool, error) {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	return b.d.collect(), b.d.takeError()
}

// Upload copies in the order of the stream. Either the feeder reads the data until it is flushed, or the library
// returns when it has read the data.
func (d *opened) Upload(to gpu.Buffer, offset int64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	defer d.enter()()
	at := to.(*buffer).at + uintptr(offset)
	whole := len(data) &^ 3
	if whole > 0 && !d.feeder.add(at, data[:whole]) {
		r := d.call(cuMemcpyHtoDAsync, at, pointer(data), uintptr(whole), d.stream)
		if r != success {
			return d.failure("copying to the device", r)
		}
	}
	if rest := data[whole:]; len(rest) > 0 {
		word := made[[4]byte]()
		copy(word[:], rest)
		r := d.call(cuMemcpyHtoDAsync, at+uintptr(whole), address(word), 4, d.stream)
		if r != success {
			return d.failure("copying to the device", r)
		}
		return d.Uploaded() // before the word is collected
	}
	return nil
}

func (d *opened) Uploaded() error {
	if err := d.feeder.flush(); err != nil {
		return err
	}
	return d.synchronize()
}

// synchronize waits until the stream is empty.
func (d *opened) synchronize() error {
	defer d.enter()()
	return d.check("copying to the device", d.call(cuStreamSynchronize, d.stream))
}

func (d *opened) Write(to gpu.Buffer, data []byte) error {
	if err := d.Upload(to, 0, data); err != nil {
		return err
	}
	if len(data) < leastFeed {
		return d.synchronize() // not until the feeder has put all of a program's weights into the stream
	}
	return d.Uploaded()
}

// collect retires the submissions that have ended, and reports whether all have. The caller holds mu.
func (d *opened) collect() (idle bool) {
	if len(d.inFlight) == 0 {
		return true
	}
	defer d.enter()()
	for len(d.inFlight) > 0 {
		r := d.call(cuEventQuery, d.inFlight[0])
		if r == errorNotReady {
			return false
		}
		if r != success && d.err == nil {
			d.err = d.failure("a submission", r)
		}
		d.events = append(d.events, d.inFlight[0])
		d.inFlight = d.inFlight[1:]
		d.done++
	}
	return true
}

// takeError returns and clears the error of the first submission that failed since the last call. The caller holds mu.
func (d *opened) takeError() error {
	err := d.err
	d.err = nil
	return err
}

func (d *opened) OnDone(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting.Add(d.sent, f)
}

func (d *opened) Poll() (idle bool, err error) {
	d.mu.Lock()
	idle, err = d.collect(), d.takeError()
	due := d.waiting.Due(d.done)
	d.mu.Unlock()
	for _, f := range due {
		f()
	}
	return idle, err
}

const (
	eventDefault = 0
	eventUntimed = 2
)

// newEvent makes an event. The caller has called enter.
func (d *opened) newEvent(flags uintptr) (uintptr, error) {
	e := made[uintptr]()
	r := d.call(cuEventCreate, address(e), flags)
	return *e, d.check("making an event", r)
}

// end records the end of a submission. The caller has called enter.
func (d *opened) end() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var e uintptr
	if n := len(d.events); n > 0 {
		e, d.events = d.events[n-1], d.events[:n-1]
	} else {
		var err error
		if e, err = d.newEvent(eventUntimed); err != nil {
			return err
		}
	}
	if r := d.call(cuEventRecord, e, d.stream); r != success {
		return d.failure("a submission", r)
	}
	d.inFlight = append(d.inFlight, e)
	d.sent++
	return nil
}

// clock measures times by events, relative to the first.
type clock struct {
	d      *opened
	events []uintptr
	seen   []bool // recorded
	ticks  []uint64
}

func (d *opened) NewClock(marks int) (gpu.Clock, error) {
	defer d.enter()()
	c := &clock{d: d, seen: make([]bool, marks), ticks: make([]uint64, marks+1)} // Bytes is called for whole vectors
	for range marks {
		e, err := d.newEvent(eventDefault)
		if err != nil {
			c.Release()
			return nil, err
		}
		c.events = append(c.events, e)
	}
	return c, nil
}

func (c *clock) Release() {
	defer c.d.enter()()
	for _, e := range c.events {
		c.d.call(cuEventDestroy, e)
	}
	c.events = nil
}

func (c *clock) Bytes() int64      { return 0 }
func (c *clock) Ticks() gpu.Buffer { return (*clockTicks)(c) }

// clockTicks are the times of a clock, in nanoseconds. They are computed when they are mapped.
type clockTicks clock

func (*clockTicks) Release()        {}
func (*clockTicks) Map(int64) error { return nil }
func (*clockTicks) Unmap() error    { return nil }

func (c *clockTicks) Mapped() (bool, error) {
	c.d.mu.Lock()
	idle, err := c.d.collect(), c.d.takeError()
	c.d.mu.Unlock()
	if !idle || err != nil {
		return idle, err
	}
	defer c.d.enter()()
	for k, e := range c.events {
		if !c.seen[k] || !c.seen[0] {
			continue
		}
		ms := made[float32]()
		if r := c.d.call(cuEventElapsedTime, address(ms), c.events[0], e); r != success {
			return false, c.d.failure(fmt.Sprintf("reading time %d", k), r)
		}
		c.ticks[k] = uint64(max(0, float64(*ms)) * 1e6)
	}
	return true, nil
}

func (c *clockTicks) Bytes(n int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.ticks))), 8*len(c.ticks))[:n:n]
}
