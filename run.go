package rlx

import (
	"context"
	"maps"
	"time"

	"github.com/rlx-go/rlx/core/program"
)

// A Request is one run of a method. Method and Inputs must be given.
type Request struct {
	Method string
	Inputs map[string]Tensor // by the names of the method's inputs; they must not change before Run returns. Optional ones may be missing

	// State is the state that the run reads and updates; nil for methods without one (Model.States).
	State *State
	// Feeds are inputs that are already on the device. They need not be in Inputs.
	Feeds map[string]*Resident
	// Keep names outputs that also stay on the device, in Result.Kept.
	Keep []string
	// Outputs names the outputs to return; nil means all. Steps that only other outputs need are not run.
	Outputs []string

	// Progress, if not nil, is called with the number of steps that are done, at most ten times a second and once at the end.
	Progress func(done, total int)

	// Profile fills Result.Steps. It may slow the run down.
	Profile bool
	// CheckNaN ends the run at the first step whose result holds a NaN, with an error that matches ErrNaN and names the step.
	CheckNaN bool
	// Check compares each step with the reference evaluation of its op, which is very slow. The error of a step that
	// differs by more than its op allows matches ErrCheck. Only in precision f32.
	Check bool
	// Observe, if not nil, gets the values of steps in their order, as they are computed. The tensor's bytes are valid until it
	// returns. An error ends the run, which returns it.
	Observe func(StepValue, Tensor) error
	// Select selects the values that Observe gets; nil means all.
	Select func(StepValue) bool
}

// A Result is the result of a run.
type Result struct {
	Outputs map[string]Tensor    // by the names of the method's outputs; they are the caller's
	Sizes   map[string]int64     // values of the method's symbols
	Kept    map[string]*Resident // those that Request.Keep names; close them

	Start    time.Time
	Duration time.Duration // from the call to readable outputs

	Crossings    Crossings  // between the backends of a method that runs in pieces
	Steps        []StepTime // if Request.Profile is set
	Clock        string     // that measured Steps: "host", "device", or both where backends differ
	PeakMemory   int64      // resident in the backends' processes, in bytes; 0 if the system does not report it
	DeviceMemory int64      // size of the method's buffers in a device's own memory, in bytes; 0 if the device uses the host's
}

// Crossings are the costs of running a method on several backends in turn.
type Crossings struct {
	Switches int   // from one backend to the next
	Values   int   // that one backend computed and another read
	Bytes    int64 // of these values, each read counted
	// Time is the part of Result.Duration in which no backend computed: calls, and copies of inputs, outputs and the
	// values that cross.
	Time time.Duration
}

func (c *Crossings) add(d Crossings) {
	c.Switches, c.Values, c.Bytes, c.Time = c.Switches+d.Switches, c.Values+d.Values, c.Bytes+d.Bytes, c.Time+d.Time
}

// A StepTime is one step of a profile.
type StepTime struct {
	StepValue               // the step's first result
	Attrs     string        // of the op: "axis=1"
	Types     []string      // of its results: "f32[1,64,32,32]"
	Start     time.Duration // since the start of the run
	Time      time.Duration
	FLOPs     int64 // a multiply-add counts as two
	Bytes     int64 // of operands and results, each once
}

// Run executes a method once and loads it first if necessary. Several goroutines may call it; the session runs one
// method at a time. When ctx is done, a waiting run ends at once and a running one between two steps. The session stays
// usable unless the error matches ErrLost.
//
// Errors match ErrInput, ErrUsage, ErrState, ErrNaN, ErrCheck, ErrDevice, ErrMemory, ErrChanged, ErrLost, those of
// Load, or the context's cause.
func (s *Session) Run(ctx context.Context, r Request) (*Result, error) {
	m, err := s.model.Method(r.Method)
	if err != nil {
		return nil, err
	}
	sizes, err := m.sizes(r.Inputs, r.Feeds)
	if err != nil {
		return nil, err
	}
	l := s.ready(r.Method)
	if l == nil {
		if err := s.Load(ctx, r.Method); err != nil {
			return nil, err
		}
		l = s.ready(r.Method)
	}
	for _, x := range l.pieces {
		if err := x.binder.Check(sizes); err != nil {
			return nil, badSizes(m.Name, err)
		}
	}
	r.Inputs = m.complete(r.Inputs, r.Feeds, sizes)
	run, cancel := orderly(ctx)
	defer cancel()
	x := &execution{s: s, l: l, r: r, sizes: sizes, res: &Result{Outputs: map[string]Tensor{}, Sizes: maps.Clone(sizes), Kept: map[string]*Resident{}}}
	if err := x.run(run); err != nil {
		closeAll(x.res.Kept)
		return nil, s.changed(ctx, err)
	}
	if len(l.pieces) > 1 {
		s.mu.Lock()
		l.crossed.add(x.res.Crossings)
		s.mu.Unlock()
	}
	return x.res, nil
}

// flops counts the arithmetic of one step, a multiply-add as two.
func flops(s program.BoundStep) int64 {
	return s.Node.Op.FLOPs(s.Node.Attrs, staticTypes(s.In), staticTypes(s.Outs)...)
}
