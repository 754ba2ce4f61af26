//go:build linux || darwin || windows

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// backendRun is one run on the backend's side.
type backendRun struct {
	s *Server
	l *loaded
	h *rlxv1.RunHeader

	bound *wire.Binding
	ctx   context.Context
	run   device.Run // has the states and outputs of the header
	st    grpc.BidiStreamingServer[rlxv1.RunRequest, rlxv1.RunReply]

	mu sync.Mutex // guards st.Send, because different goroutines send dumps and progress
}

// Run serves a run that was requested by gRPC, with dumps, or with tensors in chunks.
func (s *Server) Run(st grpc.BidiStreamingServer[rlxv1.RunRequest, rlxv1.RunReply]) error {
	first, err := firstOf(st)
	if err != nil {
		return err
	}
	h := first.GetHeader()
	if h == nil {
		return protocolError("run: the first message is not a header")
	}
	x, end, err := s.begin(st.Context(), h)
	if err != nil {
		return err
	}
	defer end()
	x.st = st
	if !x.l.shared {
		if err := x.receiveInputs(); err != nil {
			return err
		}
	}
	stats, err := x.execute()
	if err != nil {
		return x.failed(stats, err)
	}
	return x.answer(stats)
}

// begin checks the header of a run and locks the server. The caller must call end to unlock it.
func (s *Server) begin(ctx context.Context, h *rlxv1.RunHeader) (x *backendRun, end func(), err error) {
	if !s.running.TryLock() {
		return nil, nil, protocolError("run: another run is in progress")
	}
	defer func() {
		if err != nil {
			s.running.Unlock()
		}
	}()
	l, err := s.find(h.Executable)
	if err != nil {
		return nil, nil, err
	}
	if l.poisoned != nil {
		return nil, nil, wire.ToStatus(l.poisoned, nil)
	}
	if h.Generation <= 0 {
		return nil, nil, protocolError("run: generation %d is not positive", h.Generation)
	}
	b, err := l.binder.Bind(h.Syms)
	if err != nil {
		return nil, nil, wire.ToStatus(diag.New(device.ErrInput, "", "%w", err), nil)
	}
	if !wire.SameRanges(h.Inputs, b.Inputs) || !wire.SameRanges(h.Outputs, b.Outputs) {
		return nil, nil, protocolError("run: the ranges of inputs or outputs are not those of the program")
	}
	if err := checkDumps(l.prog, h.Dump); err != nil {
		return nil, nil, err
	}
	x = &backendRun{s: s, l: l, h: h, bound: b, ctx: ctx}
	if err := s.bindStates(l.prog, h, &x.run); err != nil {
		return nil, nil, err
	}
	return x, s.running.Unlock, nil
}

// checkDumps checks that steps compute the nodes whose values the host requests.
func checkDumps(p *program.Program, nodes []int32) error {
	if len(nodes) == 0 {
		return nil
	}
	computed := make([]bool, len(p.Graph.Nodes))
	for _, s := range p.Steps {
		for _, n := range p.Graph.Nodes[s.Node].Values() {
			computed[n.ID] = true
		}
	}
	for _, n := range nodes {
		if n < 0 || int(n) >= len(computed) || !computed[n] {
			return protocolError("run: dump of node %d; no step of the program computes it", n)
		}
	}
	return nil
}

// failed returns the status for a run that ended with an error.
func (x *backendRun) failed(stats device.Stats, err error) error {
	l := x.l
	at := &wire.StepError{Step: int(l.steps.Load())}
	exact, nodes := (*device.AtNode)(nil), l.prog.Graph.Nodes
	node := device.NoNode
	switch {
	case errors.Is(err, device.ErrNaN):
		node = stats.FirstNaN
	case errors.As(err, &exact):
		if node = exact.Node; node == device.NoNode {
			at.Step = 0
		}
	}
	if node >= 0 && node < len(nodes) {
		by, result := nodes[node].Maker()
		if i := slices.IndexFunc(l.prog.Steps, func(st program.Step) bool { return st.Node == by.ID }); i >= 0 {
			at.Step, at.Result = i+1, result
		}
	}
	if at.Step > 0 && at.Step <= len(l.prog.Steps) {
		at.Op = l.prog.Graph.Nodes[l.prog.Steps[at.Step-1].Node].OpName()
	}
	return statusOf(err, at)
}

// receiveInputs receives the inputs, in order, and stores them in the IO space.
func (x *backendRun) receiveInputs() error {
	in := wire.Cut(x.l.io, x.bound.Inputs)
	for i, b := range in {
		if x.run.Fed(i) {
			continue
		}
		for len(b) > 0 {
			m, err := x.st.Recv()
			if errors.Is(err, io.EOF) {
				return protocolError("run: input %d lacks %d bytes", i, len(b))
			}
			if err != nil {
				return err
			}
			c := m.GetInput()
			if c == nil || int(c.Index) != i || len(c.Data) == 0 || len(c.Data) > min(len(b), wire.MaxChunk) {
				return protocolError("run: a chunk of %d bytes for input %d; want 1 to %d for input %d",
					len(c.GetData()), c.GetIndex(), min(len(b), wire.MaxChunk), i)
			}
			b = b[copy(b, c.Data):]
		}
	}
	return nil
}

// execute executes the run in the backend. It does not start a run that is already cancelled.
func (x *backendRun) execute() (stats device.Stats, err error) {
	s, l := x.s, x.l
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	s.mu.Lock()
	if x.h.Generation <= s.cancelled {
		s.mu.Unlock()
		return device.Stats{FirstNaN: -1}, context.Canceled
	}
	s.current, s.cancelRun = x.h.Generation, cancel
	s.mu.Unlock()
	l.steps.Store(0)
	s.Region.Store(wire.WordSteps, 0)
	ready := 0 // number of outputs that can be announced
	if l.shared {
		ready = min(len(x.bound.Outputs), wire.ReadyOutputs)
	}
	for i := range ready {
		s.Region.Store(wire.WordReady+i, 0)
	}
	s.Region.Store(wire.WordGeneration, x.h.Generation)
	stopTicker := x.progress()
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = panicError(p)
			l.poisoned = err
		}
		stopTicker()
		s.mu.Lock()
		s.current = 0
		s.mu.Unlock()
	}()
	opts := device.RunOptions{Profile: x.h.Profile, CheckNaN: x.h.CheckNan}
	for _, n := range x.h.Dump {
		opts.Dump = append(opts.Dump, int(n))
	}
	if len(opts.Dump) > 0 {
		opts.Observe = x.observe
	}
	r := x.run
	r.Syms, r.IO, r.Opts, r.Progress = x.h.Syms, l.io, opts, func(step int) {
		n := int64(min(step+1, len(l.prog.Steps)))
		l.steps.Store(n)
		if s.Region.Store(wire.WordSteps, n); s.Region == nil {
			x.sendProgress()
		}
	}
	r.Ready = func(output int, bytes int64) {
		if output < ready {
			s.Region.Store(wire.WordReady+output, bytes)
		}
	}
	return l.exe.Run(ctx, r)
}

// progress sends heartbeats as messages if there is no region for them.
func (x *backendRun) progress() (stop func()) {
	if x.s.Region != nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(wire.BeatEvery)
		defer tick.Stop()
		for {
			x.sendProgress()
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func (x *backendRun) sendProgress() {
	x.mu.Lock() // before steps is read, so that the numbers never fall
	defer x.mu.Unlock()
	x.st.Send(&rlxv1.RunReply{Part: &rlxv1.RunReply_Progress{Progress: &rlxv1.Progress{Steps: x.l.steps.Load()}}})
}

func (x *backendRun) send(m *rlxv1.RunReply) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.st.Send(m)
}

// observe sends the value of a node in chunks.
func (x *backendRun) observe(node int, shape []int, data []byte) error {
	d := &rlxv1.Dump{Node: int32(node), First: true}
	for _, n := range shape {
		d.Shape = append(d.Shape, int64(n))
	}
	for {
		d.Data = data[:min(len(data), wire.MaxChunk)]
		data = data[len(d.Data):]
		if err := x.send(&rlxv1.RunReply{Part: &rlxv1.RunReply_Dump{Dump: d}}); err != nil {
			return err
		}
		if len(data) == 0 {
			return nil
		}
		d = &rlxv1.Dump{Node: int32(node)}
	}
}

// answer sends the summary and, without a region, the outputs.
func (x *backendRun) answer(stats device.Stats) error {
	if !x.l.shared {
		for i, b := range wire.Cut(x.l.io, x.bound.Outputs) {
			if !x.run.Wants(i) {
				continue
			}
			for c := range slices.Chunk(b, wire.MaxChunk) {
				if err := x.send(
					&rlxv1.RunReply{
						Part: &rlxv1.RunReply_Output{Output: &rlxv1.Chunk{Index: int32(i), Data: c}}}); err != nil {
					return err
				}
			}
		}
	}
	done, err := x.summary(stats)
	if err != nil {
		return err
	}
	return x.send(&rlxv1.RunReply{Part: &rlxv1.RunReply_Done{Done: done}})
}

// summary checks the statistics of a successful run and returns the message that ends it.
func (x *backendRun) summary(stats device.Stats) (*rlxv1.Done, error) {
	if len(stats.Steps) > len(x.l.prog.Steps) {
		return nil,
			wire.ToStatus(
				diag.New(diag.Internal, "", "%d step times for %d steps", len(stats.Steps), len(x.l.prog.Steps)), nil)
	}
	x.l.stats, x.l.statsOf = stats.Steps, 0
	if x.h.Profile {
		x.l.statsOf = x.h.Generation
	}
	return &rlxv1.Done{Generation: x.h.Generation,
		TotalNs: int64(stats.Total), PeakRss: x.s.peak.After(peakrss.Own), FirstNan: -1, Steps: int32(len(stats.Steps)),
		DeviceClock: stats.Clock == device.DeviceClock, DeviceMemory: stats.DeviceMemory}, nil
}
