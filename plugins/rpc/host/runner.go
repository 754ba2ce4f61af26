//go:build linux || darwin || windows

package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/sandbox"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// A backendRunner implements runner.Runner, by which go-plugin controls the backend's process. go-plugin sees only one
// line of the backend's output, the handshake, and only after it has been checked.
type backendRunner struct {
	name     string // such as "backend cpu"
	path     string // path of the executable, as the user gave it
	exe      *os.File
	files    *wire.Files
	env      []string // environment, in addition to go-plugin's variables
	dir      string   // private directory for sockets
	folder   string   // folder of an installed plugin, or empty
	inMemory bool     // whether exe is a copy in memory
	confined Confinement
	versions []int
	log      *logSink

	cmd        *exec.Cmd
	copies     []*os.File                 // made for the process; closed when it has started
	proc       atomic.Pointer[process]    // nil until the process is started
	accepted   atomic.Pointer[handshake]  // nil until the handshake is accepted
	reached    atomic.Int32               // the last part of the start that was completed
	first      atomic.Value               // the beginning of stdout, a string
	stderrDone chan struct{}              // closed when stderr ends
	fault      atomic.Pointer[diag.Error] // why the start failed
	tlsFault   atomic.Pointer[diag.Error] // why the TLS handshake failed
	stdout     *io.PipeReader
	stderr     *io.PipeReader
}

var _ runner.Runner = (*backendRunner)(nil)

// setFault records the first fault.
func (r *backendRunner) setFault(e *diag.Error) { r.fault.CompareAndSwap(nil, e) }

// build implements go-plugin's RunnerFunc. The environment of cmd contains only the variables that go-plugin sets for
// the backend.
func (r *backendRunner) build(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
	files, names := r.files.List()
	r.cmd = &exec.Cmd{
		Path: execPath(r.exe, 3+len(files)-1),
		Args: []string{r.exe.Name()},
		Dir:  r.dir,
		// Stdin is nil, so the backend reads from /dev/null. go-plugin would pass on the host's stdin.
	}
	files, err := r.inherit(files)
	if err != nil {
		return nil, err
	}
	r.cmd.Env = slices.Concat(r.env, cmd.Env, []string{wire.Env(files, names)})
	return r, nil
}

// Start runs the command with pipes for its output.
func (r *backendRunner) Start(context.Context) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return err
	}
	r.cmd.Stdout, r.cmd.Stderr = outW, errW
	p, err := r.startProcess()
	for _, f := range r.copies {
		f.Close()
	}
	outW.Close()
	errW.Close()
	if err != nil {
		outR.Close()
		errR.Close()
		switch {
		case errors.Is(err, code.Sandbox):
			r.setFault(err.(*diag.Error))
		case notExecutable(err):
			r.setFault(lost(code.NotPlugin, r.name, "%s cannot be executed: %w", r.path, unwrapAll(err)))
		default:
			r.setFault(lost(code.Host, r.name, "%s cannot be started: %w", r.path, unwrapAll(err)))
		}
		return err
	}
	r.reached.Store(reachedProcess)
	r.watchOutput(p, outR, errR)
	return nil
}

// startProcess runs the command, in a sandbox if there is one. It returns when the backend's own code runs.
func (r *backendRunner) startProcess() (*process, error) {
	if !r.confined.confined() {
		p, err := startProcess(r.cmd)
		if err == nil {
			r.proc.Store(p)
		}
		return p, err
	}
	status, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer status.Close()
	r.cmd.Path, r.cmd.Args = sandbox.Command(
		sandbox.Spec{Path: r.cmd.Path, Args: r.cmd.Args, Layers: r.confined.layers(),
			Grants: r.confined.grants(r.exe, 3+len(r.cmd.ExtraFiles)-1, r.inMemory, r.dir, r.folder, r.cmd.Env),
			Status: 3 + len(r.cmd.ExtraFiles)})
	r.cmd.ExtraFiles = append(r.cmd.ExtraFiles, report)
	p, err := startProcess(r.cmd)
	report.Close()
	if err != nil {
		return nil, err
	}
	r.proc.Store(p) // so that a start that takes too long can be killed
	if err = sandbox.Result(status); err == nil {
		return p, nil
	}
	select {
	case <-p.exited: // the launcher failed
	case <-time.After(drainGrace):
		p.kill()
		<-p.exited
	}
	r.proc.Store(nil)
	if _, ok := err.(syscall.Errno); !ok {
		return nil, lost(code.Sandbox, r.name, "the sandbox launcher failed: %w; it %s", err, p.ending())
	}
	return nil, err
}

// drainGrace is how long the pipes are read after the process has exited. They may not end, because another process may
// hold the write ends.
const drainGrace = 250 * time.Millisecond

// watchOutput reads both pipes until the backend has exited, and passes the handshake to go-plugin.
func (r *backendRunner) watchOutput(p *process, outR, errR *os.File) {
	hostOut, toHost := io.Pipe()
	hostErr, toHostErr := io.Pipe()
	r.stdout, r.stderr = hostOut, hostErr
	r.stderrDone = make(chan struct{})
	drained := make(chan struct{})
	go func() {
		defer close(r.stderrDone)
		r.log.drain(errR, "stderr")
	}()
	go func() {
		defer close(drained)
		br := bufio.NewReaderSize(&firstBytes{Reader: outR, store: &r.first}, wire.MaxLine)
		if h, ok := r.readHandshake(p, br); ok {
			r.accepted.Store(&h)
			r.reached.Store(reachedLine)
			toHost.Write([]byte(h.line()))
		} else {
			toHost.Close()
			p.kill()
		}
		r.log.drain(br, "stdout")
	}()
	go func() {
		<-p.exited
		grace := time.After(drainGrace)
		for _, done := range []chan struct{}{drained, r.stderrDone} {
			select {
			case <-done:
				continue
			case <-grace:
			}
			break
		}
		outR.Close()
		errR.Close()
		toHost.Close()
		toHostErr.Close()
	}()
}

// drainErrors waits for the end of stderr after the process has exited.
func (r *backendRunner) drainErrors() {
	select {
	case <-r.stderrDone:
	case <-time.After(drainGrace):
	}
}

// quotedLines is how many lines of a backend's output an error quotes. It is enough for the end of a traceback.
const quotedLines = 10

// The parts of a start, in their order. Values of backendRunner.reached.
const (
	reachedNothing int32 = iota
	reachedProcess       // the backend's code runs
	reachedLine          // its first line has been accepted
	reachedSocket        // the host has connected to the socket
	reachedTLS           // the TLS handshake has been completed
)

// missing describes which part of the start the host waits for.
func (r *backendRunner) missing() string {
	switch r.reached.Load() {
	case reachedNothing:
		return "its process has not started"
	case reachedProcess:
		first, _ := r.first.Load().(string)
		if first == "" {
			return "it has printed nothing to stdout; want a line such as " + exampleLine + ", and a flush"
		}
		return fmt.Sprintf("it has printed %q to stdout, without a newline", wire.Abridge(wire.Clean(first), 80))
	case reachedLine:
		return "its line is right, but its socket accepts no connection"
	case reachedSocket:
		return "its line is right and its socket is there, but the TLS handshake has no answer"
	}
	return "its line is right and TLS works, but no HTTP/2 settings have come, with which gRPC begins"
}

// firstBytes records the beginning of what it reads.
type firstBytes struct {
	io.Reader
	store *atomic.Value // a string
	seen  []byte
}

func (f *firstBytes) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if k := min(n, 256-len(f.seen)); k > 0 {
		f.seen = append(f.seen, b[:k]...)
		f.store.Store(string(f.seen))
	}
	return n, err
}

// readHandshake reads the first line of stdout. If the line is not a valid handshake, it records the reason.
func (r *backendRunner) readHandshake(p *process, br *bufio.Reader) (handshake, bool) {
	line, err := br.ReadSlice('\n')
	if len(line) == 0 && err != nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		select {
		case <-p.exited:
			r.drainErrors()
			e := lost(code.Exited, r.name, "%s %s before the handshake", r.path, p.ending())
			if output := r.log.lastLines(quotedLines); output != "" {
				e.Msg += "; its last output: " + output
			} else if len(line) > 0 {
				e.Msg += "; its last output: " + wire.Abridge(wire.Clean(string(line)), 300)
			}
			r.setFault(e)
		case <-time.After(2 * drainGrace):
			r.setFault(lost(code.Handshake, r.name, "%s closed its output without a handshake", r.path))
		}
		return handshake{}, false
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		r.setFault(
			lost(code.Handshake, r.name, "%s is not a backend: its first line is longer than %d bytes", r.path,
				wire.MaxLine))
		return handshake{}, false
	}
	h, err := parseHandshake(string(line), r.dir, r.versions)
	if err == nil {
		err = checkSocket(h.socket, r.dir)
	}
	var mismatch versionMismatch
	switch {
	case errors.As(err, &mismatch):
		r.setFault(lost(code.Version, r.name, "%s %w; this host speaks %v", r.path, err, r.versions).
			WithHint("rebuild the backend with the release of this host"))
		return h, false
	case err != nil:
		r.setFault(lost(code.Handshake, r.name, "%s: %w", r.path, err))
		return h, false
	}
	return h, true
}

func (r *backendRunner) Diagnose(context.Context) string { return "" }
func (r *backendRunner) Stdout() io.ReadCloser           { return r.stdout }
func (r *backendRunner) Stderr() io.ReadCloser           { return r.stderr }
func (r *backendRunner) Name() string                    { return r.name }

// ID returns "" before the start. go-plugin then knows that there is no process to kill.
func (r *backendRunner) ID() string {
	if p := r.proc.Load(); p != nil {
		return strconv.Itoa(p.pid)
	}
	return ""
}

func (r *backendRunner) Wait(context.Context) error {
	<-r.proc.Load().exited
	return nil
}

func (r *backendRunner) Kill(context.Context) error {
	r.kill()
	return nil
}

// kill kills the backend if it was started.
func (r *backendRunner) kill() {
	if p := r.proc.Load(); p != nil {
		p.kill()
	}
}

// PluginToHost is called with the address from the handshake. It checks the address once more, because go-plugin dials
// it.
func (r *backendRunner) PluginToHost(kind, addr string) (string, string, error) {
	if kind != network {
		return "", "", errors.New("address is not " + addressForm)
	}
	return kind, addr, checkSocket(addr, r.dir)
}

func (r *backendRunner) HostToPlugin(kind, addr string) (string, string, error) {
	return kind, addr, nil
}

// unwrapAll returns the innermost error. Its text is that of the system, without the /proc paths of the wrappers, which
// mean nothing to a user.
func unwrapAll(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}
