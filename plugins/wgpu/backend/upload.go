//go:build cgo && (darwin || amd64)

package backend

import (
	"cmp"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// Uploads go through two mapped buffers. While the device copies from one, all cores fill the other. The buffers are
// small, and kept for the next upload, because drivers are slow to allocate memory that both host and device access.
const (
	uploadChunk   = 8 << 20
	uploadBuffers = 2
)

// uploader is the state of uploads. One program is loaded at a time.
type uploader struct {
	buffers []*buffer
	next    int
}

func (d *opened) Upload(to gpu.Buffer, offset int64, data []byte) error {
	for len(data) > 0 {
		from, err := d.uploadBuffer()
		if err != nil {
			return err
		}
		n := min(len(data), uploadChunk)
		size := (n + 3) &^ 3
		b := from.Bytes(int64(size))
		tensor.Copy(b[:n], data[:n])
		clear(b[n:])
		if err := d.send(from, to.(*buffer), offset, int64(size)); err != nil {
			return err
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}

// uploadBuffer returns the next buffer when it is mapped.
func (d *opened) uploadBuffer() (*buffer, error) {
	u := &d.uploader
	if len(u.buffers) < uploadBuffers {
		b, err := d.makeBuffer(&wgpu.BufferDescriptor{Label: "upload", Size: uploadChunk,
			Usage: wgpu.BufferUsage_MapWrite | wgpu.BufferUsage_CopySrc, MappedAtCreation: true})
		if err != nil {
			return nil, err
		}
		b.mode, b.mapped = wgpu.MapMode_Write, true
		u.buffers = append(u.buffers, b)
		return b, nil
	}
	b := u.buffers[u.next%uploadBuffers]
	u.next++
	return b, d.await(b)
}

// await waits until a buffer is mapped.
func (d *opened) await(b *buffer) error {
	for wait := gpu.NewPatience(time.Time{}); ; wait.Pause() {
		d.calls.Lock()
		if !b.mapped {
			d.device.Poll(false, nil)
		}
		done, err := b.Mapped()
		d.calls.Unlock()
		if done || err != nil {
			return err
		}
	}
}

// send submits the copy of n bytes, and maps the buffer again.
func (d *opened) send(from, to *buffer, offset, n int64) error {
	d.calls.Lock()
	defer d.calls.Unlock()
	from.status = wgpu.BufferMapAsyncStatus_Unknown // so that await reports an error below
	if err := from.Unmap(); err != nil {
		return deviceError(err)
	}
	enc, err := d.NewEncoder("upload")
	if err != nil {
		return err
	}
	if err := enc.Copy(to, offset, gpu.Piece{Buffer: from, Size: n}); err != nil {
		enc.Release()
		return err
	}
	c, err := enc.Finish()
	if err != nil {
		return deviceError(err)
	}
	_ = d.Submit(c) // never fails
	if err = from.Map(uploadChunk); err != nil {
		from.mapped, from.status = true, wgpu.BufferMapAsyncStatus_Unknown
	}
	return err
}

// Uploaded waits until all uploads are on the device.
func (d *opened) Uploaded() (err error) {
	for _, b := range d.uploader.buffers {
		err = cmp.Or(err, d.await(b))
	}
	return err
}
