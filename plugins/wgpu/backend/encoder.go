//go:build cgo && (darwin || amd64)

package backend

import (
	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// encoder records commands. Consecutive dispatches share a compute pass; other commands are outside of passes.
type encoder struct {
	enc  *wgpu.CommandEncoder
	pass *wgpu.ComputePassEncoder // nil between passes
}

func (d *opened) NewEncoder(label string) (gpu.Encoder, error) {
	enc, err := d.device.CreateCommandEncoder(&wgpu.CommandEncoderDescriptor{Label: label})
	if err != nil {
		return nil, deviceError(err)
	}
	return &encoder{enc: enc}, nil
}

func (e *encoder) endPass() {
	if e.pass != nil {
		_ = e.pass.End() // Finish reports an error
		e.pass.Release()
		e.pass = nil
	}
}

func (e *encoder) Clear(p gpu.Piece) error {
	e.endPass()
	return deviceError(e.enc.ClearBuffer(p.Buffer.(*buffer).Buffer, uint64(p.Offset), uint64(p.Size)))
}

func (e *encoder) Copy(to gpu.Buffer, at int64, from gpu.Piece) error {
	e.endPass()
	return deviceError(
		e.enc.CopyBufferToBuffer(from.Buffer.(*buffer).Buffer, uint64(from.Offset), to.(*buffer).Buffer, uint64(at),
			uint64(from.Size)))
}

func (e *encoder) Dispatch(p gpu.Pipeline, b gpu.Bindings, x, y uint32) {
	if e.pass == nil {
		e.pass = e.enc.BeginComputePass(nil)
	}
	e.pass.SetPipeline(p.(*pipeline).ComputePipeline)
	e.pass.SetBindGroup(0, b.(*wgpu.BindGroup), nil)
	e.pass.DispatchWorkgroups(x, y, 1)
}

func (e *encoder) Finish() (gpu.Commands, error) {
	e.endPass()
	c, err := e.enc.Finish(nil)
	e.enc.Release()
	if err != nil {
		return nil, oneLine(err)
	}
	return c, nil
}

func (e *encoder) Release() {
	e.endPass()
	e.enc.Release()
}

func (d *opened) Submit(c gpu.Commands) error {
	d.queue.Submit(c.(*wgpu.CommandBuffer))
	c.Release()
	return nil
}

func (d *opened) OnDone(f func()) {
	d.queue.OnSubmittedWorkDone(func(wgpu.QueueWorkDoneStatus) { f() })
}

// Poll does not use the library's own wait, which times out after five seconds, takes the work for done and frees
// memory that is in use.
func (d *opened) Poll() (idle bool, err error) { return d.device.Poll(false, nil), nil }
