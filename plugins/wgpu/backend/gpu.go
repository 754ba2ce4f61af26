//go:build cgo && (darwin || amd64)

package backend

import (
	"errors"
	"strings"
	"sync"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// opened is the open device of an adapter.
type opened struct {
	adapter *adapter
	device  *wgpu.Device
	queue   *wgpu.Queue

	// calls is held during calls of the library while a program is loaded. One goroutine then uploads while another
	// compiles, and the library's error scopes belong to the device, not to the goroutine.
	calls sync.Mutex

	uploader uploader
}

func (a *adapter) Open() (gpu.Device, error) {
	d, err := a.request()
	if err != nil {
		return nil, err
	}
	return &opened{adapter: a, device: d, queue: d.GetQueue()}, nil
}

// request opens a device with the highest limits that the adapter allows.
func (a *adapter) request() (*wgpu.Device, error) {
	l := a.all
	l.MaxBufferSize = min(l.MaxBufferSize, largestBuffer)
	desc := &wgpu.DeviceDescriptor{Label: "rlx", RequiredLimits: &wgpu.RequiredLimits{Limits: l}}
	if a.limits.Clock {
		desc.RequiredFeatures = append(desc.RequiredFeatures, wgpu.FeatureName_TimestampQuery)
	}
	d, err := a.RequestDevice(desc)
	if err != nil {
		return nil, diag.New(device.ErrUnavailable, "wgpu", "%s cannot be opened: %w", a.info.Name, err)
	}
	return d, nil
}

func (d *opened) Use() (end func()) { return keepCallbacks() }

func (d *opened) Exclusive(f func()) {
	d.calls.Lock()
	defer d.calls.Unlock()
	f()
}

// buffer is a buffer and the state of its mapping.
type buffer struct {
	*wgpu.Buffer
	d      *opened
	mode   wgpu.MapMode
	mapped bool // the last Map has completed; status says how
	status wgpu.BufferMapAsyncStatus
}

func (d *opened) NewBuffer(label string, bytes int64, use gpu.Usage) (gpu.Buffer, error) {
	b, err := d.newBuffer(label, bytes, use)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (d *opened) newBuffer(label string, bytes int64, use gpu.Usage) (*buffer, error) {
	usage, mode := wgpu.BufferUsage_Storage|wgpu.BufferUsage_CopyDst, wgpu.MapMode_None
	switch use {
	case gpu.Storage:
		usage |= wgpu.BufferUsage_CopySrc
	case gpu.ToDevice:
		usage, mode = wgpu.BufferUsage_MapWrite|wgpu.BufferUsage_CopySrc, wgpu.MapMode_Write
	case gpu.ToHost:
		usage, mode = wgpu.BufferUsage_MapRead|wgpu.BufferUsage_CopyDst, wgpu.MapMode_Read
	}
	b, err := d.makeBuffer(&wgpu.BufferDescriptor{Label: label, Size: uint64(bytes), Usage: usage})
	if err == nil {
		b.mode = mode
	}
	return b, err
}

func (d *opened) makeBuffer(desc *wgpu.BufferDescriptor) (*buffer, error) {
	d.calls.Lock()
	defer d.calls.Unlock()
	b, err := d.device.CreateBuffer(desc)
	if err != nil {
		return nil, gpu.MemoryError("wgpu", d.adapter.info.Name, desc.Label, int64(desc.Size), oneLine(err))
	}
	return &buffer{Buffer: b, d: d}, nil
}

func (b *buffer) Release() {
	b.Destroy()
	b.Buffer.Release()
}

func (b *buffer) Map(n int64) error {
	b.mapped = false
	return deviceError(
		b.MapAsync(b.mode, 0, uint64(n), func(s wgpu.BufferMapAsyncStatus) { b.status, b.mapped = s, true }))
}

func (b *buffer) Mapped() (bool, error) {
	if b.mapped && b.status != wgpu.BufferMapAsyncStatus_Success {
		return false, diag.New(device.ErrDeviceLost, "wgpu", "%s was lost: mapping memory ended with status %v",
			b.d.adapter.info.Name, b.status)
	}
	return b.mapped, nil
}

func (b *buffer) Bytes(n int64) []byte { return b.GetMappedRange(0, uint(n)) }

func (d *opened) Write(to gpu.Buffer, data []byte) error {
	return deviceError(d.queue.WriteBuffer(to.(*buffer).Buffer, 0, data))
}

func (d *opened) Bind(label string, p gpu.Pipeline, pieces []gpu.Piece) (gpu.Bindings, error) {
	entries := make([]wgpu.BindGroupEntry, len(pieces))
	for i, p := range pieces {
		entries[i] = wgpu.BindGroupEntry{Binding: uint32(i), Buffer: p.Buffer.(*buffer).Buffer,
			Offset: uint64(p.Offset), Size: uint64(p.Size)}
	}
	d.calls.Lock()
	defer d.calls.Unlock()
	g, err := d.device.CreateBindGroup(
		&wgpu.BindGroupDescriptor{Label: label, Layout: p.(*pipeline).layout, Entries: entries})
	if err != nil {
		return nil, oneLine(err)
	}
	return g, nil
}

// deviceError converts an error of the library to a *diag.Error.
func deviceError(err error) error {
	if err == nil {
		return nil
	}
	return diag.New(device.ErrDevice, "wgpu", "%w", oneLine(err))
}

// oneLine joins the lines of an error of the library.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
