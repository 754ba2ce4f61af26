package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/ctxio"
)

// Main runs the process's command line and exits. The first Ctrl-C, SIGTERM or SIGHUP cancels the command's context;
// the command cleans up and exits with status 128 + signal. A second one ends the process at once. A signal that was
// ignored when the process started stays ignored: nohup and shells that run a job in the background rely on that.
func Main(p Program) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var heard []os.Signal
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			heard = append(heard, sig)
		}
	}
	if len(heard) > 0 { // Notify without signals would catch all signals
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, heard...)
		go func() {
			sig := <-ch
			for sig == os.Interrupt && interrupts.taken() || sig == syscall.SIGHUP && hangups.taken() {
				sig = <-ch
			}
			signal.Reset(heard...)
			cancel(&stopped{sig})
		}()
	}
	os.Exit(p.Exec(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// interrupts takes Ctrl-C in place of the end of the command, and hangups takes SIGHUP.
var interrupts, hangups taker

type taker struct {
	mu sync.Mutex
	f  func() bool
}

func (t *taker) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.f != nil && t.f()
}

func (t *taker) set(f func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.f = f
}

// OnInterrupt lets f take Ctrl-C until release is called. If f returns false, the command ends as without it.
func OnInterrupt(f func() bool) (release func()) { return interrupts.take(f) }

// OnHangup does so for SIGHUP.
func OnHangup(f func() bool) (release func()) { return hangups.take(f) }

func (t *taker) take(f func() bool) (release func()) {
	t.set(f)
	return func() { t.set(nil) }
}

// stopped is the cause of a context that a signal has cancelled.
type stopped struct{ sig os.Signal }

func (s *stopped) Error() string { return "stopped by " + s.sig.String() }

// AskedToStop reports whether Ctrl-C or SIGTERM has cancelled ctx, the context of a command. It is for commands that
// run until then, whose end is not a failure.
func AskedToStop(ctx context.Context) bool {
	var s *stopped
	return errors.As(context.Cause(ctx), &s) && (s.sig == os.Interrupt || s.sig == syscall.SIGTERM)
}

func (s *stopped) status() int {
	if n, ok := s.sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return diag.Interrupted.Exit()
}

// Started returns when the process was started. If the kernel does not report that, it returns when the process began
// to run Go code.
func Started() time.Time {
	if t, ok := processStart(); ok && t.Before(start) && start.Sub(t) < time.Minute {
		return t
	}
	return start
}

// Failure is the JSON that --format json prints on stderr for an error.
type Failure struct {
	Code    string   `json:"code"`
	Exit    int      `json:"exit"`
	Subject string   `json:"subject,omitempty"`
	Message string   `json:"message"`
	Hint    string   `json:"hint,omitempty"`
	More    []string `json:"more,omitempty"`
}

// failureOf converts err. An error without a code is a bug of ours, because every error that users can cause has one.
func failureOf(ctx context.Context, err error) Failure {
	var s *stopped
	if errors.As(context.Cause(ctx), &s) {
		return Failure{Code: string(diag.Interrupted), Exit: s.status(),
			Message: "stopped by signal: " + s.sig.String()}
	}
	f := Failure{Code: string(diag.Internal), Exit: diag.ExitCode(err), Message: err.Error()}
	if code, ok := diag.CodeOf(err); ok {
		f.Code = string(code)
	}
	if e, ok := err.(*diag.Error); ok {
		f.Subject, f.Message, f.Hint = e.Subject, e.Msg, e.Hint
		for _, line := range e.More {
			f.More = append(f.More, diag.Printable(line))
		}
	}
	f.Subject, f.Message, f.Hint = short(diag.Printable(f.Subject)), short(diag.Printable(f.Message)),
		short(diag.Printable(f.Hint))
	return f
}

// maxPart limits each part of an error, because names and types in it may come from a file and be as long as that.
const maxPart = 4 << 10

// short leaves out the middle of a text that is longer than maxPart.
func short(s string) string {
	if len(s) <= maxPart {
		return s
	}
	const ends = maxPart / 2
	return strings.ToValidUTF8(s[:ends], "") + fmt.Sprintf(" (%d bytes left out) ", len(s)-2*ends) +
		strings.ToValidUTF8(s[len(s)-ends:], "")
}

// report prints err and returns the exit status. helpFor is the command whose --help may help, with a leading blank.
func (e *Env) report(ctx context.Context, err error, helpFor string) int {
	f := failureOf(ctx, err)
	if e.JSON {
		b, merr := json.Marshal(map[string]Failure{"error": f})
		if merr != nil {
			panic("BUG: " + merr.Error())
		}
		fmt.Fprintf(e.Stderr, "%s\n", printableJSON(b))
		return f.Exit
	}
	msg := f.Message
	if f.Subject != "" {
		msg = f.Subject + ": " + msg
	}
	if f.Hint != "" {
		msg += "; " + f.Hint
	}
	see := e.Program + " explain " + f.Code
	if f.Code == string(diag.Usage) {
		see = e.Program + helpFor + " --help"
	}
	if len(f.More) > 0 && !e.Verbose {
		see += "; -v says more"
	}
	fmt.Fprintf(e.Stderr, "%s: %s (%s; see %s)\n", e.Program, msg, f.Code, see)
	if e.Verbose {
		for _, line := range f.More {
			fmt.Fprintf(e.Stderr, "  %s\n", line)
		}
	}
	return f.Exit
}

// catch turns a panic into an internal error. Go's own exit status for a panic, 2, means a usage error here.
func catch(env *Env, status *int) {
	if r := recover(); r != nil {
		stack := debug.Stack()
		if p, ok := r.(*ctxio.Panic); ok {
			stack = p.Stack
		}
		*status = env.report(
			context.Background(), diag.New(diag.Internal, "", "%v", r).WithHint("please report this, with the command"),
			"")
		fmt.Fprintf(env.Stderr, "%s", stack)
	}
}

func checkHost() error {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return diag.New(code.Machine, "", "this machine is big-endian; little-endian machines are supported")
	}
	return nil
}
