//go:build cgo && (darwin || amd64)

package backend

import (
	"cmp"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/core/tensor"
)

// An upload goes through two mapped buffers: while the device copies from one, all cores fill the other. They are small and kept
// for the next upload, since drivers take long to allocate and free memory that a device can read.
const (
	uploadChunk   = 8 << 20
	uploadBuffers = 2
)

// uploader copies bytes into spaces, for one load at a time. Pipelines may be compiled meanwhile.
type uploader struct {
	g     *gpu
	slots []*uploadSlot
	next  int
}

type uploadSlot struct {
	*staging
	mapped bool // or has failed, see status
	status wgpu.BufferMapAsyncStatus
}

// write copies data to an offset of a space, rounded up to whole words.
func (u *uploader) write(s *space, offset int64, data []byte) error {
	for _, p := range s.pieces(offset, int64(len(data)), uploadChunk) {
		slot, err := u.slot()
		if err != nil {
			return err
		}
		size := (p.size + 3) &^ 3
		to := slot.buffer.GetMappedRange(0, uint(size))
		tensor.Copy(to[:p.size], data[:p.size])
		clear(to[p.size:])
		if err := u.send(slot, p, size); err != nil {
			return err
		}
		data = data[p.size:]
	}
	return nil
}

// slot returns the next buffer, mapped.
func (u *uploader) slot() (*uploadSlot, error) {
	if len(u.slots) < uploadBuffers {
		b, err := u.g.makeBuffer(&wgpu.BufferDescriptor{Label: "upload", Size: uploadChunk,
			Usage: wgpu.BufferUsage_MapWrite | wgpu.BufferUsage_CopySrc, MappedAtCreation: true})
		if err != nil {
			return nil, err
		}
		s := &uploadSlot{staging: &staging{b, wgpu.MapMode_Write, uploadChunk}, mapped: true}
		u.slots = append(u.slots, s)
		return s, nil
	}
	s := u.slots[u.next%uploadBuffers]
	u.next++
	return s, u.await(s)
}

// await waits until a buffer is mapped.
func (u *uploader) await(s *uploadSlot) error {
	for wait := newPatience(time.Time{}); ; wait.pause() {
		u.g.calls.Lock()
		if !s.mapped {
			u.g.poll()
		}
		done := s.mapped
		u.g.calls.Unlock()
		if done {
			if s.status != wgpu.BufferMapAsyncStatus_Success {
				return u.g.lose("mapping memory ended with status " + s.status.String())
			}
			return nil
		}
	}
}

// send submits the copy from a buffer to the space, and maps the buffer again.
func (u *uploader) send(s *uploadSlot, p piece, size int64) error {
	u.g.calls.Lock()
	defer u.g.calls.Unlock()
	s.status = wgpu.BufferMapAsyncStatus_Unknown // after an error it is not mapped again
	if err := s.buffer.Unmap(); err != nil {
		return deviceError(err)
	}
	err := u.g.commands(func(enc *wgpu.CommandEncoder) error {
		return deviceError(enc.CopyBufferToBuffer(s.buffer, 0, p.buffer, uint64(p.offset), uint64(size)))
	})
	if err != nil {
		return err
	}
	s.mapped = false
	err = s.buffer.MapAsync(wgpu.MapMode_Write, 0, uploadChunk, func(st wgpu.BufferMapAsyncStatus) {
		s.mapped, s.status = true, st
	})
	if err != nil {
		s.mapped, s.status = true, wgpu.BufferMapAsyncStatus_Unknown
	}
	return deviceError(err)
}

// wait returns when all that was written is on the device.
func (u *uploader) wait() (err error) {
	for _, s := range u.slots {
		err = cmp.Or(err, u.await(s))
	}
	return err
}
