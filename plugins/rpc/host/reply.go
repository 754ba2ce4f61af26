package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// receiveOutput appends a chunk to an output. It rejects bytes beyond the output's size, which the host computed from
// the program.
func (x *hostRun) receiveOutput(c *rlxv1.Chunk) error {
	if x.staged == nil {
		return lost(code.Protocol, x.e.session.name, "sent an output in chunks instead of shared memory")
	}
	x.phase = "while it sent the outputs"
	i, want := int(c.GetIndex()), x.bound.Outputs
	if len(c.Data) > wire.MaxChunk {
		return tooLong(x.e.session.name, len(c.Data))
	}
	if i < 0 || i >= len(want) || !x.r.Wants(i) || int64(len(c.Data)) > want[i].Size-int64(len(x.staged[i])) {
		return lost(code.Protocol, x.e.session.name, "sent %d bytes for output %d, which does not need them",
			len(c.GetData()), i)
	}
	x.staged[i] = append(x.staged[i], c.Data...)
	return nil
}

// tooLong returns the error for a chunk over the limit.
func tooLong(name string, n int) error {
	return lost(code.Protocol, name, "sent a chunk of %d bytes; at most %d", n, wire.MaxChunk)
}

// receiveDump appends a chunk to the value of a node. When the value is complete, it passes the value to the caller's
// observer.
func (x *hostRun) receiveDump(d *rlxv1.Dump) error {
	s, p := x.e.session, x.e.prog
	node := int(d.GetNode())
	if node < 0 { // dumpAt is -1 between two values
		return lost(code.Protocol, s.name, "sent the value of node %d, which does not exist", node)
	}
	if d.GetFirst() {
		if !slices.Contains(x.dumps, node) || x.dumpAt >= 0 {
			return lost(code.Protocol, s.name, "sent the value of node %d, which was not requested", node)
		}
		if x.dumps[0] != node {
			return lost(code.Protocol, s.name, "sent the value of node %d; want node %d first", node, x.dumps[0])
		}
		x.dumps = x.dumps[1:]
		x.dumpAt, x.shape, x.dump = node, p.Graph.Nodes[node].Type.Shape.Eval(x.r.Syms), nil
		for i, n := range d.Shape {
			if i >= len(x.shape) || n != int64(x.shape[i]) || len(d.Shape) != len(x.shape) {
				return lost(code.Protocol, s.name, "sent node %d with shape %v; it has %v", node, d.Shape, x.shape)
			}
		}
	}
	if len(d.GetData()) > wire.MaxChunk {
		return tooLong(s.name, len(d.GetData()))
	}
	if node != x.dumpAt {
		return lost(code.Protocol, s.name, "continued the value of node %d, which it had not begun", node)
	}
	size := p.Graph.Nodes[node].Type.Bytes(x.r.Syms)
	if int64(len(d.GetData())) > size-int64(len(x.dump)) {
		return lost(code.Protocol, s.name, "sent more than the %d bytes of node %d", size, node)
	}
	x.dump = append(x.dump, d.Data...)
	if int64(len(x.dump)) < size {
		return nil
	}
	x.dumpAt = -1
	if x.r.Opts.Observe == nil || x.refused != nil {
		return nil
	}
	s.running.observing.Store(true)
	err := x.r.Opts.Observe(node, x.shape, x.dump)
	s.running.observing.Store(false)
	if err != nil {
		return &observeError{err}
	}
	return nil
}

// observeError wraps an error of the caller's observer.
type observeError struct{ err error }

func (e *observeError) Error() string { return e.err.Error() }
func (e *observeError) Unwrap() error { return e.err }

// receiveDone checks and stores the summary of a run.
func (x *hostRun) receiveDone(d *rlxv1.Done) error {
	s := x.e.session
	x.phase = "in its summary of a run"
	if d.GetGeneration() != x.header.Generation {
		return lost(code.Protocol, s.name, "answered with the result of run %d; want %d", d.GetGeneration(),
			x.header.Generation)
	}
	for i, b := range x.staged {
		if int64(len(b)) != x.bound.Outputs[i].Size && x.r.Wants(i) {
			return lost(code.Protocol, s.name, "sent %d bytes of output %d; it has %d", len(b), i,
				x.bound.Outputs[i].Size)
		}
	}
	if x.dumpAt >= 0 {
		return lost(code.Protocol, s.name, "ended a run before the value of node %d was complete", x.dumpAt)
	}
	if len(x.dumps) > 0 {
		return lost(code.Protocol, s.name, "ended a run without the value of node %d, which was requested", x.dumps[0])
	}
	if d.TotalNs < 0 || d.PeakRss < 0 || d.DeviceMemory < 0 {
		return lost(code.Protocol, s.name, "sent statistics out of range (%d ns, %d bytes, %d bytes of device memory)",
			d.TotalNs, d.PeakRss, d.DeviceMemory)
	}
	if d.FirstNan != -1 {
		return lost(
			code.Protocol, s.name, "ended a run with first_nan %d; want -1, or the error %s if check_nan found a NaN",
			d.FirstNan, device.ErrNaN)
	}
	if d.Steps != 0 && !x.r.Opts.Profile {
		return lost(code.Protocol, s.name, "announced the times of %d steps; want 0, because the run was not profiled",
			d.Steps)
	}
	if d.Steps != 0 {
		ran, all, most := len(x.ran()), len(x.e.prog.Steps), ""
		if x.skips() {
			most = "at most "
		}
		if n := int(d.Steps); n < 0 || n > ran || n < ran && most == "" {
			return lost(
				code.Protocol, s.name,
				"announced the times of %d steps; want %s%[3]d, because %[2]s%[3]d of %[4]d steps ran, or 0 if it measures none",
				d.Steps, most, ran, all)
		}
	}
	x.stats.Total, x.stats.PeakRSS = time.Duration(d.TotalNs), d.PeakRss
	x.stats.DeviceMemory, x.steps = d.DeviceMemory, int(d.Steps)
	if d.Steps > 0 {
		x.stats.Clock = device.HostClock
		if d.DeviceClock {
			x.stats.Clock = device.DeviceClock
		}
	}
	return nil
}

// skips reports whether the backend may have left out steps that compute what a condition makes unnecessary
// (program.Skips).
func (x *hostRun) skips() bool { return x.e.prog.Skips() != nil }

// ran returns the indices of the program's steps that the run needs. A profiled run has a time for each of them that
// was not skipped, and none for the others.
func (x *hostRun) ran() (steps []int) {
	p := x.e.prog
	needed := p.Needed(x.r.Computed(), x.r.Opts.Dump)
	for i := range p.Steps {
		if needed == nil || needed[i] {
			steps = append(steps, i)
		}
	}
	return steps
}

// stepTime checks the time of a step. ran has the steps whose times are still to come, if the backend did not
// skip them; it is the one at place at.
func (x *hostRun) stepTime(t *rlxv1.Step, ran []int, skips bool) (y device.Step, at int, err error) {
	s, p := x.e.session, x.e.prog
	node := func(at int) *ir.Node { return p.Graph.Nodes[p.Steps[ran[at]].Node] }
	for skips && at < len(ran)-1 && node(at).ID != int(t.GetNode()) {
		at++
	}
	n := node(at)
	step := &wire.StepError{Step: ran[at] + 1, Steps: len(p.Steps), Op: n.OpName(), Name: n.Label()}
	switch {
	case int(t.GetNode()) != n.ID:
		return y, 0, lost(code.Protocol, s.name,
			"sent the time of node %d in place %d of its list; want that of node %d, which is %v",
			t.GetNode(), len(x.stats.Steps)+1, n.ID, step)
	case t.GetStartNs() < 0 || t.GetTimeNs() < 0:
		return y, 0, lost(code.Protocol, s.name, "sent a negative time for %v: %d ns, %d ns after the start of the run",
			step, t.GetTimeNs(), t.GetStartNs())
	case t.GetFlops() < 0:
		return y, 0, lost(code.Protocol, s.name, "sent %d arithmetic operations for %v", t.GetFlops(), step)
	}
	y = device.Step{Node: n.ID, Start: time.Duration(t.StartNs), Time: time.Duration(t.TimeNs), FLOPs: t.Flops}
	return y, at, nil
}

// fetchSteps requests the time of each step of the last run.
func (x *hostRun) fetchSteps(ctx context.Context) error {
	s := x.e.session
	what := func() string { return "while it sent the step times of " + x.e.prog.Method }
	return s.call(ctx, s.opts.Timeouts.Stats, what, func(ctx context.Context) error {
		st, err := s.api.Stats(ctx, &rlxv1.StatsRequest{Executable: x.e.id, Generation: x.header.Generation})
		if err != nil {
			return err
		}
		ran, skips := x.ran(), x.skips()
		for {
			m, err := st.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if len(x.stats.Steps)+len(m.Steps) > x.steps {
				return lost(code.Protocol, s.name, "sent the times of more than %d steps", x.steps)
			}
			for _, t := range m.Steps {
				y, at, err := x.stepTime(t, ran, skips)
				if err != nil {
					return err
				}
				x.stats.Steps, ran = append(x.stats.Steps, y), ran[at+1:]
			}
		}
		if len(x.stats.Steps) != x.steps {
			return lost(code.Protocol, s.name, "sent the times of %d steps; want %d", len(x.stats.Steps), x.steps)
		}
		return nil
	})
}
