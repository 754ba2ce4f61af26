package gpu

import "github.com/rlx-go/rlx/core/device"

// Inspection is a loaded program as tests of the packages that use this one see it.
type Inspection struct{ x *executable }

// Inspect looks into a program of a Backend.
func Inspect(e device.Executable) Inspection { return Inspection{e.(*executable)} }

// Texts are the shaders of all dispatches.
func (i Inspection) Texts() (out []string) {
	for _, d := range i.x.dispatches {
		out = append(out, d.source.Text)
	}
	return out
}

// Groups is how many groups of steps have a shader of their own.
func (i Inspection) Groups() int { return i.x.groups }

// Workgroups are those of a dispatch along x, which may be changed.
func (i Inspection) Workgroups(dispatch int) *uint32 { return &i.x.dispatches[dispatch].x }

// Recorded reports whether the next run is recorded, and for which outputs.
func (i Inspection) Recorded() (outputs []bool, ok bool) {
	if i.x.tape == nil {
		return nil, false
	}
	return i.x.tape.outputs, true
}

// Forget drops what is recorded.
func (i Inspection) Forget() {
	i.x.tape.release()
	i.x.tape = nil
}

// Slow forgets, and has every dispatch seem as slow as a submission may be, so that each is one.
func (i Inspection) Slow() (inFlight int) {
	i.Forget()
	i.x.pace = submissionTime
	return maxInFlight
}

// Buffers are all of the program's, those of its parameters last. Weights is the size of what it reads of the weights section.
func (i Inspection) Buffers() (out []Buffer, weights int64) {
	for _, s := range []*space{i.x.weights, i.x.arena, i.x.io, i.x.scratch, i.x.status} {
		out = append(out, s.buffers...)
	}
	for _, r := range i.x.resident {
		weights += r.to - r.from
	}
	for _, s := range append([]*staging{i.x.up}, i.x.down...) {
		out = append(out, s.buffer)
	}
	return append(out, i.x.params), weights
}
