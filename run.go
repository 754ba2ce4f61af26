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
	Inputs map[string]Tensor // by name; must not change before Run returns. Optional inputs may be missing

	// State is the state that the run reads and updates. It is nil for methods without one (Model.States).
	State *State
	// Feeds holds inputs that are already on the device, by name. They need not be in Inputs.
	Feeds map[string]*Resident
	// Keep names outputs that also stay on the device, in Result.Kept.
	Keep []string
	// Outputs names the outputs to return; nil means all. Steps that only other outputs need are skipped.
	Outputs []string

	// Queued, if not nil, is called once when the run has its place among those of the session: runs that are asked for
	// later come after it on every device.
	Queued func()
	// Progress, if not nil, is called with the number of finished steps, at most ten times a second and once at the
	// end.
	Progress func(done, total int)

	// Profile fills Result.Steps. It may slow the run down.
	Profile bool
	// CheckNaN ends the run at the first step whose result has a NaN. The error matches ErrNaN and names the step.
	CheckNaN bool
	// Check compares each step with the reference evaluation of its op, which is very slow. If a step differs by more
	// than its op allows, the error matches ErrCheck. It works only in precision f32.
	Check bool
	// Observe, if not nil, receives the values of steps in order, as they are computed. The bytes of the tensor are
	// valid until it returns. An error ends the run, and Run returns it.
	Observe func(StepValue, Tensor) error
	// Select selects the values that Observe gets; nil means all.
	Select func(StepValue) bool
}

// A Runner runs methods of a model. A *Session is one. Packages such as segment take a Runner, so that a program can
// put something in front of a session, for example to set Request.CheckNaN in each request.
type Runner interface {
	Model() *Model
	Run(ctx context.Context, r Request) (*Result, error)
}

// A Result holds the results of a run.
type Result struct {
	Outputs map[string]Tensor    // by name; they belong to the caller
	Sizes   map[string]int64     // values of the method's symbols
	Kept    map[string]*Resident // outputs named by Request.Keep; close them

	Start    time.Time
	Duration time.Duration // from the call to readable outputs

	Crossings Crossings  // between the backends, if the method has several segments
	Steps     []StepTime // if Request.Profile is set
	Clock     string     // clock of Steps: "host", "device", or both if backends differ
	// peak resident memory of the backends' processes in bytes; 0 if the system does not report it
	PeakMemory int64
	// size of the method's buffers in the memory of a device, in bytes; 0 if the device uses host memory
	DeviceMemory int64
}

// Crossings holds the costs of running a method on several backends in turn.
type Crossings struct {
	Switches int   // switches from one backend to the next
	Values   int   // values that one backend computed and another read
	Bytes    int64 // size of these values; each read counts
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

// Run executes a method once, and loads it first if necessary. It may be called concurrently; the session runs one
// method at a time, or with Options.Devices one on each device. When ctx is done, a waiting run ends at once, and a
// running one between two steps. The session stays usable unless the error matches ErrLost.
//
// Errors match ErrInput, ErrUsage, ErrState, ErrNaN, ErrCheck, ErrDevice, ErrMemory, ErrChanged or ErrLost, or are
// those of Load, or the context's cause.
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
	x := &execution{s: s, l: l, r: r, sizes: sizes,
		res: &Result{Outputs: map[string]Tensor{}, Sizes: maps.Clone(sizes)}}
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

// flops returns the number of arithmetic operations of one step. A multiply-add counts as two.
func flops(s program.BoundStep) int64 {
	return s.Node.Op.FLOPs(s.Node.Attrs, staticTypes(s.In), staticTypes(s.Outs)...)
}
