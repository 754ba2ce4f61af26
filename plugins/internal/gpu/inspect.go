package gpu

import (
	"slices"

	"github.com/rlx-go/rlx/core/device"
)

// Inspection lets tests in other packages inspect and change a loaded program.
type Inspection struct{ exec *executable }

// Inspect returns an Inspection of a program that a Backend has loaded.
func Inspect(e device.Executable) Inspection { return Inspection{e.(*executable)} }

// Texts returns the shader texts of all dispatches.
func (i Inspection) Texts() (out []string) {
	for _, x := range i.exec.all() {
		for _, d := range x.each() {
			out = append(out, d.source.Text)
		}
	}
	return out
}

// Groups returns the number of groups of steps that one shader can run.
func (i Inspection) Groups() int { return i.exec.groups }

// Workgroups returns the number of workgroups of a dispatch along x. The caller may change it.
func (i Inspection) Workgroups(dispatch int) *uint32 { return &i.exec.dispatches[dispatch].x }

// Recorded reports whether the next run is recorded already, and for which outputs; nil means all.
func (i Inspection) Recorded() (outputs []bool, ok bool) {
	if i.exec.tape == nil {
		return nil, false
	}
	return i.exec.tape.outputs, true
}

// Forget discards the recording of the next run.
func (i Inspection) Forget() {
	i.exec.dropTapes()
}

// Inside returns how many copies in 16 bits lie in the memory of the value itself.
func (i Inspection) Inside() (n int) {
	for _, in := range i.exec.rounded.inside {
		if in {
			n++
		}
	}
	return n
}

// Slow makes the next run have a submission per dispatch, as if a dispatch took submissionTime. It returns how many
// submissions may be in flight.
func (i Inspection) Slow() (inFlight int) {
	i.Forget()
	i.exec.pace, i.exec.sizes.pace = submissionTime, submissionTime
	return maxInFlight
}

// Buffers returns all buffers of the program, those for parameters last. weights is the number of bytes of the
// weights section that the program reads.
func (i Inspection) Buffers() (out []Buffer, weights int64) {
	for _, s := range slices.Concat(i.exec.weights, i.exec.own()) {
		out = append(out, s.buffers...)
	}
	for _, r := range i.exec.resident {
		weights += r.to - r.from
	}
	for _, s := range slices.Concat([]*staging{i.exec.up}, i.exec.down, i.exec.snaps) {
		out = append(out, s.buffer)
	}
	for _, x := range i.exec.all() {
		out = append(out, x.params)
	}
	return out, weights
}
