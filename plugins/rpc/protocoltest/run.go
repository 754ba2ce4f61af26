//go:build linux || darwin || windows

package protocoltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// Run checks how the backend at opts.Path answers invalid requests, which hosts never send, what it writes to the
// shared region, and how it exits. If x is nil, Run reports ErrSkipped, with the reason why, for the checks that need a
// program.
//
// Run calls report for each check. It returns an error if the backend does not start.
func Run(ctx context.Context, opts host.Options, x *Sample, why string, report func(name string, err error)) error {
	opts.IOSize = 0 // use the size of the programs
	if x != nil {
		for _, p := range []*program.Program{x.Program, x.Equal, x.Param} {
			if p != nil {
				opts.IOSize = max(opts.IOSize, p.IOSize)
			}
		}
	}
	artifact, err := weightsFile(opts.TempDir)
	if err != nil {
		return err
	}
	defer artifact.Close()
	opts.Artifact = artifact
	opts.Timeouts = opts.Timeouts.WithDefaults()
	b := behaviour{opts: opts, x: x, why: why, report: report}
	if err := b.requests(ctx); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		end  func(*session) error
	}{{"protocol/lifeline", endOfHost}, {"protocol/shutdown", shutdown}} {
		s, err := begin(ctx, opts)
		if err != nil {
			return err
		}
		report(c.name, c.end(s))
		s.Close()
	}
	return nil
}

// weightsFileSize is the size of the file that stands for the artifact, in bytes.
const weightsFileSize = 8192

// weightsFile returns a file for requests with mapped weights. It has no name any more.
func weightsFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "rlx-weights-*")
	if err != nil {
		return nil, diag.New(code.Host, "weights", "no temporary file: %w", err)
	}
	defer f.Close()
	defer os.Remove(f.Name())
	if err := f.Truncate(weightsFileSize); err != nil {
		return nil, diag.New(code.Host, "weights", "no temporary file: %w", err)
	}
	return os.Open(f.Name()) // for reading only
}

type behaviour struct {
	opts   host.Options
	x      *Sample
	why    string
	chunks bool // whether the backend gets tensors in chunks
	report func(name string, err error)
}

// endOfHost closes the lifeline, as the kernel does when the host dies.
func endOfHost(s *session) error {
	const limit = 2 * time.Second
	s.CutLifeline()
	if !gone(s, limit) {
		return fmt.Errorf("it still runs %v after its lifeline was closed", limit)
	}
	return nil
}

// shutdown asks the backend to exit, without sending a signal.
func shutdown(s *session) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.limits.Stop)
	defer cancel()
	err := s.Conn.Invoke(ctx, wire.ShutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
	if c := status.Code(err); c != codes.OK && c != codes.Unavailable && c != codes.Canceled {
		return fmt.Errorf("the call Shutdown failed: %w", err)
	}
	if !gone(s, s.limits.Stop) {
		return fmt.Errorf("it still runs %v after Shutdown", s.limits.Stop)
	}
	return nil
}

// requests makes requests that the backend must refuse, and a valid run after each.
func (b *behaviour) requests(ctx context.Context) error {
	s, err := begin(ctx, b.opts)
	if err != nil {
		return err
	}
	defer func() { s.Close() }()
	check := func(name string, needsProgram bool, do func() error) error {
		if needsProgram && b.x == nil {
			b.report("protocol/"+name, fmt.Errorf("%w: %s", ErrSkipped, b.why))
			return nil
		}
		b.report("protocol/"+name, do())
		if s.Err() == nil {
			return nil
		}
		s.Close()
		s, err = begin(ctx, b.opts)
		return err
	}
	if err := check("beat", false, func() error { return b.checkBeat(ctx, s) }); err != nil {
		return err
	}
	if err := check("counters", true, func() error { return b.checkCounters(ctx, s) }); err != nil {
		return err
	}
	b.chunks = s.Region == nil
	for _, c := range append(b.wrong(), b.defects()...) {
		if err := check(c.name, c.needsProgram, func() error { return b.refuses(ctx, s, c) }); err != nil {
			return err
		}
	}
	return nil
}

// load loads the sample's program.
func (b *behaviour) load(ctx context.Context, s *session) (*executable, error) {
	return s.load(ctx, b.x.Program, b.x.Weights)
}

// run makes a valid run of the sample.
func (b *behaviour) run(ctx context.Context, e *executable) error {
	_, _, err := e.RunTensors(ctx, device.Run{Syms: e.prog.Graph.Syms.Max()}, b.x.Inputs)
	return err
}

// The heartbeat is looked at this often, in windows of this many looks.
const (
	beatLook    = 10 * time.Millisecond
	beatWindow  = 120
	beatWindows = 10
)

// checkBeat checks that the heartbeat, if there is one, changes at least every 250 ms, between runs and during runs. A
// busy machine delays both processes. So it allows twice the time, does not count most of a look that came late, and
// takes the best of several windows.
func (b *behaviour) checkBeat(ctx context.Context, s *session) error {
	if s.Region == nil {
		return ErrNotServed
	}
	time.Sleep(4 * wire.BeatEvery)
	if s.Region.Load(wire.WordBeat) == 0 {
		return ErrNotServed
	}
	if err := steady(s); err != nil || b.x == nil {
		return err
	}
	e, err := b.load(ctx, s)
	if err != nil {
		return err
	}
	defer e.Close()
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quit:
				ended <- nil
				return
			default:
			}
			if err := b.run(ctx, e); err != nil {
				ended <- err
				return
			}
		}
	}()
	err = steady(s)
	if err != nil {
		err = fmt.Errorf("during runs: %w", err)
	}
	close(quit)
	return errors.Join(err, <-ended)
}

// steady checks the heartbeat in one window, and repeats a window in which it was late.
func steady(s *session) error {
	var longest time.Duration
	for range beatWindows {
		last, same := s.Region.Load(wire.WordBeat), time.Duration(0)
		longest = 0
		for range beatWindow {
			begun := time.Now()
			time.Sleep(beatLook)
			now := s.Region.Load(wire.WordBeat)
			same += min(time.Since(begun), 5*beatLook)
			if now != last {
				last, same = now, 0
			}
			if now == 0 {
				return errors.New("its heartbeat became 0")
			}
			longest = max(longest, same)
		}
		if longest <= 2*wire.BeatEvery {
			return nil
		}
	}
	return fmt.Errorf("its heartbeat did not change for %v; want a change every %v", longest.Round(time.Millisecond),
		wire.BeatEvery)
}

// checkCounters checks that the region has the generation and the number of steps after a run.
func (b *behaviour) checkCounters(ctx context.Context, s *session) error {
	if s.Region == nil {
		return ErrNotServed
	}
	e, err := b.load(ctx, s)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := b.run(ctx, e); err != nil {
		return err
	}
	steps := int64(len(e.prog.Steps))
	if g, n := s.Region.Load(wire.WordGeneration), s.Region.Load(wire.WordSteps); g != s.Generation() || n != steps {
		return fmt.Errorf("after run %d of %d steps the shared region has generation %d and step %d", s.Generation(),
			steps, g, n)
	}
	return nil
}

// wrongRequest is an invalid request and the code that the backend must answer.
type wrongRequest struct {
	name         string
	want         diag.Code
	needsProgram bool
	make         func(ctx context.Context, s *session, e *executable, b *wire.Binding) error
}

// refuses makes an invalid request, which must fail with the code c.want. Then it makes a valid run, which must
// succeed.
func (b *behaviour) refuses(ctx context.Context, s *session, c wrongRequest) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.Info)
	defer cancel()
	var e *executable
	var bound *wire.Binding
	if b.x != nil {
		var err error
		if e, err = b.load(ctx, s); err != nil {
			return err
		}
		defer e.Close()
		if bound, err = (&wire.Binder{Program: e.prog}).Bind(e.prog.Graph.Syms.Max()); err != nil {
			return err
		}
	}
	err := c.make(ctx, s, e, bound)
	if errors.Is(err, ErrNotServed) {
		return err
	}
	if err == nil {
		return fmt.Errorf("was accepted; want %s", c.want)
	}
	if err := refusal(s, err, c.want); err != nil || e == nil {
		return err
	}
	if err := b.run(ctx, e); err != nil {
		return fmt.Errorf("a valid run after the refusal: %w", err)
	}
	return nil
}

// refusal checks that err carries the protocol's error detail with the code want.
func refusal(s *session, err error, want diag.Code) error {
	st, _ := status.FromError(err)
	if want == "" {
		if st.Code() != codes.Unimplemented {
			return fmt.Errorf("returned status %v; want %v", st.Code(), codes.Unimplemented)
		}
		return nil
	}
	e, ok := wire.FromStatus(st, "backend "+s.Name())
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
