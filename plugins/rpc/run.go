package rpc

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// run waits until the session is free and then makes the call. tensors returns the caller's inputs and a function that returns its outputs.
// That function is called while the backend works, because large outputs take time to allocate.
func (e *Executable) run(ctx context.Context, r device.Run, tensors func(*binding) (in [][]byte, out func() [][]byte, err error)) (device.Stats, error) {
	s := e.s
	if err := s.takeTurn(ctx); err != nil {
		return noStats(), err
	}
	defer s.endTurn()
	b, err := e.binder.bind(r.Syms)
	if err != nil {
		return noStats(), diag.New(device.ErrInput, e.prog.Method, "%w", err)
	}
	in, out, err := tensors(b)
	if err != nil {
		return noStats(), err
	}
	s.generation++
	s.running.begin(e.prog, s.generation)
	defer s.running.end()
	h := &rlxv1.RunHeader{Executable: e.id, Syms: r.Syms, Generation: s.generation, Inputs: b.inputs,
		Outputs: b.outputs, Profile: r.Opts.Profile, CheckNan: r.Opts.CheckNaN}
	dumps := inStepOrder(e.prog, r.Opts.Dump)
	for _, n := range dumps {
		h.Dump = append(h.Dump, int32(n))
	}
	known := e.constants.known(r)
	asked := without(r, known)
	written, err := e.bindStates(asked, b, h)
	if err != nil {
		return noStats(), err
	}
	x := &hostRun{e: e, bound: b, in: in, alloc: out, known: known, r: asked, header: h, dumps: dumps, stats: noStats()}
	succeeded := invalidate(written)
	if err = x.run(ctx); err == nil {
		succeeded()
		e.constants.learn(r, x.out)
	}
	if err == nil && r.Opts.Profile {
		err = x.fetchSteps(ctx)
	}
	if err != nil {
		st := noStats()
		if n := nanIn(e.prog, err); n != nil {
			st.FirstNaN = n.ID
		}
		return st, err
	}
	if rss := s.peak.after(x.stats.Total, s.PeakRSS); rss > 0 {
		x.stats.PeakRSS = rss
	}
	return x.stats, nil
}

// inStepOrder returns those of nodes that steps compute, without duplicates, in the order in which a backend sends their values.
func inStepOrder(p *program.Program, nodes []int) []int {
	if len(nodes) == 0 {
		return nil
	}
	wanted := make([]bool, len(p.Graph.Nodes))
	for _, n := range nodes {
		wanted[n] = true
	}
	var out []int
	for _, s := range p.Steps {
		for _, n := range p.Graph.Nodes[s.Node].Values() {
			if wanted[n.ID] {
				out = append(out, n.ID)
			}
		}
	}
	return out
}

// nanIn returns the value in which err reports a NaN, or nil if it reports none.
func nanIn(p *program.Program, err error) *ir.Node {
	var at *StepError
	if !errors.Is(err, device.ErrNaN) || !errors.As(err, &at) || at.Step < 1 || at.Step > len(p.Steps) {
		return nil
	}
	values := p.Graph.Nodes[p.Steps[at.Step-1].Node].Values()
	return values[max(0, min(at.Result, len(values)-1))] // at.Result comes from the backend and is not trusted
}

// hostRun is one run on the host's side.
type hostRun struct {
	e      *Executable
	bound  *binding
	in     [][]byte
	alloc  func() [][]byte // returns the caller's outputs
	out    [][]byte        // what alloc has returned
	known  []bool          // outputs that the backend is not asked for; nil for none
	r      device.Run      // what the backend is asked for
	header *rlxv1.RunHeader
	dumps  []int // nodes whose values are still expected, in this order
	stats  device.Stats
	steps  int

	staged [][]byte // outputs received in chunks
	dump   []byte   // value that is being assembled
	dumpAt int      // node of dump; -1 for none
	shape  []int

	finished  chan struct{} // closed when the call has returned
	succeeded bool          // set before finished is closed
	refused   error         // error of the caller's observer; the run is cancelled because of it
}

// run makes the Run call. Cancelling ctx does not cancel its stream, because after a cancellation the region may be reused only once the
// run has ended.
func (x *hostRun) run(ctx context.Context) error {
	s, x0 := x.e.s, context.WithoutCancel(ctx)
	if d, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		x0, cancel = context.WithDeadline(x0, d)
		defer cancel()
	}
	x.finished = make(chan struct{})
	told := make(chan struct{})
	if x.r.Progress != nil {
		go func() {
			defer close(told)
			x.reportProgress()
		}()
	} else {
		close(told)
	}
	defer func() {
		close(x.finished)
		<-told
	}()
	defer context.AfterFunc(ctx, func() { x.cancelWith(ctx) })()
	var step *StepError
	what := func() string {
		step = s.stepOf(x.e.prog)
		return describeRun(x.e.prog, step)
	}
	err := s.call(x0, s.opts.Timeouts.Run, what, x.stream)
	if err == nil {
		x.succeeded = true
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return s.during(interrupted(s.name, ctx), what)
	}
	return x.atStep(err, step)
}

// atStep adds step to the chain of err. If err came from the backend and already names a step, atStep adds the name of the step's node.
func (x *hostRun) atStep(err error, step *StepError) error {
	var e *diag.Error
	if !errors.As(err, &e) {
		return err
	}
	var sent *StepError
	if errors.As(err, &sent) {
		if p := x.e.prog; sent.Step <= len(p.Steps) {
			n := p.Graph.Nodes[p.Steps[sent.Step-1].Node]
			name := n.Label()
			if value := nanIn(p, err); value != nil {
				name = value.Label()
			}
			*sent = StepError{Step: sent.Step, Steps: len(p.Steps), Op: n.Op.Name, Name: name, Result: sent.Result}
		}
		c := *e
		c.Msg = sent.Error() + ": " + c.Msg
		return &c
	}
	if step != nil {
		c := *e
		c.Err = errors.Join(c.Err, step)
		return &c
	}
	return err
}

// reportProgress passes the number of started steps to the caller until the run ends.
func (x *hostRun) reportProgress() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	told := -1
	for {
		select {
		case <-x.finished:
			if x.succeeded {
				x.r.Progress(len(x.e.prog.Steps))
			}
			return
		case <-tick.C:
			if n, _ := x.e.s.Progress(); n > 0 && n-1 > told {
				told = n - 1
				x.r.Progress(told)
			}
		}
	}
}

// cancelWith cancels the run when the caller's context is cancelled.
func (x *hostRun) cancelWith(ctx context.Context) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return // the call has the same deadline, so it ends by itself
	}
	x.cancel()
}

// cancel asks the backend to end this run. If the run does not end within Timeouts.Cancel, cancel kills the backend.
func (x *hostRun) cancel() {
	s := x.e.s
	limit := time.NewTimer(s.opts.Timeouts.Cancel)
	defer limit.Stop()
	ctx, stop := context.WithTimeout(context.Background(), s.opts.Timeouts.Cancel)
	defer stop()
	s.api.Cancel(ctx, &rlxv1.CancelRequest{Generation: x.header.Generation}) // its error does not matter; only the end of Run does
	select {
	case <-x.finished:
	case <-s.dead.Done():
	case <-limit.C:
		s.fail(lost(ErrStopped, s.name, "did not end a cancelled run within %v", s.opts.Timeouts.Cancel))
	}
}

// stream exchanges the messages of one run.
func (x *hostRun) stream(ctx context.Context) error {
	s := x.e.s
	if s.region != nil {
		x.prepareShared()
	}
	if s.directRuns && len(x.header.Dump) == 0 {
		return x.runDirect(ctx)
	}
	st, err := s.api.Run(ctx)
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	if s.region != nil { // one small message
		x.send(st)
		close(sent)
	} else {
		go func() { // the backend may answer before it has received everything
			defer close(sent)
			x.send(st)
		}()
	}
	x.makeOutputs()
	err = x.receive(st)
	if err == nil && s.region != nil {
		x.takeShared()
	} else if err == nil {
		for i, b := range x.staged {
			copy(x.out[i], b) // nothing for an output that was not asked for
		}
	}
	if err != nil {
		return err // ends ctx and with it the sender
	}
	<-sent
	return nil
}

// prepareShared copies the inputs to the region. Before that it clears the outputs, unless they are zero already: what a backend does not
// write must not show an earlier run.
func (x *hostRun) prepareShared() {
	r := x.e.s.region
	for i, o := range x.bound.outputs {
		if x.r.Wants(i) {
			for _, p := range r.dirty.within(o.Offset, o.Offset+o.Size) {
				tensor.Clear(r.data[p.from:p.to])
			}
		}
	}
	r.dirty = r.dirty.with(0, x.e.prog.IOSize)
	for i, b := range cut(r.data, x.bound.inputs) {
		if !x.r.Fed(i) {
			tensor.Copy(b, x.in[i])
		}
	}
}

// takeShared copies the outputs out of the region and clears them there, for the next run.
func (x *hostRun) takeShared() {
	r := x.e.s.region
	for i, b := range cut(r.data, x.bound.outputs) {
		switch o := x.bound.outputs[i]; {
		case !x.r.Wants(i):
		case x.bound.aliased[i]:
			tensor.Copy(x.out[i], b)
		default:
			tensor.Move(x.out[i], b)
			r.dirty = r.dirty.without(o.Offset, o.Offset+o.Size)
		}
	}
}

// runDirect is stream over the run channel: one message each way.
func (x *hostRun) runDirect(ctx context.Context) error {
	x.dumpAt = -1
	if err := x.e.s.direct.send(x.header); err != nil {
		return err
	}
	x.makeOutputs()
	spin := time.Duration(0)
	if last := x.e.last; x.e.spins && last < shortRun {
		spin = 2 * last
	}
	done, err := x.e.s.direct.receive(ctx, spin)
	if err == nil {
		err = x.takeDone(done)
	}
	x.e.last = x.stats.Total
	if err == nil {
		x.takeShared()
	}
	return err
}

// makeOutputs allocates the outputs, and fills those that the host knows, while the backend works.
func (x *hostRun) makeOutputs() {
	x.out = x.alloc()
	for i, known := range x.known {
		if known {
			tensor.Copy(x.out[i], x.e.constants.data[i])
		}
	}
}

func (x *hostRun) send(st grpc.BidiStreamingClient[rlxv1.RunRequest, rlxv1.RunReply]) {
	err := st.Send(&rlxv1.RunRequest{Part: &rlxv1.RunRequest_Header{Header: x.header}})
	if x.e.s.region == nil {
		for i, b := range x.in {
			if x.r.Fed(i) {
				continue
			}
			for c := range slices.Chunk(b, MaxChunk) {
				if err == nil {
					err = st.Send(&rlxv1.RunRequest{Part: &rlxv1.RunRequest_Input{Input: &rlxv1.Chunk{Index: int32(i), Data: c}}})
				}
			}
		}
	}
	if err == nil {
		st.CloseSend()
	}
}

// receive reads replies up to Done and the end of the stream.
func (x *hostRun) receive(st grpc.BidiStreamingClient[rlxv1.RunRequest, rlxv1.RunReply]) error {
	s := x.e.s
	x.dumpAt = -1
	if s.region == nil {
		x.staged = make([][]byte, len(x.bound.outputs))
	}
	done := false
	for {
		m, err := st.Recv()
		if err != nil && x.refused != nil {
			return x.refused
		}
		if errors.Is(err, io.EOF) {
			if !done {
				return lost(ErrProtocol, s.name, "ended a run without a result")
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.running.beats.Add(1)
		if done {
			return lost(ErrProtocol, s.name, "sent more after the result")
		}
		switch part := m.Part.(type) {
		case *rlxv1.RunReply_Progress:
			s.running.steps.Store(part.Progress.GetSteps())
		case *rlxv1.RunReply_Dump:
			err = x.takeDump(part.Dump)
			if refused := (*observeError)(nil); errors.As(err, &refused) {
				// The run has to end first, so go on receiving.
				x.refused, err = refused, nil
				go x.cancel()
			}
		case *rlxv1.RunReply_Output:
			err = x.takeOutput(part.Output)
		case *rlxv1.RunReply_Done:
			done = true
			err = x.takeDone(part.Done)
		default:
			err = lost(ErrProtocol, s.name, "sent an unknown reply")
		}
		if err != nil {
			return err
		}
	}
}
