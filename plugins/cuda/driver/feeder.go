package driver

import (
	"runtime"
	"sync"
	"unsafe"
)

// feeder copies memory of the host to the device, on several threads. Weights are in a mapped file, and the library
// would copy them to pinned memory on one thread, which takes four times as long as the bus. Each thread copies a piece
// to pinned memory itself and puts a copy from there into the stream.
type feeder struct {
	d *opened

	mu      sync.Mutex
	idle    sync.Cond // on mu; signalled when running becomes 0
	queue   []feed
	running int   // threads
	failed  error // of the first piece that could not be copied, until flush returns it
	slots   chan slot
	none    bool // there is no pinned memory
}

// feed is a piece to copy.
type feed struct {
	to   uintptr
	data []byte
}

// slot is pinned memory for a piece. event is that of the last copy from it.
type slot struct{ at, event uintptr }

const (
	feedBytes   = 512 << 10 // of a slot
	leastFeed   = 64 << 10  // smaller data is left to the library
	feedThreads = 8         // with more, pinning memory for them takes longer than they save
)

func newFeeder(d *opened) *feeder {
	f := &feeder{d: d}
	f.idle.L = &f.mu
	return f
}

// prepare makes the slots. It reports whether there are any. The caller holds mu and has entered the context.
func (f *feeder) prepare() bool {
	if f.slots != nil || f.none {
		return !f.none
	}
	n := 2 * min(feedThreads, runtime.GOMAXPROCS(0))
	memory := made[uintptr]()
	if f.d.call(cuMemHostAlloc, address(memory), uintptr(n*feedBytes), 0) != success {
		f.none = true
		return false
	}
	slots := make(chan slot, n)
	for i := range n {
		event, err := f.d.newEvent(eventUntimed)
		if err != nil {
			f.none = true
			return false
		}
		slots <- slot{*memory + uintptr(i*feedBytes), event}
	}
	f.slots = slots
	return true
}

// add begins to copy data, of whole words. It reports whether it does. The caller has entered the context.
func (f *feeder) add(to uintptr, data []byte) bool {
	if len(data) < leastFeed {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.prepare() {
		return false
	}
	for len(data) > 0 {
		n := min(len(data), feedBytes)
		f.queue = append(f.queue, feed{to, data[:n]})
		to, data = to+uintptr(n), data[n:]
	}
	for f.running < min(cap(f.slots)/2, len(f.queue)) {
		f.running++
		go f.work()
	}
	return true
}

// work copies pieces until there are none.
func (f *feeder) work() {
	defer f.d.enter()()
	for {
		f.mu.Lock()
		if len(f.queue) == 0 {
			if f.running--; f.running == 0 {
				f.idle.Broadcast()
			}
			f.mu.Unlock()
			return
		}
		p := f.queue[0]
		f.queue = f.queue[1:]
		f.mu.Unlock()
		s := <-f.slots
		err := f.copy(s, p)
		f.slots <- s
		if err != nil {
			f.mu.Lock()
			if f.failed == nil {
				f.failed = err
			}
			f.mu.Unlock()
		}
	}
}

func (f *feeder) copy(s slot, p feed) error {
	d := f.d
	if r := d.call(cuEventSynchronize, s.event); r != success {
		return d.failure("copying to the device", r)
	}
	copy(memory(s.at, int64(len(p.data))), p.data)
	r := d.call(cuMemcpyHtoDAsync, p.to, s.at, uintptr(len(p.data)), d.stream)
	if r == success {
		r = d.call(cuEventRecord, s.event, d.stream)
	}
	return d.check("copying to the device", r)
}

// flush waits until all copies are in the stream, and returns the error of one that is not.
func (f *feeder) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.running > 0 {
		f.idle.Wait()
	}
	err := f.failed
	f.failed = nil
	return err
}

// pointer returns the address of data.
func pointer(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }
