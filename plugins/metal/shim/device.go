//go:build linux

package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// opened is an open device: a process of host.cc, which shares the device's memory with this process. A goroutine sends
// it the submissions.
type opened struct {
	cache   cache
	missing func(*msl.Kernel) error // Options.Missing

	calls   sync.Mutex // held while a request is sent and its answer is read
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	file    *os.File // the device's memory
	memory  []byte   // file, mapped

	allocation sync.Mutex // guards free
	free       []span     // free ranges of memory, sorted and not adjacent

	kernels int           // number of kernels that the process has loaded
	work    chan commands // submissions for run
	waiting []callback
	sent    int // number of submissions

	mu   sync.Mutex
	done int   // number of submissions that have ended
	err  error // of the first submission that failed; nil once it has been reported
}

type (
	// span is a range of the device's memory, in bytes.
	span struct{ from, to int64 }
	// commands are lines for the program of host.cc, which describes them.
	commands string
	// callback is a function that Poll calls when the first after submissions have ended.
	callback struct {
		after int
		f     func()
	}
)

func (commands) Release() {}

// open starts the process.
func open(c cache, opts Options) (*opened, error) {
	program, err := c.program(context.Background())
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("metal-shim", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	d := &opened{cache: c, missing: opts.Missing, file: os.NewFile(uintptr(fd), "memory"),
		free: []span{{0, memoryBytes}}, work: make(chan commands, 16)}
	if err = d.file.Truncate(memoryBytes); err == nil {
		d.memory, err = unix.Mmap(fd, 0, memoryBytes, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED|unix.MAP_NORESERVE)
	}
	if err != nil {
		return nil, errors.Join(err, d.file.Close())
	}
	d.process = exec.Command(program, strconv.FormatInt(memoryBytes, 10))
	if opts.Flush {
		d.process.Args = append(d.process.Args, "flush")
	}
	d.process.Stderr, d.process.ExtraFiles = os.Stderr, []*os.File{d.file}
	d.in, err = d.process.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = d.process.StdoutPipe(); err == nil {
			d.out = bufio.NewReader(out)
			err = d.process.Start()
		}
	}
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(d.memory), d.file.Close())
	}
	go d.run()
	return d, nil
}

// run sends the submissions to the process, one after another. If the process ends, that submission and all later ones
// fail.
func (d *opened) run() {
	for c := range d.work {
		err := d.call(string(c))
		d.mu.Lock()
		d.done++
		if d.err == nil {
			d.err = err
		}
		d.mu.Unlock()
	}
}

// call sends commands to the process and waits for its answer.
func (d *opened) call(lines string) error {
	d.calls.Lock()
	defer d.calls.Unlock()
	_, err := io.WriteString(d.in, lines+"done\n")
	if err == nil {
		var answer string
		if answer, err = d.out.ReadString('\n'); err == nil {
			if answer = strings.TrimSpace(answer); answer == "ok" {
				return nil
			}
			return diag.New(device.ErrDevice, "metal", "%s", answer)
		}
	}
	return diag.New(device.ErrDeviceLost, "metal", "the program that runs the kernels has ended (%w)", err)
}

func (d *opened) Use() (end func())  { return func() {} }
func (d *opened) Exclusive(f func()) { f() }

func (d *opened) Submit(c gpu.Commands) error {
	d.sent++
	d.work <- c.(commands)
	return nil
}

// state returns the number of submissions that have ended. It also returns and clears the error of the first submission
// that failed since the last call.
func (d *opened) state() (done int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err, d.err = d.err, nil
	return d.done, err
}

func (d *opened) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done == d.sent
}

func (d *opened) OnDone(f func()) { d.waiting = append(d.waiting, callback{d.sent, f}) }

func (d *opened) Poll() (idle bool, err error) {
	done, err := d.state()
	for len(d.waiting) > 0 && d.waiting[0].after <= done {
		f := d.waiting[0].f
		d.waiting = d.waiting[1:]
		f()
	}
	return done == d.sent, err
}

func (d *opened) NewClock(int) (gpu.Clock, error) {
	return nil, diag.New(device.ErrUnsupported, "metal", "the shim has no clock")
}

// buffer is a range of the device's memory.
type buffer struct {
	d *opened
	span
}

// page is the unit of allocations.
const page = 4096

func (d *opened) NewBuffer(label string, bytes int64, _ gpu.Usage) (gpu.Buffer, error) {
	d.allocation.Lock()
	defer d.allocation.Unlock()
	size := (bytes + page - 1) &^ (page - 1)
	for i, s := range d.free {
		if s.to-s.from < size {
			continue
		}
		if d.free[i].from += size; d.free[i].from == s.to {
			d.free = slices.Delete(d.free, i, i+1)
		}
		return &buffer{d, span{s.from, s.from + size}}, nil
	}
	return nil,
		gpu.MemoryError("metal", "the shim", label, bytes, errors.New("no free range of its memory is large enough"))
}

// Release returns the pages to the system, which zeroes them before they are used again.
func (b *buffer) Release() {
	d := b.d
	d.allocation.Lock()
	defer d.allocation.Unlock()
	if err := unix.Fallocate(int(d.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, b.from,
		b.to-b.from); err != nil {
		clear(d.memory[b.from:b.to])
	}
	i, _ := slices.BinarySearchFunc(d.free, b.span, func(a, b span) int { return int(a.from/page - b.from/page) })
	d.free = slices.Insert(d.free, i, b.span)
	for _, k := range []int{i, i - 1} { // merges it with the range after it and the one before it
		if k >= 0 && k+1 < len(d.free) && d.free[k].to == d.free[k+1].from {
			d.free[k].to = d.free[k+1].to
			d.free = slices.Delete(d.free, k+1, k+2)
		}
	}
}

func (b *buffer) Map(int64) error { return nil }

func (b *buffer) Mapped() (bool, error) {
	done, err := b.d.state()
	return done == b.d.sent, err
}

func (b *buffer) Bytes(n int64) []byte { return b.d.memory[b.from:][:n:n] }
func (b *buffer) Unmap() error         { return nil }

// Upload waits until all submissions have ended, because it writes to memory that they use. Poll reports their errors.
func (d *opened) Upload(to gpu.Buffer, offset int64, data []byte) error {
	for wait := gpu.NewPatience(time.Time{}); !d.idle(); wait.Pause() {
	}
	b := to.(*buffer).Bytes(offset + int64(len(data)+3)&^3)[offset:]
	clear(b[copy(b, data):])
	return nil
}

func (d *opened) Uploaded() error { return nil }

func (d *opened) Write(to gpu.Buffer, data []byte) error { return d.Upload(to, 0, data) }

// pipeline is the number of a kernel in the process.
type pipeline int

func (pipeline) Release() {}

func (d *opened) Compile(sources []gpu.Source) (made []gpu.Pipeline, failed int, err error) {
	var all, missing []*msl.Kernel
	for i, s := range sources {
		k, wrong := msl.Translate(s.Text)
		if wrong != nil {
			return nil, i, fmt.Errorf("%w, of\n%s", wrong, s.Text)
		}
		all = append(all, k)
		if d.cache.has(k) {
			continue
		}
		if missing, failed = append(missing, k), i; d.missing != nil {
			err = errors.Join(err, d.missing(k))
		}
	}
	if err == nil {
		err = d.cache.add(context.Background(), missing)
	}
	if err != nil {
		return nil, failed, err
	}
	for i, k := range all {
		if err := d.call(fmt.Sprintf("kernel %s %s\n", d.cache.path(k), d.cache.name(k))); err != nil {
			return made, i, err
		}
		made = append(made, pipeline(d.kernels))
		d.kernels++
	}
	return made, 0, nil
}

// bindings are the buffers of a "run" command as text: their number, then the offset and size of each.
type bindings string

func (bindings) Release() {}

func (d *opened) Bind(_ string, _ gpu.Pipeline, pieces []gpu.Piece) (gpu.Bindings, error) {
	var b strings.Builder
	fmt.Fprint(&b, len(pieces))
	for _, p := range pieces {
		fmt.Fprintf(&b, " %d %d", p.Buffer.(*buffer).from+p.Offset, p.Size)
	}
	return bindings(b.String()), nil
}

// encoder records commands as lines for the program of host.cc.
type encoder struct{ strings.Builder }

func (d *opened) NewEncoder(string) (gpu.Encoder, error) { return &encoder{}, nil }

func (e *encoder) Clear(p gpu.Piece) error {
	fmt.Fprintf(e, "clear %d %d\n", p.Buffer.(*buffer).from+p.Offset, p.Size)
	return nil
}

func (e *encoder) Copy(to gpu.Buffer, at int64, from gpu.Piece) error {
	fmt.Fprintf(e, "copy %d %d %d\n", to.(*buffer).from+at, from.Buffer.(*buffer).from+from.Offset, from.Size)
	return nil
}

func (e *encoder) Dispatch(p gpu.Pipeline, b gpu.Bindings, x, y uint32) {
	fmt.Fprintf(e, "run %d %d %d %s\n", p.(pipeline), x, y, b.(bindings))
}

func (e *encoder) Mark(gpu.Clock, int) error     { return nil }
func (e *encoder) Collect(gpu.Clock) error       { return nil }
func (e *encoder) Finish() (gpu.Commands, error) { return commands(e.String()), nil }
func (e *encoder) Release()                      {}
