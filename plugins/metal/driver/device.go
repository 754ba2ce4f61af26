package driver

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// opened is an open device with its command queue. The command buffers of a queue run in the order in which they are
// committed. Metal tracks hazards of all buffers, so each command sees what earlier ones have written.
type opened struct {
	*adapter
	queue    mtlCommandQueue
	settings mtlCommandBufferDescriptor

	archiving sync.Mutex // guards archive
	archive   *archive   // nil before the first compilation

	mu       sync.Mutex
	inFlight []submission // committed and not known to have ended, in the order in which they were committed
	sent     int          // number of submissions
	done     int          // number of submissions that have ended
	err      error        // of the first submission that failed; nil once it has been reported
	waiting  gpu.Callbacks
	ahead    int // number of command buffers that are encoded and not committed
}

// submission is a committed command buffer.
type submission struct {
	buffer mtlCommandBuffer
	label  string
	marks  []mark // set to the time at which the command buffer ends
}

func (d *opened) Use() (end func())  { return func() {} }
func (d *opened) Exclusive(f func()) { f() }

// buffer is memory that the processor and the device share.
type buffer struct {
	d *opened
	mtlBuffer
	memory unsafe.Pointer
	size   int64
}

// NewBuffer ignores the usage, because every buffer can be used for all purposes. Metal zeroes new buffers.
func (d *opened) NewBuffer(label string, bytes int64, _ gpu.Usage) (gpu.Buffer, error) {
	b, err := d.newBuffer(label, bytes)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (d *opened) newBuffer(label string, bytes int64) (*buffer, error) {
	defer pool()()
	b := newBuffer.to(d.mtlDevice, nsUInteger(bytes), resourceStorageModeShared)
	if b == 0 {
		return nil, gpu.MemoryError("metal", d.info.Name, label, bytes, errors.New("it has no memory left"))
	}
	return &buffer{d, b, pointer(uintptr(contents.to(b))), bytes}, nil
}

// Over makes a buffer over memory that this process has mapped. The GPU uses these pages directly: Limits.Page is set
// only if it shares the processor's memory.
func (d *opened) Over(label string, memory []byte) (gpu.Buffer, error) {
	defer pool()()
	bytes := (int64(len(memory)) + pageSize - 1) &^ (pageSize - 1)
	b := newBufferNoCopy.to(d.mtlDevice, bytesAddress(unsafe.Pointer(&memory[0])), nsUInteger(bytes),
		resourceStorageModeShared, 0)
	if b != 0 && int64(bufferLength.to(b)) != bytes { // some virtual machines return buffers of length 0
		free(b)
		b = 0
	}
	if b == 0 {
		return nil,
			gpu.MemoryError("metal", d.info.Name, label, bytes, errors.New("it cannot use this memory in place"))
	}
	return &buffer{d, b, unsafe.Pointer(&memory[0]), bytes}, nil
}

// Release frees the memory once no command buffer uses it.
func (b *buffer) Release() {
	defer pool()()
	free(b.mtlBuffer)
}

func (b *buffer) Map(int64) error      { return nil }
func (b *buffer) Unmap() error         { return nil }
func (b *buffer) Bytes(n int64) []byte { return unsafe.Slice((*byte)(b.memory), b.size)[:n:n] }

// Mapped reports whether the device is idle. Like Poll, it returns the error of a submission that has failed.
func (b *buffer) Mapped() (bool, error) {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	return b.d.collect(), b.d.takeError()
}

// Upload writes directly to the memory of the buffer, so it waits until the device is idle.
func (d *opened) Upload(to gpu.Buffer, offset int64, data []byte) error {
	for wait := gpu.NewPatience(time.Time{}); !d.idle(); wait.Pause() {
	}
	b := to.(*buffer).Bytes((offset + int64(len(data)) + 3) &^ 3)[offset:]
	tensor.Copy(b[:len(data)], data)
	clear(b[len(data):])
	return nil
}

func (d *opened) Uploaded() error { return nil }

func (d *opened) Write(to gpu.Buffer, data []byte) error { return d.Upload(to, 0, data) }

func (d *opened) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.collect()
}

// collect retires the submissions that have ended, and reports whether all have. The caller holds mu.
func (d *opened) collect() (idle bool) {
	for len(d.inFlight) > 0 {
		s := d.inFlight[0]
		status := bufferStatus.to(s.buffer)
		if status < commandBufferStatusCompleted {
			return false
		}
		d.inFlight = d.inFlight[1:]
		d.done++
		d.retire(s, status)
	}
	return true
}

// retire handles a submission that has ended: it records an error, sets the marks to the end time, and frees the
// command buffer. The caller holds mu.
func (d *opened) retire(s submission, status nsUInteger) {
	defer pool()()
	if status == commandBufferStatusError && d.err == nil {
		d.err = d.failure(s)
	}
	if len(s.marks) > 0 {
		at := uint64(gpuEndTime.to(s.buffer) * float64(time.Second))
		for _, m := range s.marks {
			m.set(at)
		}
	}
	free(s.buffer)
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

// failure returns the error of a submission that has failed.
func (d *opened) failure(s submission) error {
	e := bufferError.to(s.buffer)
	if e == 0 {
		return diag.New(device.ErrDevice, "metal", "%s failed on %s, and Metal does not say why", s.label, d.info.Name)
	}
	code, domain := errorCode.to(e), goString(errorDomain.to(e))
	kind, why, hint := device.ErrDevice, fmt.Sprintf("%s (%s, code %d)", reason(e), domain, code), ""
	where, several := whereFailed(e)
	if domain == commandBufferErrorDomain {
		switch code {
		case commandBufferErrorOutOfMemory:
			kind, hint = device.ErrMemory, gpu.MemoryHint
		case commandBufferErrorAccessRevoked, commandBufferErrorDeviceRemoved:
			kind, hint = device.ErrDeviceLost, "run again; the system's log may have the reason"
		case commandBufferErrorTimeout:
			hint = "the system ends work that blocks the display for too long; run again with less other work on the GPU"
		case commandBufferErrorNotPermitted:
			hint = "the system denies this process access to the GPU, as it does for processes in the background"
		case commandBufferErrorPageFault, commandBufferErrorInvalidResource, commandBufferErrorStackOverflow:
			hint = "this is a bug of the metal backend: report it, and run with --backend wgpu or cpu"
		}
	}
	if several {
		hint = strings.TrimPrefix(hint+"; --profile runs each step by itself, so that the error names a single step",
			"; ")
	}
	out := diag.New(kind, "metal", "%s failed on %s%s: %s", s.label, d.info.Name, where, why)
	if hint != "" {
		out = out.WithHint("%s", hint)
	}
	return out
}

// whereFailed returns the steps of the encoder that caused an error, such as " in step 3 (matmul layers.0.q)". If Metal
// reports only which encoders were affected, as after a timeout, it returns the steps of the first one, such as ",
// probably in step 3 (matmul layers.0.q)". It returns "" if Metal reports no encoder. several reports whether there is
// more than one step.
func whereFailed(e nsError) (where string, several bool) {
	info := errorUserInfo.to(e)
	key := encoderInfoErrorKey.value()
	if info == 0 || key == 0 {
		return "", false
	}
	list := nsArray(objectForKey.to(info, nsObject(key)))
	if list == 0 {
		return "", false
	}
	for i := range count.to(list) {
		encoder := mtlCommandBufferEncoderInfo(objectAtIndex.to(list, i))
		label := goString(encoderInfoLabel.to(encoder))
		switch state := encoderInfoState.to(encoder); {
		case label == "":
		case state == commandEncoderErrorStateFaulted:
			return " in " + label, strings.Contains(label, labelRange)
		case state == commandEncoderErrorStateAffected && where == "":
			where, several = ", probably in "+label, strings.Contains(label, labelRange)
		}
	}
	return where, several
}
