package host

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/peakrss"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// A Session is the host's side of one running backend process. It implements device.Backend. Its methods may be called
// concurrently, but only one run executes at a time. After an error that matches device.ErrLost, the process is gone,
// and every later call except Close returns the same error. Start another session then.
type Session struct {
	name string // such as "backend cpu"
	opts Options
	log  *logSink
	msgs *protocolLog // nil if messages are not logged

	confined Confinement
	declared string // path of the sandbox declaration
	exe      *os.File
	dir      *privateDir
	region   *wire.Region // nil if tensors are sent in chunks
	// the parts of the region's data that may contain nonzero bytes; guarded by runSlot
	dirty                spans
	newWeights           *wire.NewWeights // nil if new weights are sent in chunks; guarded by runSlot
	direct               *wire.RunChannel
	directRuns           bool     // whether the backend serves runs on direct
	runsEnd              *os.File // the backend's end of direct
	lifelineR, lifelineW *os.File
	runner               *backendRunner
	client               *goplugin.Client
	proc                 *process
	conn                 *grpc.ClientConn
	api                  rlxv1.BackendClient
	info                 device.Info
	peakRSS              atomic.Int64    // of the backend's process, in bytes, as last measured
	peak                 peakrss.Sampler // decides when to measure peakRSS after a run
	worked               atomic.Bool     // whether a run has succeeded

	loadMu     sync.Mutex
	runSlot    chan struct{} // a mutex for runs and states; see lock
	runWatch   lifeWatch     // of runs on direct; guarded by runSlot
	generation int64         // number of the last run; guarded by runSlot
	running    runState

	dead     context.Context // cancelled when the backend is lost or closed
	kill     context.CancelCauseFunc
	once     sync.Once
	released chan struct{} // closed when the process, the socket and the descriptors are gone
}

func newSession(opts Options) *Session {
	s := &Session{name: "backend " + opts.backendName(), opts: opts, log: NewLogSink(opts.Log),
		msgs:    newProtocolLog(opts.backendName(), opts.Protocol),
		runSlot: make(chan struct{}, 1), released: make(chan struct{})}
	if opts.tap != nil {
		s.msgs = &protocolLog{record: func(e event) { opts.tap(s, e) }}
	}
	s.dead, s.kill = context.WithCancelCause(context.Background())
	return s
}

// Name returns the backend's name for messages.
func (s *Session) Name() string { return s.opts.backendName() }

// PID returns the process number of the backend.
func (s *Session) PID() int { return s.proc.pid }

// Sandbox returns the confinement of the backend's process.
func (s *Session) Sandbox() Confinement { return s.confined }

// Info returns the description that the backend sent when it started.
func (s *Session) Info(context.Context) (device.Info, error) {
	if err := s.Err(); err != nil {
		return device.Info{}, err
	}
	return s.info, nil
}

// PeakRSS returns the peak resident size of the backend's process in bytes, including mapped weights, or 0 if the
// system does not report it. After the process has ended, it returns the last measurement. A measurement is made by
// this method, after runs, and before the host ends the process.
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

// Close ends the backend and waits until the process is gone. It asks the backend to exit, sends SIGTERM after one
// second, and SIGKILL after another.
func (s *Session) Close() error {
	s.fail(lost(code.Closed, s.name, "was closed"))
	<-s.released
	s.runSlot <- struct{}{} // a run may still copy from the region, which must not be unmapped before the run ends
	s.region.Close()
	s.newWeights.Close()
	<-s.runSlot
	return nil
}

// Err returns the error with which the backend was lost, or nil while it runs.
func (s *Session) Err() error {
	if s.dead.Err() == nil {
		return nil
	}
	var e *diag.Error
	if errors.As(context.Cause(s.dead), &e) {
		return e
	}
	return nil
}

// fail marks the backend as lost with an error, and ends the process. Only the first call has an effect.
func (s *Session) fail(err error) {
	s.once.Do(func() {
		s.msgs.line("#", "the session ends: "+err.Error())
		s.kill(err)
		s.direct.Interrupt()
		go func() {
			s.stop(errors.Is(err, code.Closed))
			s.release()
			close(s.released)
		}()
	})
}

// hintSandbox adds a hint to err if the sandbox may be the cause.
func (s *Session) hintSandbox(err error) error {
	var e *diag.Error
	if !s.confined.confined() || !errors.As(err, &e) {
		return err
	}
	hint := ""
	switch {
	case errors.Is(err, device.ErrUnavailable) && !s.confined.allows(wordGPU):
		hint = "its sandbox allows no GPU, unless " + s.declared + " says " + wordGPU
	case errors.Is(err, code.Exited):
		hint = "its sandbox may be the cause: try --sandbox=off"
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
	e := lost(code.Crashed, s.name, "its process %s", s.proc.ending())
	if output := s.log.lastOutput(); output != "" && s.proc.cmd.ProcessState.ExitCode() >= 0 {
		e.Hint = "its last output: " + wire.Abridge(output, 300)
	}
	return e
}

// stop ends the process. If graceful, it follows the description of Close; otherwise it sends SIGKILL at once. It calls
// go-plugin's Kill last, because Kill waits for the process to answer.
func (s *Session) stop(graceful bool) {
	if s.proc == nil {
		if s.client != nil {
			s.client.Kill()
		}
		return
	}
	s.PeakRSS() // the last measurement
	wait := s.opts.Timeouts.Stop
	if graceful && s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		s.conn.Invoke(ctx, wire.ShutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
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

// gone waits at most d for the process to end, and reports whether it has ended.
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
	s.direct.Close()
	s.dir.remove() // last, because it needs free descriptors
	s.log.close()
}

// lock waits until no run and no call for a state uses the session, and reserves it. The caller must call unlock if
// lock succeeds.
func (s *Session) lock(ctx context.Context) error {
	select {
	case s.runSlot <- struct{}{}:
	case <-ctx.Done():
		return interrupted(s.name, ctx)
	case <-s.dead.Done():
		return s.Err()
	}
	err := s.Err() // check again, because select chooses at random among the ready cases
	if err == nil && ctx.Err() != nil {
		err = interrupted(s.name, ctx)
	}
	if err != nil {
		s.unlock()
	}
	return err
}

func (s *Session) unlock() { <-s.runSlot }

// call makes one call of the protocol, with a deadline, while it watches the heartbeats. The call ends if the backend
// is lost. what describes the call in error messages, such as "while it loaded encode".
func (s *Session) call(ctx context.Context, limit time.Duration, what func() string,
	f func(context.Context) error) error {
	if err := s.Err(); err != nil {
		return s.during(err, what)
	}
	callCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(s.dead, cancel)()
	begun := time.Now()
	w := s.watch()
	err := f(callCtx)
	w.stop()
	if err == nil {
		return nil
	}
	return s.explain(ctx, callCtx.Err() != nil, time.Since(begun), err, what)
}

// callDirect is like call, for a run on the run channel. A context and timers of its own would take a large part of a
// short run. So the timer that watches the heartbeats also ends the call after limit, and a lost backend ends it by
// closing the channel.
func (s *Session) callDirect(ctx context.Context, limit time.Duration, what func() string,
	f func(context.Context) error) error {
	if err := s.Err(); err != nil {
		return s.during(err, what)
	}
	begun := time.Now()
	w := &s.runWatch
	w.begin(s, limit, s.direct.Interrupt)
	err := f(ctx)
	overdue := w.stop()
	if err == nil {
		return nil
	}
	return s.explain(ctx, overdue || ctx.Err() != nil || s.dead.Err() != nil, time.Since(begun), err, what)
}

// during adds a description of what the backend was doing to err.
func (s *Session) during(err error, what func() string) error {
	var e *diag.Error
	if !errors.As(err, &e) || what == nil {
		return err
	}
	c := *e
	switch w := what(); {
	case w == "":
	case c.Code == code.Protocol: // the message is a sentence, to which no time fits
		c.Msg += "; this was " + w
	default:
		c.Msg += " " + w
	}
	return &c
}

// breakGrace is how long to wait for the process to end after the connection was lost. If the process ends in this
// time, it has crashed; otherwise it has closed the connection.
const breakGrace = time.Second

// explain converts the error of a call to a typed error. If the error shows that the backend is lost or violates the
// protocol, explain stops the backend.
// ended says whether the call was ended because the backend is lost or the time is over.
func (s *Session) explain(ctx context.Context, ended bool, took time.Duration, err error, what func() string) error {
	if fault := s.Err(); fault != nil {
		return s.during(fault, what)
	}
	var own *diag.Error
	if errors.As(err, &own) { // created by the host's side of the call
		if own.Code == code.Protocol {
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
	if e, ok := wire.FromStatus(st, s.name); ok {
		return e
	}
	if errors.Is(ctx.Err(), context.Canceled) { // for any cause
		return interrupted(s.name, ctx)
	}
	switch {
	case ended || st.Code() == codes.DeadlineExceeded:
		s.fail(lost(code.Stopped, s.name, "did not answer within %v", took.Round(time.Millisecond)))
	case st.Code() == codes.ResourceExhausted:
		s.fail(lost(code.Protocol, s.name, "sent a message of more than %d bytes", wire.MaxMessage))
	case s.runner.tlsFailure() != nil:
		s.fail(s.runner.tlsFailure())
	case st.Code() == codes.Unavailable || st.Code() == codes.Canceled:
		select {
		case <-s.dead.Done():
		case <-time.After(breakGrace):
			s.fail(lost(code.Protocol, s.name, "closed its connection"))
		}
	default:
		s.fail(
			lost(code.Protocol, s.name, "answered with status %v and no error detail: %s", st.Code(),
				wire.Clean(st.Message())))
	}
	return s.during(s.Err(), what)
}
