package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// run waits until the session is free and then executes the program. tensors returns the caller's inputs, and a
// function that allocates the outputs. run calls that function while the backend works, because allocating large
// outputs takes time. early says that outputs may be written before the run has succeeded.
func (e *Executable) run(ctx context.Context, r device.Run, early bool,
	tensors func(*wire.Binding) (in [][]byte, out func() [][]byte, err error)) (device.Stats, error) {
	s := e.session
	if err := s.lock(ctx); err != nil {
		return noStats(), err
	}
	defer s.unlock()
	b, err := e.binder.Bind(r.Syms)
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
	h := &rlxv1.RunHeader{Executable: e.id, Syms: r.Syms, Generation: s.generation, Inputs: b.Inputs,
		Outputs: b.Outputs, Profile: r.Opts.Profile, CheckNan: r.Opts.CheckNaN}
	dumps := inStepOrder(e.prog, r.Opts.Dump)
	for _, n := range dumps {
		h.Dump = append(h.Dump, int32(n))
	}
	cached := e.constants.cached(r)
	requested := without(r, cached)
	written, err := e.bindStates(requested, b, h)
	if err != nil {
		return noStats(), err
	}
	x := &hostRun{e: e, bound: b, in: in, alloc: out, cached: cached, r: requested, header: h, dumps: dumps,
		stats: noStats(), early: early && e.announces}
	succeeded := invalidate(written)
	if err = x.run(ctx); err == nil {
		succeeded()
		s.worked.Store(true)
		e.constants.store(r, x.out)
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
	if rss := s.peak.After(s.PeakRSS); rss > 0 {
		x.stats.PeakRSS = rss
	}
	return x.stats, nil
}

// inStepOrder returns the nodes whose values steps compute, without duplicates, in the order in which a backend sends
// the values.
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

// nanIn returns the value in which a NaN was found according to err, or nil if err is another error.
func nanIn(p *program.Program, err error) *ir.Node {
	var at *wire.StepError
	if !errors.Is(err, device.ErrNaN) || !errors.As(err, &at) || at.Step < 1 || at.Step > len(p.Steps) {
		return nil
	}
	values := p.Graph.Nodes[p.Steps[at.Step-1].Node].Values()
	return values[max(0, min(at.Result, len(values)-1))] // at.Result comes from the backend and is not trusted
}

// hostRun is one run on the host's side.
type hostRun struct {
	e      *Executable
	bound  *wire.Binding
	in     [][]byte
	alloc  func() [][]byte // allocates the caller's outputs
	out    [][]byte        // the result of alloc
	cached []bool          // for each output, whether it comes from the cache of constants; nil if no output does
	r      device.Run      // without the cached outputs
	header *rlxv1.RunHeader
	dumps  []int // nodes whose values the backend has still to send, in this order
	stats  device.Stats
	steps  int

	early bool    // outputs are taken while the backend works
	taken []int64 // bytes of each output that have been taken

	staged [][]byte // outputs received in chunks
	dump   []byte   // value of a node, as far as it has been received
	dumpAt int      // node of dump; -1 for none
	shape  []int    // of dump

	phase string // what the backend does after the last step, as its replies show; empty before

	finished  chan struct{} // closed when the call has returned; nil if nobody waits for that
	succeeded bool          // set before finished is closed
	refused   error         // error of the caller's observer, which cancels the run
}

// run makes the Run call. Cancelling ctx cancels the run but not the stream, because the region may be reused only
// after the run has ended.
func (x *hostRun) run(ctx context.Context) error {
	s, streamCtx := x.e.session, ctx
	if ctx.Done() != nil {
		streamCtx = context.WithoutCancel(ctx)
	}
	if d, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		streamCtx, cancel = context.WithDeadline(streamCtx, d)
		defer cancel()
	}
	direct := s.directRuns && len(x.header.Dump) == 0
	switch {
	case x.r.Progress != nil || ctx.Done() != nil:
		x.finished = make(chan struct{})
		defer x.attend(ctx)()
	case !direct: // an observer may cancel the run
		x.finished = make(chan struct{})
		defer close(x.finished)
	}
	var step *wire.StepError
	what := func() string {
		if x.phase != "" { // an error now is not about a step
			return x.phase + " of " + x.e.prog.Method
		}
		step = s.stepOf(x.e.prog)
		return describeRun(x.e.prog, step)
	}
	call, exchange := s.call, x.stream
	if direct {
		call, exchange = s.callDirect, x.runDirect
	}
	if s.region != nil {
		x.prepareShared()
	}
	err := call(streamCtx, s.opts.Timeouts.Run, what, exchange)
	if err == nil {
		x.succeeded = true
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return s.during(interrupted(s.name, ctx), what)
	}
	return x.atStep(err, step)
}

// attend reports progress, and cancels the run when ctx is cancelled, until end is called.
func (x *hostRun) attend(ctx context.Context) (end func()) {
	var p *progress
	if x.r.Progress != nil {
		p = &progress{x: x, last: -1}
		p.begin()
	}
	stop := context.AfterFunc(ctx, func() { x.cancelWith(ctx) })
	return func() {
		stop()
		close(x.finished)
		if p != nil {
			p.end()
		}
	}
}

// atStep adds step to the chain of err. If err came from the backend and names a step, atStep instead adds the name of
// that step's node.
func (x *hostRun) atStep(err error, step *wire.StepError) error {
	var e *diag.Error
	if !errors.As(err, &e) {
		return err
	}
	var sent *wire.StepError
	if errors.As(err, &sent) {
		if p := x.e.prog; sent.Step <= len(p.Steps) {
			n := p.Graph.Nodes[p.Steps[sent.Step-1].Node]
			name := n.Label()
			if value := nanIn(p, err); value != nil {
				name = value.Label()
			}
			*sent = wire.StepError{Step: sent.Step, Steps: len(p.Steps), Op: n.OpName(), Name: name,
				Result: sent.Result}
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

// progress reports how many steps of a run have been completed. Like a lifeWatch, it costs a short run one timer and no
// goroutine.
type progress struct {
	x *hostRun

	mu    sync.Mutex
	timer *time.Timer
	ended bool
	last  int // what was reported last, -1 before
}

func (p *progress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(sampleEvery, p.sample)
}

func (p *progress) sample() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if n, _ := p.x.e.session.Progress(); n > 0 && n-1 > p.last {
		p.last = n - 1
		p.x.r.Progress(p.last)
	}
	p.timer.Reset(sampleEvery)
}

// end waits for a call of Progress, and makes the last one if the run has succeeded.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.timer.Stop()
	if p.x.succeeded {
		p.x.r.Progress(len(p.x.e.prog.Steps))
	}
}

// cancelWith cancels the run after the caller's context has been cancelled.
func (x *hostRun) cancelWith(ctx context.Context) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return // the call has the same deadline and ends without a cancellation
	}
	x.cancel()
}

// cancel asks the backend to cancel the run. If the run does not end within Timeouts.Cancel, cancel kills the backend.
func (x *hostRun) cancel() {
	s := x.e.session
	limit := time.NewTimer(s.opts.Timeouts.Cancel)
	defer limit.Stop()
	ctx, stop := context.WithTimeout(context.Background(), s.opts.Timeouts.Cancel)
	defer stop()
	// an error does not matter, because only the end of the run counts
	s.api.Cancel(ctx, &rlxv1.CancelRequest{Generation: x.header.Generation})
	select {
	case <-x.finished:
	case <-s.dead.Done():
	case <-limit.C:
		s.fail(lost(code.Stopped, s.name, "did not end a cancelled run within %v", s.opts.Timeouts.Cancel))
	}
}

// stream exchanges the messages of one run.
func (x *hostRun) stream(ctx context.Context) error {
	s := x.e.session
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
	end := x.takeEarly()
	err = x.receive(st)
	end()
	if err == nil && s.region != nil {
		x.readShared()
	} else if err == nil {
		for i, b := range x.staged {
			copy(x.out[i], b) // copies nothing if the output was not requested
		}
	}
	if err != nil {
		return err // the caller then cancels ctx, which ends the sender
	}
	<-sent
	return nil
}

// prepareShared clears the outputs in the region and copies the inputs to it. If a backend does not write all of an
// output, the caller must not see data of an earlier run. Outputs that are zero already are not cleared again.
func (x *hostRun) prepareShared() {
	s := x.e.session
	for i, o := range x.bound.Outputs {
		if x.r.Wants(i) {
			for _, p := range s.dirty.within(o.Offset, o.Offset+o.Size) {
				tensor.Clear(s.region.Data[p.from:p.to])
			}
		}
	}
	s.dirty = s.dirty.with(0, x.e.prog.IOSize)
	for i, b := range wire.Cut(s.region.Data, x.bound.Inputs) {
		if !x.r.Fed(i) {
			tensor.Copy(b, x.in[i])
		}
	}
}

// runDirect is like stream, but uses the run channel, with one message in each direction.
func (x *hostRun) runDirect(ctx context.Context) error {
	x.dumpAt = -1
	log := x.e.session.msgs
	log.add(event{sent: true, call: directCall, msg: x.header})
	if err := x.e.session.direct.Send(ctx, x.header); err != nil {
		return err
	}
	x.makeOutputs()
	end := x.takeEarly()
	done, err := x.e.session.direct.Receive(ctx, wire.HostSpin(x.e.last, x.e.spins))
	end()
	if err != nil {
		log.add(event{call: directCall, err: err})
	} else {
		log.add(event{call: directCall, msg: done})
		err = x.receiveDone(done)
	}
	x.e.last = x.stats.Total
	if err == nil {
		x.readShared()
	}
	return err
}

// makeOutputs allocates the outputs and copies the cached ones. It is called while the backend works.
func (x *hostRun) makeOutputs() {
	x.out = x.alloc()
	for i, cached := range x.cached {
		if cached {
			tensor.Copy(x.out[i], x.e.constants.data[i])
		}
	}
}

// send sends the header and, without a region, the inputs in chunks.
func (x *hostRun) send(st grpc.BidiStreamingClient[rlxv1.RunRequest, rlxv1.RunReply]) {
	err := st.Send(&rlxv1.RunRequest{Part: &rlxv1.RunRequest_Header{Header: x.header}})
	if x.e.session.region == nil {
		for i, b := range x.in {
			if x.r.Fed(i) {
				continue
			}
			for c := range slices.Chunk(b, wire.MaxChunk) {
				if err == nil {
					err = st.Send(
						&rlxv1.RunRequest{Part: &rlxv1.RunRequest_Input{Input: &rlxv1.Chunk{Index: int32(i), Data: c}}})
				}
			}
		}
	}
	if err == nil {
		st.CloseSend()
	}
}

// receive reads the replies until the end of the stream.
func (x *hostRun) receive(st grpc.BidiStreamingClient[rlxv1.RunRequest, rlxv1.RunReply]) error {
	s := x.e.session
	x.dumpAt = -1
	if s.region == nil {
		x.staged = make([][]byte, len(x.bound.Outputs))
	}
	done := false
	for {
		m, err := st.Recv()
		if err != nil && x.refused != nil {
			return x.refused
		}
		if errors.Is(err, io.EOF) {
			if !done {
				return lost(code.Protocol, s.name, "ended a run without a result")
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.running.beats.Add(1)
		if done {
			return lost(code.Protocol, s.name, "sent another message after the result")
		}
		switch part := m.Part.(type) {
		case *rlxv1.RunReply_Progress:
			s.running.steps.Store(part.Progress.GetSteps())
		case *rlxv1.RunReply_Dump:
			err = x.receiveDump(part.Dump)
			if refused := (*observeError)(nil); errors.As(err, &refused) {
				// The run must end before its region can be reused, so continue to receive.
				x.refused, err = refused, nil
				go x.cancel()
			}
		case *rlxv1.RunReply_Output:
			err = x.receiveOutput(part.Output)
		case *rlxv1.RunReply_Done:
			done = true
			err = x.receiveDone(part.Done)
		default:
			err = lost(code.Protocol, s.name, "sent an unknown reply")
		}
		if err != nil {
			return err
		}
	}
}
