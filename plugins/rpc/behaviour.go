//go:build linux || darwin

package rpc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// ErrNotServed is reported for a check of an optional feature that the backend lacks.
var ErrNotServed = errors.New("the backend does not support it")

// Behave checks how the backend at opts.Path answers invalid requests, which hosts of this package never send, and how it exits. The
// backend must be able to run p, which must have neither weights nor states. If p is nil, Behave skips the checks that need a program.
// Behave calls report for each check, with ErrNotServed for an optional feature that the backend lacks. It returns an error if the
// backend does not start.
func Behave(ctx context.Context, opts Options, p *program.Program, report func(name string, err error)) error {
	opts.IOSize = 0 // use the size of the program
	b := behaviour{opts: opts, p: p, report: report}
	if err := b.requests(ctx); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		end  func(*Session) error
	}{{"protocol/lifeline", endOfHost}, {"protocol/shutdown", shutdown}} {
		s, err := Start(ctx, opts)
		if err != nil {
			return err
		}
		report(c.name, c.end(s))
		s.Close()
	}
	return nil
}

type behaviour struct {
	opts   Options
	p      *program.Program
	report func(name string, err error)
}

// endOfHost closes the lifeline, as the kernel does when the host dies.
func endOfHost(s *Session) error {
	const limit = 2 * time.Second
	s.lifelineW.Close()
	if !s.gone(limit) {
		return fmt.Errorf("it still runs %v after its lifeline was closed", limit)
	}
	return nil
}

// shutdown asks the backend to exit, without sending a signal.
func shutdown(s *Session) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeouts.Stop)
	defer cancel()
	err := s.conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
	if c := status.Code(err); c != codes.OK && c != codes.Unavailable && c != codes.Canceled {
		return fmt.Errorf("Shutdown failed: %w", err)
	}
	if !s.gone(s.opts.Timeouts.Stop) {
		return fmt.Errorf("it still runs %v after Shutdown", s.opts.Timeouts.Stop)
	}
	return nil
}

// requests makes requests that the backend must refuse, and a valid run after each.
func (b *behaviour) requests(ctx context.Context) error {
	s, err := Start(ctx, b.opts)
	if err != nil {
		return err
	}
	defer func() { s.Close() }()
	b.report("protocol/beat", s.checkBeat())
	for _, c := range append(b.wrong(), b.defects()...) {
		if c.needsProgram && b.p == nil {
			continue
		}
		err := b.refuses(ctx, s, c)
		b.report("protocol/"+c.name, err)
		if s.fault() == nil {
			continue
		}
		s.Close()
		if s, err = Start(ctx, b.opts); err != nil {
			return err
		}
	}
	return nil
}

// checkBeat checks that the heartbeat, if there is one, changes at least every 250 ms.
func (s *Session) checkBeat() error {
	if s.region == nil {
		return ErrNotServed
	}
	first := s.region.load(wordBeat)
	time.Sleep(4 * beatEvery)
	switch now := s.region.load(wordBeat); {
	case now == 0:
		return ErrNotServed
	case now == first:
		return fmt.Errorf("its heartbeat did not change for %v; want a change every %v", 4*beatEvery, beatEvery)
	}
	return nil
}

// wrongRequest is an invalid request and the code that the backend must answer.
type wrongRequest struct {
	name         string
	want         diag.Code
	needsProgram bool
	make         func(ctx context.Context, s *Session, e *Executable, b *binding) error
}

// refuses makes an invalid request, which must fail with the code c.want. Then it makes a valid run, which must succeed.
func (b *behaviour) refuses(ctx context.Context, s *Session, c wrongRequest) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeouts.Info)
	defer cancel()
	var e *Executable
	var bound *binding
	if b.p != nil {
		var err error
		if e, err = s.load(ctx, LoadOptions{Program: b.p}, &rlxv1.Weights{}, nil); err != nil {
			return fmt.Errorf("loading a valid program: %w", err)
		}
		defer e.Close()
		if bound, err = e.binder.bind(b.p.Graph.Syms.Max()); err != nil {
			return err
		}
	}
	err := c.make(ctx, s, e, bound)
	if err == nil {
		return fmt.Errorf("was accepted; want %s", c.want)
	}
	if err := s.refusal(err, c.want); err != nil || e == nil {
		return err
	}
	in := make([][]byte, len(bound.inputs))
	for i, r := range bound.inputs {
		in[i] = make([]byte, r.Size)
	}
	if _, _, err := e.RunTensors(ctx, device.Run{Syms: b.p.Graph.Syms.Max()}, in); err != nil {
		return fmt.Errorf("a valid run after the refusal: %w", err)
	}
	return nil
}

// refusal checks that err carries the protocol's error detail with the code want.
func (s *Session) refusal(err error, want diag.Code) error {
	st, _ := status.FromError(err)
	if want == "" {
		if st.Code() != codes.Unimplemented {
			return fmt.Errorf("returned status %v; want %v", st.Code(), codes.Unimplemented)
		}
		return nil
	}
	e, ok := fromWire(st, s.name)
	if !ok {
		return fmt.Errorf("returned %w without a detail of type rlx.v1.Error; want %s", err, want)
	}
	if !errors.Is(e, want) {
		return fmt.Errorf("returned %s (%w); want %s", e.Code, e, want)
	}
	if e.Msg == "" {
		return fmt.Errorf("returned %s without a message", e.Code)
	}
	return nil
}

// wrong returns the invalid requests. Each sends a request and waits for the first result of the call.
func (b *behaviour) wrong() []wrongRequest {
	var enc []byte
	if b.p != nil && b.opts.Encode != nil {
		enc, _ = b.opts.Encode(b.p)
	}
	sum := sha256.Sum256(enc)
	load := func(spoil func(h *rlxv1.LoadHeader), parts ...*rlxv1.LoadRequest) func(context.Context, *Session, *Executable, *binding) error {
		return func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			h := &rlxv1.LoadHeader{ProgramSize: int64(len(enc)), ProgramSha256: sum[:], Weights: &rlxv1.Weights{}, IoSize: s.ioSize(), IoShared: s.region != nil}
			spoil(h)
			st, err := s.api.Load(ctx)
			if err != nil {
				return err
			}
			first := []*rlxv1.LoadRequest{{Part: &rlxv1.LoadRequest_Header{Header: h}}}
			if h.ProgramSize == 0 { // no header at all
				first = nil
			}
			for _, m := range append(first, parts...) {
				if st.Send(m) != nil {
					break // CloseAndRecv returns the reason
				}
			}
			_, err = st.CloseAndRecv()
			return err
		}
	}
	whole := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: enc}}
	run := func(spoil func(h *rlxv1.RunHeader)) func(context.Context, *Session, *Executable, *binding) error {
		return func(ctx context.Context, s *Session, e *Executable, b *binding) error {
			s.generation++
			h := proto.Clone(&rlxv1.RunHeader{Executable: e.id, Generation: s.generation, Syms: e.prog.Graph.Syms.Max(), Inputs: b.inputs, Outputs: b.outputs}).(*rlxv1.RunHeader)
			spoil(h)
			st, err := s.api.Run(ctx)
			if err != nil {
				return err
			}
			st.Send(&rlxv1.RunRequest{Part: &rlxv1.RunRequest_Header{Header: h}})
			st.CloseSend()
			for {
				if _, err := st.Recv(); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
			}
		}
	}
	const missing = 1 << 40 // no executable or state has this number
	return []wrongRequest{
		{"unknown-method", "", false, func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			return s.conn.Invoke(ctx, serviceMethods+"Nothing", &emptypb.Empty{}, &emptypb.Empty{})
		}},
		{"load-without-header", ErrRefused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSize = 0 }, whole)},
		{"load-digest", ErrRefused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSha256 = make([]byte, sha256.Size) }, whole)},
		{"load-short", ErrRefused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSize++ }, whole)},
		{"load-long", ErrRefused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSize-- }, whole)},
		{"load-io-size", ErrRefused, true, load(func(h *rlxv1.LoadHeader) { h.IoSize++ }, whole)},
		{"load-io-shared", ErrRefused, true, load(func(h *rlxv1.LoadHeader) { h.IoShared = !h.IoShared }, whole)},
		{"run-executable", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Executable = missing })},
		{"run-generation", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Generation = 0 })},
		{"run-offset", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Inputs[0].Offset += 256 })},
		{"run-size", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Outputs[0].Size-- })},
		{"run-without-ranges", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Inputs, h.Outputs = nil, nil })},
		{"run-symbols", device.ErrInput, true, run(func(h *rlxv1.RunHeader) { h.Syms = map[string]int64{} })},
		{"run-dump", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Dump = []int32{1 << 20} })},
		{"run-unwanted", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.Unwanted = []int32{0, 0} })},
		{"run-state", ErrRefused, true, run(func(h *rlxv1.RunHeader) { h.State = missing })},
		{"cancelled-before", diag.Interrupted, true, func(ctx context.Context, s *Session, e *Executable, b *binding) error {
			if _, err := s.api.Cancel(ctx, &rlxv1.CancelRequest{Generation: s.generation + 1}); err != nil {
				return fmt.Errorf("Cancel before its run: %w", err)
			}
			if s.region == nil {
				e.s.generation++
				return sendWhole(ctx, s, e, b)
			}
			return run(func(*rlxv1.RunHeader) {})(ctx, s, e, b)
		}},
		{"unload-unknown", ErrRefused, false, func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			_, err := s.api.Unload(ctx, &rlxv1.UnloadRequest{Executable: missing})
			return err
		}},
		{"stats-unknown", ErrRefused, false, func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			st, err := s.api.Stats(ctx, &rlxv1.StatsRequest{Executable: missing, Generation: 1})
			if err == nil {
				_, err = st.Recv()
			}
			return err
		}},
		{"state-unknown", ErrRefused, false, func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			_, err := s.api.ChangeState(ctx, &rlxv1.ChangeStateRequest{State: missing, Change: &rlxv1.ChangeStateRequest_Clear{Clear: true}})
			return err
		}},
		{"state-size", ErrRefused, true, func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			_, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Size: -1})
			return err
		}},
		{"state-range", ErrRefused, true, func(ctx context.Context, s *Session, _ *Executable, _ *binding) error {
			m, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Size: 512})
			if err != nil {
				return err
			}
			st, err := s.api.ReadState(ctx, &rlxv1.StateRange{State: m.State, Offset: 256, Size: 257})
			if err == nil {
				_, err = st.Recv()
			}
			s.api.ChangeState(ctx, &rlxv1.ChangeStateRequest{State: m.State, Change: &rlxv1.ChangeStateRequest_Drop{Drop: true}})
			return err
		}},
	}
}

// sendWhole makes a run and sends inputs of zeros in chunks.
func sendWhole(ctx context.Context, s *Session, e *Executable, b *binding) error {
	st, err := s.api.Run(ctx)
	if err != nil {
		return err
	}
	x := &hostRun{e: e, bound: b, header: &rlxv1.RunHeader{Executable: e.id, Generation: s.generation, Syms: e.prog.Graph.Syms.Max(), Inputs: b.inputs, Outputs: b.outputs}}
	for _, r := range b.inputs {
		x.in = append(x.in, make([]byte, r.Size))
	}
	x.send(st)
	for {
		if _, err := st.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}
