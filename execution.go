package rlx

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
)

// An execution is one run of a method: it runs the segments in turn. Most methods have one segment. A value that one
// segment computes and another reads passes through the host, which copies it from the memory shared with one backend
// to the memory shared with the other.
type execution struct {
	s     *Session
	l     *loaded
	r     Request
	sizes map[string]int64
	res   *Result

	wants  wants
	values [][]Tensor // by segment and output
	spent  time.Duration
	rss    []peak
	clocks []string
}

// peak is the most memory that a backend's process has used.
type peak struct {
	of    *worker
	bytes int64
}

// peak notes the peak memory of a backend after a segment.
func (x *execution) peak(of *worker, bytes int64) {
	for i := range x.rss {
		if p := &x.rss[i]; p.of == of {
			p.bytes = max(p.bytes, bytes)
			return
		}
	}
	x.rss = append(x.rss, peak{of, bytes})
}

// run runs the segments that are needed. Kept outputs belong to the caller, even after an error.
func (x *execution) run(ctx context.Context) error {
	s, l := x.s, x.l
	var err error
	if x.wants, err = l.check(s, x.r); err != nil {
		return err
	}
	at, turn := s.line, s.line.join()
	if x.r.Queued != nil {
		x.r.Queued()
	}
	if err := at.wait(ctx, turn); err != nil {
		return err
	}
	defer func() { at.leave() }()
	split := l.schedule.split
	need := split.Needed(x.wants.returned, x.wants.kept)
	x.values = make([][]Tensor, len(l.pieces))
	x.res.Start = time.Now()
	updated, last := false, -1
	for k, seg := range l.pieces {
		if need[k] == nil {
			continue
		}
		if seg.line != at {
			// join the next line before the turn in this one ends, so that no later run overtakes
			turn = seg.line.join()
			at.leave()
			at = seg.line
			if err = at.wait(ctx, turn); err != nil {
				at = newLine() // it has no turn to end
				break
			}
		}
		if err = x.piece(ctx, k, need[k]); err != nil {
			s.lose(seg.worker, err)
			break
		}
		updated = updated || seg.prog.Updates()
		if last >= 0 && l.pieces[last].worker != seg.worker {
			x.res.Crossings.Switches++
		}
		last = k
	}
	if err != nil {
		if updated {
			x.r.State.invalidate(ctx) // the backend's session does this only for the segment that failed
		}
		return err
	}
	for i, from := range split.Outputs {
		if x.wants.returned == nil || x.wants.returned[i] {
			x.res.Outputs[l.method.Outputs[i].Name] = x.values[from.Segment][from.Index]
		}
	}
	x.res.Duration = time.Since(x.res.Start)
	if len(l.pieces) > 1 {
		x.res.Crossings.Time = x.res.Duration - x.spent
	}
	x.res.Clock = strings.Join(x.clocks, " and ")
	for _, p := range x.rss {
		x.res.PeakMemory += p.bytes
	}
	return s.model.unchanged() // the backends map the weights from the file
}

// piece runs one segment and returns the outputs for which need is true.
func (x *execution) piece(ctx context.Context, k int, need []bool) error {
	seg, r := x.l.pieces[k], x.r
	in, fed, err := x.inputs(ctx, seg)
	if err != nil {
		return err
	}
	w, err := x.s.watch(ctx, x.l, seg, r, x.sizes, in, fed)
	if err != nil {
		return err
	}
	call := device.Run{Syms: x.sizes, Opts: w.options}
	if slices.Contains(need, false) {
		call.Outputs = need
	}
	if r.State != nil && (seg.prog.StateSize > 0 || len(x.l.pieces) == 1) {
		if m := r.State.on(seg.worker); m != nil {
			call.State = m.dev
		}
	}
	bytes := make([][]byte, len(in))
	for i, t := range in {
		bytes[i] = t.Data
		if f := fed[i]; f != nil {
			call.Feeds = append(call.Feeds, device.Transfer{Tensor: i, State: f.memory.dev, Offset: f.offset})
		}
	}
	outputs := seg.binder.Outputs(x.sizes)
	if err := x.keep(ctx, k, outputs, &call); err != nil {
		return err
	}
	if r.Progress != nil {
		call.Progress = func(step int) { r.Progress(seg.first+step, x.l.schedule.split.Steps()) }
	}
	began := time.Since(x.res.Start)
	out, stats, err := seg.exe.RunTensors(ctx, call, bytes)
	if err != nil {
		return x.at(k, err)
	}
	if err := w.verdict(stats); err != nil {
		return err
	}
	x.values[k] = make([]Tensor, len(outputs))
	for i, o := range outputs {
		if call.Wants(i) {
			x.values[k][i] = Tensor{DType(o.DType), o.Shape, out[i]}
		}
	}
	x.spent += stats.Total
	x.peak(seg.worker, stats.PeakRSS)
	x.res.DeviceMemory += stats.DeviceMemory
	if r.Profile {
		return x.profile(seg, stats, began)
	}
	return nil
}

// at adds the segment to an error of a backend, which counts only the steps of its segment.
func (x *execution) at(k int, err error) error {
	e, ok := err.(*diag.Error)
	if !ok || len(x.l.pieces) == 1 {
		return err
	}
	c := *e
	c.Msg = fmt.Sprintf("segment %d of %d: %s", k+1, len(x.l.pieces), c.Msg)
	return &c
}

// inputs returns the inputs of a segment. fed has those that are on its device, by number.
func (x *execution) inputs(ctx context.Context, seg *piece) (in []Tensor, fed map[int]*Resident, err error) {
	in = make([]Tensor, len(seg.inputs))
	for i, from := range seg.inputs {
		if from.Segment != program.FromInput {
			in[i] = x.values[from.Segment][from.Index]
			if in[i].Data != nil { // otherwise no needed step reads it
				x.res.Crossings.Values++
				x.res.Crossings.Bytes += int64(len(in[i].Data))
			} else if in[i], err = x.unread(seg, i); err != nil {
				return nil, nil, err
			}
			continue
		}
		name := x.l.method.Inputs[from.Index].Name
		switch f := x.r.Feeds[name]; {
		case f == nil:
			in[i] = x.r.Inputs[name]
		case f.memory.on == seg.worker:
			if fed == nil {
				fed = map[int]*Resident{}
			}
			fed[i] = f
		default:
			if in[i], err = f.Read(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	return in, fed, nil
}

// unread returns a value for an input that the run does not read.
func (x *execution) unread(seg *piece, i int) (Tensor, error) {
	inputs, _ := seg.binder.IO(x.sizes)
	o := inputs[i]
	return Tensor{DType: DType(o.DType), Shape: o.Shape, Data: make([]byte, o.Bytes)}, nil
}

// keep allocates device memory for the outputs of a segment that stay on its device.
func (x *execution) keep(ctx context.Context, k int, outputs []program.Operand, call *device.Run) error {
	for i, v := range x.l.method.Outputs {
		from := x.l.schedule.split.Outputs[i]
		if x.wants.kept == nil || !x.wants.kept[i] || from.Segment != k {
			continue
		}
		o := outputs[from.Index]
		seg := x.l.pieces[k]
		m, err := x.s.allocate(ctx, seg.worker, kept, program.AlignUp(o.Bytes))
		if err != nil {
			return err
		}
		if x.res.Kept == nil {
			x.res.Kept = map[string]*Resident{}
		}
		x.res.Kept[v.Name] = &Resident{DType(o.DType), o.Shape, m, 0}
		call.Keeps = append(call.Keeps, device.Transfer{Tensor: from.Index, State: m.dev})
	}
	return nil
}

// profile adds the times of the steps of a segment, which started at began after the start of the run.
func (x *execution) profile(seg *piece, stats device.Stats, began time.Duration) error {
	bound, err := seg.binder.Bind(x.sizes)
	if err != nil {
		return err
	}
	clock := stats.Clock
	if clock == "" {
		clock = device.HostClock
	}
	if !slices.Contains(x.clocks, clock) {
		x.clocks = append(x.clocks, clock)
	}
	if seg.first == 0 {
		began = 0 // the first segment started with the run; waiting does not count as the time of a step
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
		y := StepTime{StepValue: stepValue(seg.first+i, b.Node), Attrs: b.Node.AttrText(), Start: began + t.Start,
			Time: t.Time, FLOPs: flops(b), Bytes: traffic(b)}
		for _, t := range staticTypes(b.Outs) {
			y.Types = append(y.Types, t.String())
		}
		if t.FLOPs != nil { // of the iterations of a loop that ran
			y.FLOPs = min(*t.FLOPs, y.FLOPs)
		}
		x.res.Steps = append(x.res.Steps, y)
	}
	return nil
}
