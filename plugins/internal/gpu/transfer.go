package gpu

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// downloadChunk is the maximum size of a staging buffer for results, in bytes. Inputs are copied to the device through
// one staging buffer. Results are copied to the host through several: while the device fills one, the host reads the
// one before. No staging buffer is needed if the io space lies over the host's memory, or if the device copies from and
// to that memory.
const downloadChunk = 32 << 20

// joinGap is the maximum number of unused bytes between two tensors that one command copies together. A command costs a
// device some microseconds.
const joinGap = 64 << 10

// stretch is a range of bytes that is copied between offset io of the io space and offset at of the staging buffers.
type stretch struct{ io, at, bytes int64 }

// join merges successive stretches if the gap between them is the same in the io space and in the staging buffers, and
// at most joinGap.
func join(list []stretch) (out []stretch) {
	for _, s := range list {
		if k := len(out) - 1; k >= 0 {
			last := &out[k]
			if gap := s.io - last.io - last.bytes; gap >= 0 && gap <= joinGap && s.io-last.io == s.at-last.at {
				last.bytes = s.io + s.bytes - last.io
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// within returns the parts of stretches that lie in the staging bytes [from, from+n). Their at is relative to from.
func within(list []stretch, from, n int64) (out []stretch) {
	for _, s := range list {
		begin, end := max(s.at, from), min(s.at+s.bytes, from+n)
		if begin < end {
			out = append(out, stretch{s.io + begin - s.at, begin - from, end - begin})
		}
	}
	return out
}

// planTransfers plans the staging buffers. Inputs are laid out like in the io space, at the same distances, so that
// join can merge their copies.
func (x *executable) planTransfers() {
	x.upAt, x.upBytes, x.downBytes = nil, 0, x.statusBytes()
	x.chunk = min(downloadChunk, x.gpu.limits.Buffer)
	if x.io.host != nil || x.pinned != nil {
		return
	}
	for _, n := range x.program.Graph.Inputs() {
		x.upAt = append(x.upAt, x.upBytes)
		x.upBytes += program.AlignUp(x.program.Places[n.ID].Size)
	}
	for _, o := range x.program.Graph.Outputs {
		x.downBytes += program.AlignUp(x.program.Places[o.Node.ID].Size)
	}
}

// makeStaging allocates the staging buffers.
func (x *executable) makeStaging() (err error) {
	if x.up, err = x.gpu.newStaging(ToDevice, x.upBytes); err != nil {
		return err
	}
	for at := int64(0); at < x.downBytes || at == 0; at += x.chunk {
		s, err := x.gpu.newStaging(ToHost, min(x.chunk, x.downBytes-at))
		if err != nil {
			return err
		}
		x.down = append(x.down, s)
	}
	if len(x.loops) > 0 {
		for range maxInFlight + 1 {
			s, err := x.gpu.newStaging(ToHost, x.statusBytes())
			if err != nil {
				return err
			}
			x.snaps = append(x.snaps, s)
		}
	}
	return nil
}

// stagingBytes returns the total size of the staging buffers.
func (x *executable) stagingBytes() int64 {
	n := x.up.size
	for _, s := range slices.Concat(x.down, x.snaps) {
		n += s.size
	}
	return n
}

func (x *executable) releaseStaging() {
	x.up.release()
	for _, s := range slices.Concat(x.down, x.snaps) {
		s.release()
	}
	x.up, x.down, x.snaps = nil, nil, nil
}

// statusBytes returns the size of the status slots, in which shaders report values that they refuse. The slots are at
// the beginning of the first staging buffer for results.
func (x *executable) statusBytes() int64 { return int64(x.statuses) * program.Align }

// uploads returns the copies of inputs to the device.
func (x *executable) uploads(r *device.Run) (list []stretch) {
	if x.io.host != nil {
		return nil
	}
	for i, o := range x.bound.Inputs {
		if r.Fed(i) || o.Bytes == 0 {
			continue
		}
		at := o.Offset
		if x.pinned == nil {
			at = x.upAt[i]
		}
		list = append(list, stretch{o.Offset, at, o.Bytes})
	}
	return list
}

// downloads returns the copies of results to the host. end is the end of the last one in the staging buffers.
func (x *executable) downloads(r *device.Run) (list []stretch, end int64) {
	end = x.statusBytes()
	if x.io.host != nil || x.pinned != nil {
		return nil, end
	}
	for i, o := range x.bound.Outputs {
		if r.Wants(i) && o.Bytes > 0 {
			list = append(list, stretch{o.Offset, end, o.Bytes})
			end += program.AlignUp(o.Bytes)
		}
	}
	return list, end
}

// writeInputs copies the inputs of a run to the staging buffer.
func (x *executable) writeInputs(r *device.Run) error {
	list := x.uploads(r)
	if len(list) == 0 || x.pinned != nil {
		return nil
	}
	return x.gpu.access(x.up, x.up.size, time.Time{}, func(to []byte) {
		for _, s := range list {
			tensor.Copy(to[s.at:s.at+s.bytes], r.IO[s.io:s.io+s.bytes])
		}
	})
}

// inputs records the copies before the steps.
func (c *recording) inputs() error {
	x := c.exec
	if err := c.begin(); err != nil {
		return err
	}
	from := x.up.buffer
	if x.pinned != nil {
		from = x.pinned
	}
	for _, s := range join(x.uploads(&c.run)) {
		if err := c.copySpace(x.io, s.io, s.bytes, from, s.at, false); err != nil {
			return err
		}
	}
	return c.transfer(c.run.Feeds, x.bound.Inputs, false)
}

// outputs records the copies after the steps. The copies to each staging buffer after the first are a submission of
// their own.
func (c *recording) outputs() error {
	x := c.exec
	if err := c.transfer(c.run.Keeps, x.bound.Outputs, true); err != nil {
		return err
	}
	if c.clock != nil {
		if err := c.enc.Collect(c.clock); err != nil {
			return err
		}
	}
	if x.statuses > 0 {
		if err := c.copySpace(x.status, 0, x.statusBytes(), x.down[0].buffer, 0, true); err != nil {
			return err
		}
	}
	for _, s := range x.pinnedOutputs(&c.run, c.copied) {
		if err := c.copySpace(x.io, s.io, s.bytes, x.pinned, s.at, true); err != nil {
			return err
		}
	}
	list, end := x.downloads(&c.run)
	list = join(list)
	for k := 0; int64(k)*x.chunk < end; k++ {
		if k > 0 {
			if err := c.nextDownload(); err != nil {
				return err
			}
		}
		for _, s := range within(list, int64(k)*x.chunk, x.chunk) {
			if err := c.copySpace(x.io, s.io, s.bytes, x.down[k].buffer, s.at, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// pinnedOutputs returns the copies of results to pinned memory. Outputs with nothing between them, where the host may
// have other values, are copied together. copied are those that have been copied already; nil means none.
func (x *executable) pinnedOutputs(r *device.Run, copied []bool) (list []stretch) {
	if x.pinned == nil {
		return nil
	}
	for i, o := range x.bound.Outputs {
		if !r.Wants(i) || o.Bytes == 0 || copied != nil && copied[i] {
			continue
		}
		if k := len(list) - 1; k >= 0 && o.Offset == program.AlignUp(list[k].io+list[k].bytes) {
			list[k].bytes = o.Offset + o.Bytes - list[k].io
			continue
		}
		list = append(list, stretch{o.Offset, o.Offset, o.Bytes})
	}
	return list
}

// nextDownload ends the submission before the copies to another staging buffer.
func (c *recording) nextDownload() error {
	end := c.submit
	if c.tape != nil {
		end = c.endSubmission
	}
	if err := end(); err != nil {
		return err
	}
	c.downloading = true
	return c.begin()
}

// results waits for the device and copies the results to the host. If a shader refused a value, it returns an error
// instead.
func (c *recording) results() error {
	x := c.exec
	list, end := x.downloads(&c.run)
	for k := 0; int64(k)*x.chunk < end; k++ {
		if err := x.down[k].show(min(x.chunk, end-int64(k)*x.chunk)); err != nil {
			return x.gpu.seen(err)
		}
	}
	if x.upBytes > 0 { // so that the next run can write its inputs at once
		if err := x.up.show(x.up.size); err != nil {
			return x.gpu.seen(err)
		}
	}
	var due time.Time
	if pace := x.sizes.pace; pace > 0 {
		due = c.start.Add(c.submitted + pace*time.Duration(c.dispatches()))
	}
	if end == 0 {
		if err := x.gpu.wait(due); err != nil {
			return err
		}
		c.measure()
	}
	var refused error
	for k := 0; int64(k)*x.chunk < end; k++ {
		from, err := x.gpu.await(x.down[k], due)
		if err != nil {
			return err
		}
		if k == 0 {
			c.measure()
			refused = x.refused(from)
		}
		if refused == nil {
			for _, s := range within(list, int64(k)*x.chunk, x.chunk) {
				tensor.Copy(c.run.IO[s.io:s.io+s.bytes], from[s.at:s.at+s.bytes])
			}
		}
		if err := x.down[k].hide(); err != nil {
			return err
		}
	}
	if x.up.shown > 0 {
		if _, err := x.gpu.await(x.up, due); err != nil {
			return err
		}
	}
	if refused == nil {
		x.unclear = len(x.loops) > 0 // their controls count
	}
	return refused
}

// measure sets the pace, if this is a plain run. It is called when the device has finished.
func (c *recording) measure() {
	if n := c.dispatches(); n > 0 && c.plain() {
		c.exec.pace = (time.Since(c.start) - c.submitted) / time.Duration(n)
		c.exec.sizes.pace = c.exec.pace
	}
}

// paceOf returns the average time of a dispatch in the last plain run of the same sizes or, before the first, of any.
func (x *executable) paceOf() time.Duration { return cmp.Or(x.sizes.pace, x.pace) }

// dispatches returns the number of dispatches of the run. All have been submitted.
func (c *recording) dispatches() int {
	if len(c.exec.loops) > 0 {
		return c.flow.all
	}
	return len(c.exec.dispatches)
}

// word returns a word of a status slot.
func word(statuses []byte, slot, k int) uint32 {
	return binary.LittleEndian.Uint32(statuses[slot*program.Align+4*k:])
}

// refusal returns the error of a node whose shader has reported a bad value.
func refusal(n *ir.Node) error {
	k, _ := kernels.Find(n)
	return device.StepError(
		device.ErrInput, n, errors.New(cmp.Or(k.Refuses, "an index is out of range, or a divisor is 0")))
}

// clearStatus clears the status words, unless they are known to be zero.
func (x *executable) clearStatus() error {
	if x.unclear {
		err := x.gpu.commands(
			func(enc Encoder) error { return enc.Clear(Piece{x.status.buffers[0], 0, x.statusBytes()}) })
		if err != nil {
			return err
		}
	}
	x.unclear = x.statuses > 0
	return nil
}
