package gpu

import (
	"sync/atomic"
	"unsafe"

	"github.com/rlx-go/rlx/core/program"
)

// Results that are complete before the last step are copied to pinned memory while the device computes the others, and
// the host is told: see device.Run.Ready. A large result is copied in parts, so that the host has most of it when the
// last part arrives. Each part is followed by a copy of a word that is not 0. When the host sees that word, the part
// has arrived.
type early struct {
	after map[int][]int // by step: the outputs that are complete after it
	one   Buffer        // a word that is not 0
	marks *staging      // a word for each part
}

const (
	earlyLeast = 1 << 20 // bytes of an output that is copied early
	earlyPart  = 8 << 20
	mostParts  = 512 // of all outputs; there are fewer, larger ones if that is too little
)

// part is a part of an output that is copied early.
type part struct {
	output int
	end    int64 // of the part, from the beginning of the output
}

// Beside is implemented by an Encoder that can copy beside other commands.
type Beside interface {
	// CopyBeside is like Copy, but later commands run meanwhile, so they must not write the piece. It begins when
	// earlier commands have ended, and ends before the submission does. These copies run in order.
	CopyBeside(to Buffer, at int64, from Piece) error
}

// planEarly finds the outputs that are complete before the end, unless a later step writes to their memory.
func (x *executable) planEarly() {
	x.early.after = nil
	if len(x.loops) > 0 || x.pinned == nil {
		return
	}
	step := map[int]int{} // by node; that of a group is its last one
	for i, s := range x.program.Steps {
		step[s.Node] = i
	}
	for i := range x.dispatches { // whose pipelines are being made
		d := &x.dispatches[i]
		for _, n := range d.steps {
			step[n.ID] = max(step[n.ID], d.step)
		}
	}
	after := map[int][]int{}
	for i, o := range x.program.Graph.Outputs {
		place := x.program.Places[o.Node.ID]
		by, _ := o.Node.Source().Maker()
		last, isStep := step[by.ID]
		if !isStep || place.Space != program.IO || place.Size < earlyLeast || x.writtenAfter(last, place) {
			continue
		}
		after[last] = append(after[last], i)
	}
	if len(after) > 0 {
		x.early.after = after
	}
}

// writtenAfter reports whether a step after one writes to a place.
func (x *executable) writtenAfter(step int, p program.Place) bool {
	for _, s := range x.program.Steps[step+1:] {
		for _, v := range x.program.Graph.Nodes[s.Node].Values() {
			if x.program.Places[v.ID].Overlaps(p) {
				return true
			}
		}
	}
	return false
}

// makeEarly makes the memory for marks, if there are early outputs and the device can copy beside other commands.
func (x *executable) makeEarly() error {
	x.planEarly()
	if x.early.after == nil {
		return nil
	}
	enc, err := x.gpu.dev.NewEncoder("")
	if err != nil {
		return err
	}
	_, ok := enc.(Beside)
	enc.Release()
	if !ok {
		x.early.after = nil
		return nil
	}
	if x.early.marks, err = x.gpu.newStaging(ToHost, 4*mostParts); err != nil {
		return err
	}
	if x.early.one, err = x.gpu.dev.NewBuffer("marks", 4, Storage); err != nil {
		x.early.one = nil
		return err
	}
	return x.gpu.dev.Upload(x.early.one, 0, []byte{1, 0, 0, 0}) // before any run, in the order of the stream
}

func (x *executable) releaseEarly() {
	x.early.marks.release()
	if x.early.one != nil {
		x.early.one.Release()
	}
	x.early = early{}
}

// copyEarly records the copies of the outputs that are complete after a step.
func (c *recording) copyEarly(step int) error {
	x := c.exec
	outputs := x.early.after[step]
	if len(outputs) == 0 || !c.plain() {
		return nil
	}
	to, ok := c.enc.(Beside)
	if !ok {
		return nil
	}
	size := max(earlyPart, program.AlignUp(2*x.program.IOSize/mostParts))
	for _, i := range outputs {
		o := x.bound.Outputs[i]
		parts := int((o.Bytes + size - 1) / size)
		if !c.run.Wants(i) || o.Bytes < earlyLeast || len(c.parts)+parts > mostParts {
			continue
		}
		for from := int64(0); from < o.Bytes; from += size {
			end, at := min(from+size, o.Bytes), o.Offset+from
			for _, p := range x.io.pieces(at, (end-from+3)&^3, 0) {
				if err := to.CopyBeside(x.pinned, at, p); err != nil {
					return err
				}
				at += p.Size
			}
			mark := Piece{x.early.one, 0, 4}
			if err := to.CopyBeside(x.early.marks.buffer, int64(4*len(c.parts)), mark); err != nil {
				return err
			}
			c.parts = append(c.parts, part{i, end})
		}
		if c.copied == nil {
			c.copied = make([]bool, len(x.bound.Outputs))
		}
		c.copied[i] = true
	}
	return nil
}

// clearMarks prepares the marks for a run. No submission uses them.
func (x *executable) clearMarks() {
	if x.early.after != nil {
		clear(x.early.marks.buffer.Bytes(4 * mostParts))
	}
}

// reportReady tells the host about the parts that have arrived.
func (c *recording) reportReady() {
	if c.run.Ready == nil || c.arrived == len(c.parts) {
		return
	}
	marks := c.exec.early.marks.buffer.Bytes(4 * mostParts)
	for ; c.arrived < len(c.parts); c.arrived++ {
		if atomic.LoadUint32((*uint32)(unsafe.Pointer(&marks[4*c.arrived]))) == 0 {
			return
		}
		p := c.parts[c.arrived]
		c.run.Ready(p.output, p.end)
	}
}
