package rlx

import (
	"context"
	"maps"
	"time"

	"github.com/rlx-go/rlx/core/device"
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
	// Keep names outputs that stay on the device, in Result.Kept, beside being returned.
	Keep []string
	// Outputs names the outputs that are returned; nil means all. Steps that only the others need are not run.
	Outputs []string

	// Progress, if not nil, is called with the number of steps that are done, at most ten times a second and once at the end.
	Progress func(done, total int)

	// Profile fills Result.Steps. It may slow the run down.
	Profile bool
	// CheckNaN ends the run at the first step whose result holds a NaN, with an error that matches ErrNaN and names the step.
	CheckNaN bool
	// Check compares each step with the reference evaluation of its op, which is very slow. The error of a step that differs by more
	// than its op allows matches ErrCheck. Only in precision f32.
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

	Steps        []StepTime // if Request.Profile is set
	Clock        string     // that measured Steps: "host" or "device"
	PeakMemory   int64      // resident in the backend's process, in bytes; 0 if the system does not report it
	DeviceMemory int64      // size of the method's buffers in a device's own memory, in bytes; 0 if the device uses the host's
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

// Run executes a method once, and loads it first if necessary. Runs of one session are serialised, so that several goroutines may share
// it. A context that is done ends a run that waits, and one that is executing between two steps. The session stays usable, unless the
// error matches ErrLost.
//
// Errors match ErrInput, ErrUsage, ErrState, ErrNaN, ErrCheck, ErrDevice, ErrMemory, ErrChanged, ErrLost, those of Load, or the context's cause.
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
	if err := l.binder.Check(sizes); err != nil {
		return nil, badSizes(m.Name, err)
	}
	r.Inputs = m.complete(r.Inputs, r.Feeds, sizes)
	run, cancel := orderly(ctx)
	defer cancel()
	w, err := s.watch(run, l, r, sizes)
	if err != nil {
		return nil, err
	}
	res, stats, err := s.run(run, l, r, sizes, w.options)
	if err == nil {
		err = s.model.unchanged() // the backend reads the weights from the file
	}
	if err == nil {
		err = w.verdict(stats)
	}
	if err == nil && r.Profile {
		err = res.profile(l, stats)
	}
	if err != nil {
		if res != nil {
			closeAll(res.Kept)
		}
		return nil, s.changed(ctx, err)
	}
	return res, nil
}

// run makes the call.
func (s *Session) run(ctx context.Context, l *loaded, r Request, sizes map[string]int64, o device.RunOptions) (*Result, device.Stats, error) {
	res := &Result{Outputs: map[string]Tensor{}, Sizes: maps.Clone(sizes), Start: time.Now()}
	call := device.Run{Syms: sizes, Opts: o}
	_, outputs := l.binder.IO(sizes)
	kept, err := s.stateOf(ctx, l, r, outputs, &call)
	if err != nil {
		return nil, device.Stats{}, err
	}
	res.Kept = kept
	if r.Progress != nil {
		call.Progress = func(step int) { r.Progress(step, len(l.prog.Steps)) }
	}
	var in [][]byte
	for _, v := range l.method.Inputs {
		in = append(in, r.Inputs[v.Name].Data)
	}
	out, stats, err := l.exe.RunTensors(ctx, call, in)
	if err != nil {
		return res, stats, err
	}
	for i, v := range l.method.Outputs {
		if !call.Wants(i) {
			continue
		}
		res.Outputs[v.Name] = Tensor{outputs[i].DType, outputs[i].Shape, out[i]}
	}
	res.Duration = time.Since(res.Start)
	res.PeakMemory, res.DeviceMemory = stats.PeakRSS, stats.DeviceMemory
	return res, stats, nil
}

// profile sets Result.Steps from the times of a run's steps.
func (r *Result) profile(l *loaded, stats device.Stats) error {
	bound, err := l.binder.Bind(r.Sizes)
	if err != nil {
		return err
	}
	if r.Clock = stats.Clock; r.Clock == "" {
		r.Clock = device.HostClock
	}
	i := 0
	for _, t := range stats.Steps { // steps that the run did not need have no times
		for i < len(bound.Steps) && bound.Steps[i].Node.ID != t.Node {
			i++
		}
		if i == len(bound.Steps) {
			break
		}
		b := bound.Steps[i]
		x := StepTime{StepValue: StepValue{i, b.Node.Op.Name, b.Node.Label()}, Attrs: b.Node.AttrText(), Start: t.Start, Time: t.Time, FLOPs: flops(b), Bytes: traffic(b)}
		for _, t := range staticTypes(b.Outs) {
			x.Types = append(x.Types, t.String())
		}
		r.Steps = append(r.Steps, x)
	}
	return nil
}

// flops counts the arithmetic of one step, a multiply-add as two.
func flops(s program.BoundStep) int64 {
	return s.Node.Op.FLOPs(s.Node.Attrs, staticTypes(s.In), staticTypes(s.Outs)...)
}
