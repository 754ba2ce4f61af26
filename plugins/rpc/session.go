package rpc

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A Session is the host's side of one running backend process. It implements device.Backend. Its methods may be called concurrently; runs
// happen one at a time. After an error that matches device.ErrLost the process is gone, and every later call except Close returns the same
// error. Start another session then.
type Session struct {
	name string // such as "backend cpu"
	opts Options
	log  *logSink

	confined             Confinement
	declared             string // path of the declaration
	exe                  *os.File
	dir                  *privateDir
	region               *region // nil if tensors are sent in chunks
	direct               *runChannel
	directRuns           bool     // whether the backend serves runs on direct
	runsEnd              *os.File // the backend's end of direct
	lifelineR, lifelineW *os.File
	runner               *backendRunner
	client               *goplugin.Client
	proc                 *process
	conn                 *grpc.ClientConn
	api                  rlxv1.BackendClient
	info                 device.Info
	peakRSS              atomic.Int64 // of the backend's process, in bytes, as last measured
	peak                 peakSampler  // decides when to measure peakRSS after a run

	loadMu     sync.Mutex
	runSlot    chan struct{} // holds a token during a run
	generation int64         // number of the last run; guarded by runSlot
	running    runState

	dead     context.Context // cancelled when the backend is lost or closed
	kill     context.CancelCauseFunc
	once     sync.Once
	released chan struct{} // closed when process, socket and descriptors are gone
}

func newSession(opts Options) *Session {
	s := &Session{name: "backend " + opts.backendName(), opts: opts, log: newLogSink(opts.Log),
		runSlot: make(chan struct{}, 1), released: make(chan struct{})}
	s.dead, s.kill = context.WithCancelCause(context.Background())
	return s
}

// Name is the backend's name in messages.
func (s *Session) Name() string { return s.opts.backendName() }

// PID is the process number of the backend.
func (s *Session) PID() int { return s.proc.pid }

// Sandbox is the confinement of the backend's process.
func (s *Session) Sandbox() Confinement { return s.confined }

// Info returns the description that the backend sent when it started.
func (s *Session) Info(context.Context) (device.Info, error) {
	if err := s.fault(); err != nil {
		return device.Info{}, err
	}
	return s.info, nil
}

// PeakRSS returns the peak resident size of the backend's process in bytes, including mapped weights, or 0 if the system does not report
// it. While the process runs it is measured now. Afterwards it is the last measurement, taken after a run, before the end, or by this
// method.
func (s *Session) PeakRSS() int64 {
	now := s.proc.peakRSS()
	for {
		was := s.peakRSS.Load()
		if now <= was || s.peakRSS.CompareAndSwap(was, now) {
			return max(now, was)
		}
	}
}

// Done is closed when the backend is gone for any reason.
func (s *Session) Done() <-chan struct{} { return s.dead.Done() }

// Close ends the backend and waits until the process is gone. It asks the backend to exit, sends SIGTERM after one second, and SIGKILL
// after another.
func (s *Session) Close() error {
	s.fail(lost(ErrClosed, s.name, "was closed"))
	<-s.released
	s.runSlot <- struct{}{} // a run may still be copying; the memory must not be unmapped before it ends
	s.region.close()
	<-s.runSlot
	return nil
}

// fault returns why the backend is gone, or nil while it runs.
func (s *Session) fault() error {
	var e *diag.Error
	if errors.As(context.Cause(s.dead), &e) {
		return e
	}
	return nil
}

// fail marks the backend as lost, keeps the first reason, and kills the process.
func (s *Session) fail(err error) {
	s.once.Do(func() {
		s.kill(err)
		go func() {
			s.stop(errors.Is(err, ErrClosed))
			s.release()
			close(s.released)
		}()
	})
}

// blameSandbox adds a hint to an error that the sandbox may have caused.
func (s *Session) blameSandbox(err error) error {
	var e *diag.Error
	if !s.confined.confined() || !errors.As(err, &e) {
		return err
	}
	hint := ""
	switch {
	case errors.Is(err, device.ErrUnavailable) && !s.confined.allows(wordGPU):
		hint = "in its sandbox it sees no GPU, unless " + s.declared + " says " + wordGPU
	case errors.Is(err, ErrExited):
		hint = "its sandbox may be the reason: try --sandbox=off"
	default:
		return err
	}
	if e.Hint != "" {
		hint = e.Hint + "; " + hint
	}
	return e.WithHint("%s", hint)
}

// crashed returns the error for a process that ended unexpectedly.
func (s *Session) crashed() error {
	s.runner.drainErrors() // its last output may not have been read yet
	e := lost(ErrCrashed, s.name, "its process %s", s.proc.ending())
	if words := s.log.lastLine(); words != "" && s.proc.cmd.ProcessState.ExitCode() >= 0 {
		e.Hint = "it said: " + abridge(words, 300)
	}
	return e
}

// stop ends the process as Close describes. go-plugin's Kill comes last, because it waits for the process to answer.
func (s *Session) stop(gently bool) {
	if s.proc == nil {
		if s.client != nil {
			s.client.Kill()
		}
		return
	}
	s.PeakRSS() // it cannot be measured later
	wait := s.opts.Timeouts.Stop
	if gently && s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		s.conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
		cancel()
		if !s.gone(wait) {
			s.proc.terminate()
		}
		s.gone(wait)
	}
	s.proc.kill()
	<-s.proc.exited
	s.client.Kill()
}

// gone waits at most d for the process to end and reports whether it has.
func (s *Session) gone(d time.Duration) bool {
	select {
	case <-s.proc.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// release frees everything except the region, because a run may still be copying from it.
func (s *Session) release() {
	for _, f := range []*os.File{s.exe, s.lifelineR, s.lifelineW, s.runsEnd} {
		if f != nil {
			f.Close()
		}
	}
	s.direct.close()
	s.dir.remove() // after the descriptors are freed, because removing needs some
	s.log.close()
}

// takeTurn waits until nothing else uses the session. Every successful takeTurn needs an endTurn.
func (s *Session) takeTurn(ctx context.Context) error {
	select {
	case s.runSlot <- struct{}{}:
	case <-ctx.Done():
		return interrupted(s.name, ctx)
	case <-s.dead.Done():
		return s.fault()
	}
	err := s.fault() // select chooses at random among ready cases
	if err == nil && ctx.Err() != nil {
		err = interrupted(s.name, ctx)
	}
	if err != nil {
		s.endTurn()
	}
	return err
}

func (s *Session) endTurn() { <-s.runSlot }

// call makes one call of the protocol with a deadline while watching the heartbeats. The call ends if the backend is lost. what returns
// the end of the phrase "while it ..." for error messages.
func (s *Session) call(ctx context.Context, limit time.Duration, what func() string, f func(context.Context) error) error {
	if err := s.fault(); err != nil {
		return s.during(err, what)
	}
	callCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(s.dead, cancel)()
	begun := time.Now()
	stopWatch := s.watch()
	err := f(callCtx)
	stopWatch()
	if err == nil {
		return nil
	}
	return s.explain(ctx, callCtx, time.Since(begun), err, what)
}

// during adds what the backend was doing to the error for its end.
func (s *Session) during(err error, what func() string) error {
	var e *diag.Error
	if !errors.As(err, &e) || what == nil {
		return err
	}
	c := *e
	if w := what(); w != "" {
		c.Msg += " " + w
	}
	return &c
}

// breakGrace is how long the process may outlive the connection before that counts as a broken connection rather than a crash.
const breakGrace = time.Second

// explain converts the error of a call to a typed one, and decides whether the backend is lost.
func (s *Session) explain(ctx, callCtx context.Context, took time.Duration, err error, what func() string) error {
	if fault := s.fault(); fault != nil {
		return s.during(fault, what)
	}
	var own *diag.Error
	if errors.As(err, &own) { // created by the host's side of the call
		if own.Code == ErrProtocol {
			s.fail(own)
			return s.during(own, what)
		}
		return own
	}
	var refused *observeError
	if errors.As(err, &refused) {
		return refused.err
	}
	st, _ := status.FromError(err)
	if e, ok := fromWire(st, s.name); ok {
		return e
	}
	if errors.Is(ctx.Err(), context.Canceled) { // whatever the cause
		return interrupted(s.name, ctx)
	}
	switch {
	case callCtx.Err() != nil || st.Code() == codes.DeadlineExceeded:
		s.fail(lost(ErrStopped, s.name, "gave no answer within %v", took.Round(time.Millisecond)))
	case st.Code() == codes.ResourceExhausted:
		s.fail(lost(ErrProtocol, s.name, "sent a message of more than %d bytes", MaxMessage))
	case s.runner.tlsFailure() != nil:
		s.fail(s.runner.tlsFailure())
	case st.Code() == codes.Unavailable || st.Code() == codes.Canceled:
		select {
		case <-s.dead.Done():
		case <-time.After(breakGrace):
			s.fail(lost(ErrProtocol, s.name, "closed its connection"))
		}
	default:
		s.fail(lost(ErrProtocol, s.name, "answered with status %v and no error detail: %s", st.Code(), clean(st.Message())))
	}
	return s.during(s.fault(), what)
}
