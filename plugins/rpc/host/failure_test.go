//go:build linux || darwin

package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

func TestNotABackend(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(opts.TempDir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		path string
		code diag.Code
		text string
	}{
		"missing":        {filepath.Join(opts.TempDir, "nowhere"), code.NotPlugin, "there is no such file"},
		"directory":      {opts.TempDir, code.NotPlugin, "is not an executable file"},
		"not executable": {write("plain", "hello", 0o600), code.NotPlugin, "is not an executable file"},
		"text":           {write("text", "hello", 0o700), code.NotPlugin, "exec format error"},
		"empty":          {write("empty", "", 0o700), code.NotPlugin, "exec format error"},
		"half an ELF":    {write("half", "\x7fELF\x02\x01\x01", 0o700), code.NotPlugin, "cannot be executed"},
		"no interpreter": {write("script", "#!/nowhere/sh\n", 0o700), code.NotPlugin, "no such file"},
		"true":           {"/bin/true", code.Exited, "exit status 0"},
		"echo":           {"/bin/echo", code.Handshake, "its first line is"},
	} {
		t.Run(name, func(t *testing.T) {
			o := opts
			o.Path = c.path
			_, err := Start(t.Context(), o)
			wantCode(t, err, c.code, c.text, c.path)
			wantEmpty(t, o.TempDir)
		})
	}
}

func TestBadStart(t *testing.T) {
	t.Parallel()
	for mode, c := range map[string]struct {
		code  diag.Code
		parts []string
	}{
		"exit0": {code.Exited, []string{"exit status 0 before the handshake"}},
		"exit3": {code.Exited,
			[]string{"exit status 3", "its last output: error while loading shared libraries: libvulkan.so.1"}},
		"rubbish":       {code.Handshake, []string{`its first line is "hello`}},
		"endless-line":  {code.Handshake, []string{"longer than 4096 bytes"}},
		"closed-stdout": {code.Handshake, []string{"closed its output"}},
		"hang":          {code.Start, []string{"did not complete the handshake within 1s: "}},
		"traceback":     {code.Exited, []string{"its last output: line 2 | line 3 | ", " | line 10 | line 11"}},
		"hang-group":    {code.Start, nil},
		"version9":      {code.Version, []string{"speaks protocol version 9; this host speaks [2]", "rebuild"}},
		"tcp":           {code.Handshake, []string{`address "tcp"`}},
		"foreign-unix":  {code.Handshake, []string{"outside the private directory"}},
		"link":          {code.Handshake, []string{"is not a socket"}},
		"no-cert":       {code.Handshake, []string{"certificate"}},
		"netrpc":        {code.Handshake, []string{"want grpc"}},
		"silent-socket": {code.Start, nil},
		"kill@start":    {code.Exited, []string{"SIGKILL before the handshake"}},
		"kill@info":     {code.Crashed, []string{"SIGKILL", "while it described itself"}},
		"stop@info":     {code.Stopped, nil},
		"exit@info":     {code.Crashed, []string{"exit status 0"}},
		"gopanic@info":  {code.Crashed, []string{"exit status 2", "its last output: panic: worker met a bug"}},
		"big@":          {code.Protocol, []string{"more than 4194304 bytes"}},
		"many@":         {code.Protocol, []string{"a list of 100000"}},
		"tls-plain": {code.Handshake,
			[]string{"TLS handshake failed: ", "does not look like a TLS handshake", "spec/protocol.md"}},
		"tls-other": {code.Handshake,
			[]string{"TLS handshake failed: its certificate is not the one in its handshake"}},
		"tls-refuses": {code.Handshake,
			[]string{"TLS handshake failed: remote error: tls: ", "the backend rejected the host's certificate"}},
		"tls-old": {code.Handshake, []string{"TLS handshake failed: ", "protocol version"}},
		"typo@": {code.Protocol,
			[]string{`sent an invalid description: device 0: type "Reference"; want one of ["cpu"`}},
		"twin@":        {code.Protocol, []string{`two devices have the ID "0"`}},
		"levels@":      {code.Protocol, []string{`level "v9" is not in its target description`}},
		"undescribed@": {code.Protocol, []string{"a target description that cannot be read: line 3, column 11"}},
		"another@":     {code.Protocol, []string{`the description of target "cpu"; want "ref", its own name`}},
		"untyped@":     {code.Protocol, []string{"no error detail"}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			opts, log := testOptions(t, mode)
			if slices.Contains([]string{"tcp", "foreign-unix", "link", "hang-group"}, mode) {
				opts.Sandbox = SandboxOff // the sandbox would prevent the attack
			}
			switch c.code { // shorten only the timeouts that this case always reaches
			case code.Start:
				opts.Timeouts.Start = time.Second
			case code.Stopped:
				opts.Timeouts.Stall = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), rpctest.HangGuard)
			defer cancel()
			_, err := Start(ctx, opts)
			wantCode(t, err, c.code, append(c.parts, "backend ref")...)
			wantEmpty(t, opts.TempDir)
			if strings.Contains(log.String(), "host dialled") {
				t.Error("the host dialled the address that the backend printed")
			}
			if pid := childNamed(log.String()); pid > 0 && isRunning(pid) {
				t.Errorf("process %d, started by the backend, still runs", pid)
			}
		})
	}
}

// TestSlowStart checks that a start may take as long as the deadline of the handshake, and no longer. It also checks
// that the deadlines in spec/protocol.md are those of the code.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "slow")
	start(t, opts).Close()
	opts.Timeouts.Start = 100 * time.Millisecond
	_, err := Start(t.Context(), opts)
	wantCode(t, err, code.Start, "did not complete the handshake within 100ms")

	spec, err := os.ReadFile("../../../spec/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	d := Timeouts{}.WithDefaults()
	for text, limit := range map[string]time.Duration{"The line must come within %s of the start": d.Start,
		"| Info | %s |": d.Info, "| Load | %s |": d.Load,
		"| Run | %s |": d.Run, "| Cancel | %s |": d.Cancel, "| Stats | %s |": d.Stats, "| Unload | %s |": d.Unload} {
		words := map[time.Duration]string{10 * time.Second: "10 s", 30 * time.Second: "30 s", 2 * time.Second: "2 s",
			2 * time.Minute: "2 min", time.Hour: "1 h"}[limit]
		if text = fmt.Sprintf(text, words); words == "" || !strings.Contains(string(spec), text) {
			t.Errorf("spec/protocol.md lacks %q: the deadline is %v", text, limit)
		}
	}
}

// childNamed returns the process number that a backend has logged for its child, or 0.
func childNamed(log string) int {
	_, rest, ok := strings.Cut(log, `msg="child `)
	if !ok {
		return 0
	}
	pid, _ := strconv.Atoi(rest[:strings.IndexByte(rest, '"')])
	return pid
}

func TestStartInterrupted(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	_, err := Start(ctx, opts)
	if !errors.Is(err, diag.Interrupted) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wantEmpty(t, opts.TempDir)
}

// TestLost kills or stops the backend at every point of the protocol.
func TestLost(t *testing.T) {
	t.Parallel()
	points := map[string]string{ // part of the message, by point
		"load":     "while it loaded encode",
		"chunk:0":  "while it loaded encode",
		"chunk:2":  "while it loaded encode",
		"run":      "before the first step of encode",
		"run:0":    "during step 1 of 4 (matmul xw) of encode",
		"run:2":    "during step 3 of 4 (add sum) of encode",
		"readback": "during step 4 of 4 (neg y) of encode",
		"stats":    "while it sent the step times of encode",
		"unload":   "while it unloaded encode",
	}
	for point, where := range points {
		for action, code := range map[string]diag.Code{"kill": code.Crashed, "stop": code.Stopped,
			"gopanic": code.Crashed, "oom": code.Crashed} {
			if (action == "gopanic" || action == "oom") && point != "run:2" {
				continue
			}
			for _, chunks := range []bool{false, true} {
				if chunks && action == "stop" && !strings.Contains("load chunk:2 run:2", point) {
					continue // slow, because each takes its whole deadline, and the code is the same
				}
				t.Run(fmt.Sprintf("%s@%s/chunks=%v", action, point, chunks), func(t *testing.T) {
					t.Parallel()
					for range rounds(t, 1) {
						lose(t, action, point, where, code, chunks)
					}
				})
			}
		}
	}
}

// lose loses a backend at a point of the protocol and then runs the same program in a new one.
func lose(t *testing.T, action, point, where string, code diag.Code, chunks bool) {
	opts, _ := testOptions(t, action+"@"+point)
	opts.NoSharedMemory = chunks
	if action == "stop" {
		opts.Timeouts.Stall = time.Second
	}
	// without a region there are no heartbeats outside runs, and none before the first run
	if action == "stop" && chunks {
		d := 3 * time.Second
		opts.Timeouts.Load, opts.Timeouts.Run, opts.Timeouts.Stats, opts.Timeouts.Unload = d, d, d, d
	}
	s := start(t, opts)
	err := lifecycle(t, s, strings.HasPrefix(point, "chunk"))
	var step *wire.StepError
	if known := errors.As(err, &step); chunks {
		where = "encode" // the progress message may have been lost with the process
	} else if known != strings.Contains(where, "during") {
		t.Errorf("step in the chain: %v", step)
	}
	wantCode(t, err, code, where)
	select {
	case <-s.released:
	case <-time.After(rpctest.HangGuard):
		t.Fatal("the session was not released")
	}
	wantGone(t, s, opts)
	_, err = s.Info(t.Context())
	wantCode(t, err, code)
	opts, _ = testOptions(t, "good")
	next := start(t, opts)
	if out, err := runOnce(t.Context(), t, next, 3); err != nil ||
		!bytes.Equal(out, rpctest.WantOutput(t, rpctest.Program(t), 3, rpctest.Input(3, 1))) {
		t.Errorf("the next run: %v", err)
	}
	next.Close()
}

// rounds returns the number of rounds of a test: the value of RLX_SOAK, or n if it is not set.
func rounds(t *testing.T, n int) int {
	v := os.Getenv("RLX_SOAK")
	if v == "" {
		return n
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("RLX_SOAK=%s is not a number of rounds", v)
	}
	return n
}

// lifecycle goes through every call once and returns the first error.
func lifecycle(t *testing.T, s *Session, streamed bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), rpctest.HangGuard)
	defer cancel()
	var e device.Executable
	var err error
	if streamed {
		e, err = s.Load(ctx, device.Load{Program: rpctest.Program(t), Weights: bytes.Repeat(rpctest.Weights(), 4<<10)})
	} else {
		e, err = s.LoadMapped(ctx, testLoad(rpctest.Program(t)))
	}
	if err != nil {
		return err
	}
	if _, _, err := e.(*Executable).RunTensors(
		ctx, device.Run{Syms: map[string]int64{"N": 1}, Opts: device.RunOptions{Profile: true}},
		[][]byte{rpctest.Input(1, 1)}); err != nil {
		return err
	}
	return e.Close()
}

// TestStepDeadline checks that a step that never ends is stopped after Timeouts.Step, with both transports, although
// the backend sends heartbeats, and that the time in which the host observes a value does not count.
func TestStepDeadline(t *testing.T) {
	t.Parallel()
	for _, chunks := range []bool{false, true} {
		t.Run(fmt.Sprint("chunks=", chunks), func(t *testing.T) {
			t.Parallel()
			opts, _ := testOptions(t, "sleep@run:1")
			opts.NoSharedMemory, opts.Timeouts.Step = chunks, time.Second
			s := start(t, opts)
			_, err := runOnce(t.Context(), t, s, 1)
			wantCode(t, err, code.Stopped, "started no other step for 1s during step 2 of 4 (gelu act) of encode",
				"Timeouts.Step allows longer")
			<-s.released
			wantGone(t, s, opts)
		})
	}
	t.Run("observed", func(t *testing.T) {
		t.Parallel()
		opts, _ := testOptions(t, "good")
		opts.Timeouts.Step = 4 * time.Second
		s := start(t, opts)
		p := rpctest.Program(t)
		e, err := s.LoadMapped(t.Context(), testLoad(p))
		if err != nil {
			t.Fatal(err)
		}
		watching := device.RunOptions{Dump: []int{p.Steps[0].Node}, Observe: func(int, []int, []byte) error {
			time.Sleep(opts.Timeouts.Step + 2*time.Second)
			return nil
		}}
		if _, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}, Opts: watching},
			[][]byte{rpctest.Input(1, 1)}); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlineOfCaller(t *testing.T) {
	t.Parallel()
	for limit := 2 * time.Second; ; limit *= 4 { // a busy machine may need longer to get to step 2
		opts, _ := testOptions(t, "sleep@run:1")
		s := start(t, opts)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := runOnce(ctx, t, s, 1)
		cancel()
		if limit < rpctest.HangGuard && !strings.Contains(fmt.Sprint(err), "during step") {
			continue
		}
		wantCode(t, err, code.Stopped, "did not answer within", "during step 2 of 4 (gelu act)")
		<-s.released
		wantGone(t, s, opts)
		return
	}
}

// TestMissing checks that a start which takes too long names the part that is missing. A busy machine may need a longer
// timeout to get there.
func TestMissing(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"hang":          "it has printed nothing to stdout; want a line such as 1|2|unix|SOCKET|grpc|CERTIFICATE, and a flush",
		"no-newline":    `it has printed "1|2|unix" to stdout, without a newline; its last output: loading`,
		"silent-socket": "its socket is there, but the TLS handshake has no answer",
		"tls-silent":    "TLS works, but no HTTP/2 settings have come",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var err error
			for limit := time.Second; limit < rpctest.HangGuard; limit *= 4 {
				opts, _ := testOptions(t, mode)
				opts.Timeouts.Start = limit
				if _, err = Start(t.Context(), opts); strings.Contains(err.Error(), want) {
					wantCode(t, err, code.Start)
					return
				}
			}
			t.Errorf("%v; want %q", err, want)
		})
	}
}

func TestLies(t *testing.T) {
	t.Parallel()
	for mode, text := range map[string]string{
		"oldgen@":     "answered with the result of run 0; want 1",
		"nandone@":    "first_nan 2; want -1, or the error RLX1003",
		"unset@":      "first_nan 0; want -1",
		"moretimes@":  "times of 1004 steps; want 4, because 4 of 4 steps ran, or 0 if it measures none; this was in its summary of a run of encode",
		"fewertimes@": "times of 3 steps; want 4",
		"zeroid@":     "gave encode the executable number 0",
		"inputtime@":  "the time of node 0 in place 1 of its list; want that of node 2, which is step 1 of 4 (matmul xw); this was while it sent the step times",
		"disorder@":   "the time of node 5 in place 1 of its list",
		"nostep@":     "the time of node 0 in place 4 of its list",
		"nothing@":    "ended a run without a result",
		"twice@":      "sent another message after the result",
		"unasked@":    "node 2, which was not requested",
		"chunky@":     "",
		"badindex@":   "",
		"huge@":       "more than 4194304 bytes",
		"empty@":      "unknown reply",
	} {
		for _, chunks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%schunks=%v", mode, chunks), func(t *testing.T) {
				t.Parallel()
				opts, _ := testOptions(t, mode)
				opts.NoSharedMemory = chunks
				opts.Timeouts.Stall = rpctest.HangGuard // under the race detector, copying 96 MiB stops all goroutines
				s := start(t, opts)
				err := lifecycle(t, s, false)
				wantCode(t, err, code.Protocol, text)
				if strings.HasSuffix(mode, "times@") && strings.Contains(err.Error(), "during step") {
					t.Errorf("%v: blames a step", err)
				}
				<-s.released
				wantGone(t, s, opts)
			})
		}
	}
}

// TestBlocked checks that Start does not block on a FIFO without a writer, but returns an error.
func TestBlocked(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	opts.Path = filepath.Join(opts.TempDir, "fifo")
	if err := syscall.Mkfifo(opts.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, err := Start(t.Context(), opts)
		refused <- err
	}()
	select {
	case err := <-refused:
		wantCode(t, err, code.NotPlugin, opts.Path+" is not an executable file")
	case <-time.After(rpctest.HangGuard):
		t.Fatal("the host blocks on a FIFO")
	}
	wantEmpty(t, opts.TempDir)
}

// TestUnaskedTimes checks that the host rejects step times of a run without a profile.
func TestUnaskedTimes(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "unasked-times@")
	_, err := runOnce(t.Context(), t, start(t, opts), 1)
	wantCode(t, err, code.Protocol, "announced the times of 4 steps; want 0")
}

// TestSkippedTimes checks that steps which a run skips have no times, and that an error names neither them nor the step
// that started last.
func TestSkippedTimes(t *testing.T) {
	t.Parallel()
	g := ir.NewGraph("two")
	x := op.Input(g, "x", ir.MustType("f32[4]"))
	g.Return("a", op.Neg(x).Named("a"))
	g.Return("b", op.Gelu(x).Named("b"))
	p, _, err := sched.Build(g, sched.Options{Method: "two", Target: "ref"})
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{ // this backend skips no steps
		"good":        "announced the times of 2 steps; want 1, because 1 of 2 steps ran, or 0 if it measures none; this was in its summary of a run of two",
		"fewertimes@": "the time of node 1 in place 1 of its list; want that of node 2, which is step 2 of 2 (gelu b); this was while it sent the step times of two",
	} {
		opts, _ := testOptions(t, mode)
		e, err := start(t, opts).LoadMapped(t.Context(), LoadOptions{Program: p})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = e.RunTensors(
			t.Context(), device.Run{Outputs: []bool{false, true}, Opts: device.RunOptions{Profile: true}},
			[][]byte{make([]byte, 16)})
		wantCode(t, err, code.Protocol, want)
		if strings.Contains(err.Error(), "during") {
			t.Errorf("%s: %v blames a step", mode, err)
		}
	}
}

// TestHostMemory checks that floods of output, oversized replies and malformed log lines do not crash the host or
// increase its memory.
func TestHostMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever GOGC says
	for _, mode := range []string{"flood@load", "evil-log@load", "huge@", "big@"} {
		t.Run(mode, func(t *testing.T) {
			opts, log := testOptions(t, mode)
			log.Grow(4 << 20)
			runtime.GC()
			os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets VmHWM
			before := peakrss.Own()
			s, err := Start(t.Context(), opts)
			if err == nil {
				err = lifecycle(t, s, false)
				s.Close()
			}
			if good := strings.HasSuffix(mode, "@load"); good != (err == nil) {
				t.Fatal(err)
			}
			if grown := peakrss.Own() - before; grown > 64<<20 {
				t.Errorf("the host grew by %d MiB", grown>>20)
			}
			if mode == "flood@load" && !strings.Contains(log.String(), "part of the backend's log was dropped") {
				t.Error("the log does not mention the dropped bytes")
			}
			wantGone(t, s, opts)
		})
	}
}

// TestLingering closes a session whose backend does not exit when asked to.
func TestLingering(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "linger@")
	opts.Timeouts.Stop = 200 * time.Millisecond
	s := start(t, opts)
	s.Close()
	wantGone(t, s, opts)
}

// TestCloseStopped closes a session whose backend has received SIGSTOP, so only SIGKILL can end it.
func TestCloseStopped(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	opts.Timeouts.Stop = 200 * time.Millisecond
	s := start(t, opts)
	syscall.Kill(s.PID(), syscall.SIGSTOP)
	s.Close()
	wantGone(t, s, opts)
}

// TestLifeline checks that a backend exits when its lifeline is closed.
func TestLifeline(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	s.lifelineW.Close()
	select {
	case <-s.Done():
	case <-time.After(rpctest.HangGuard):
		t.Fatal("the backend outlived its lifeline")
	}
	wantCode(t, s.Err(), code.Crashed)
}

// TestNoLeaks checks that sessions, successful or not, leave no descriptors, goroutines or processes behind. RLX_SOAK
// sets the number of rounds, each of five sessions.
func TestNoLeaks(t *testing.T) {
	once := func(mode string) {
		opts, _ := testOptions(t, mode)
		defer opts.Artifact.Close()
		s, err := Start(t.Context(), opts)
		if err != nil {
			return
		}
		runOnce(t.Context(), t, s, 1)
		s.Close()
	}
	for range 5 { // the first sessions start what the Go runtime keeps, such as threads and timers
		once("good")
	}
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range rounds(t, 3) {
		for _, mode := range []string{"good", "exit0", "rubbish", "kill@run:1", "oldgen@"} {
			once(mode)
		}
	}
	for i := 0; (openFiles(t) > files || runtime.NumGoroutine() > goroutines) && i < 200; i++ {
		time.Sleep(50 * time.Millisecond) // the goroutines of closed connections end a little later
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d descriptors at the end; %d at the start", n, files)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines at the end; %d at the start", n, goroutines)
	}
	if c := children(t); len(c) > 0 {
		t.Errorf("children left: %v", c)
	}
}

// TestHammer has eight goroutines that each start, use, kill and close their own sessions. RLX_SOAK sets the number of
// rounds of each.
func TestHammer(t *testing.T) {
	t.Parallel()
	n := rounds(t, 2)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range n {
				opts, _ := testOptions(t, "good")
				s, err := Start(t.Context(), opts)
				if err != nil {
					t.Error(err)
					return
				}
				var ended sync.WaitGroup
				if (g+i)%3 == 0 { // while the other goroutines work
					ended.Go(func() { s.proc.kill() })
				} else if (g+i)%3 == 1 {
					ended.Go(func() { s.Close() })
				}
				out, err := runOnce(t.Context(), t, s, g+1)
				if err == nil &&
					!bytes.Equal(out, rpctest.WantOutput(t, rpctest.Program(t), g+1, rpctest.Input(g+1, 1))) ||
					err != nil && !errors.Is(err, device.ErrLost) {
					t.Errorf("session %d of goroutine %d: a wrong result, or error %v", i, g, err)
				}
				ended.Wait()
				s.Close()
				wantGone(t, s, opts)
				opts.Artifact.Close()
				os.RemoveAll(opts.TempDir)
			}
		})
	}
	wg.Wait()
}

// playHost plays a host that is killed in the middle of a run.
func playHost() {
	dir, mode, _ := strings.Cut(os.Getenv(hostEnv), " ")
	if mode == "few-files" {
		playFewFiles(dir)
		return
	}
	t := &testing.T{}
	opts := Options{Path: "/proc/self/exe", Name: "ref", Encode: rpctest.Encode, TempDir: dir,
		Env: []string{rpctest.ModeEnv + "=" + mode}}
	s, err := Start(context.Background(), opts)
	if err != nil {
		panic(err)
	}
	e, err := s.Load(context.Background(), device.Load{Program: rpctest.Program(t), Weights: rpctest.Weights()})
	if err != nil {
		panic(err)
	}
	go func() {
		for n := 0; n < 2; n, _ = s.Progress() {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(s.PID())
	}()
	e.(*Executable).RunTensors(context.Background(), device.Run{Syms: map[string]int64{"N": 1}},
		[][]byte{rpctest.Input(1, 1)})
}

// playFewFiles plays a host with a limit on open files. It starts and closes a backend repeatedly. The first attempt
// may open no more files, the second one more, and so on, until an attempt succeeds. It prints the number of failed
// attempts, and unexpected errors.
func playFewFiles(dir string) {
	t := &testing.T{}
	opts := Options{Path: "/proc/self/exe", Name: "ref", Encode: rpctest.Encode, TempDir: dir,
		Env: []string{rpctest.ModeEnv + "=good"}}
	attempt := func() error {
		s, err := Start(context.Background(), opts)
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = runOnce(context.Background(), t, s, 1)
		return err
	}
	opts.Artifact, _ = os.Open(filepath.Join(dir, "weights"))
	if err := attempt(); err != nil { // also opens the files that the Go runtime keeps open
		fmt.Println("with room for all:", err)
	}
	var all unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &all)
	failed := 0
	for room := range 100 {
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(openFiles(t) - 1 + room), Max: all.Max})
		err := attempt()
		unix.Setrlimit(unix.RLIMIT_NOFILE, &all)
		if left, _ := filepath.Glob(filepath.Join(dir, "rlx-*", "*")); len(left) > 0 {
			fmt.Printf("with room for %d: left %v after %v\n", room, left, err)
		}
		if err == nil {
			break
		}
		failed++
		if c, ok := diag.CodeOf(err); !ok || c.Exit() != 5 {
			fmt.Printf("with room for %d: %v is not an error of a backend\n", room, err)
		}
	}
	fmt.Println("failed", failed)
}

// TestFewFiles checks that if descriptors run out at any point of a start, the error is one of a backend and nothing is
// left behind.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	opts, _ := testOptions(t, "good")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hostEnv+"="+opts.TempDir+" few-files")
	out, err := cmd.CombinedOutput()
	var failed int
	if _, scan := fmt.Sscanf(string(out), "failed %d\n", &failed); err != nil || scan != nil || failed < 5 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHostKilled checks that a backend exits when its host is killed.
func TestHostKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"sleep@run:1", "stop@run:1", "orphan@run:1"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for range rounds(t, 1) {
				killHost(t, mode)
			}
		})
	}
}

// killHost kills a host in the middle of a run, and checks that its backend exits and the next host removes its files.
func killHost(t *testing.T, mode string) {
	if mode == "orphan@run:1" { // without the lifeline, only the kernel's parent-death signal ends the backend
		if runtime.GOOS != "linux" {
			t.Skip("no parent-death signal")
		}
	}
	opts, _ := testOptions(t, "good")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hostEnv+"="+opts.TempDir+" "+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, err2 := strconv.Atoi(strings.TrimSpace(line))
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || err2 != nil {
		t.Fatalf("%v, %v: %q", err, err2, line)
	}
	gone := time.Now().Add(rpctest.HangGuard)
	for isRunning(pid) && time.Now().Before(gone) {
		time.Sleep(5 * time.Millisecond)
	}
	if isRunning(pid) {
		t.Fatal("the backend outlived its host")
	}
	if left, _ := filepath.Glob(filepath.Join(opts.TempDir, "rlx-*", "s*")); len(left) == 0 {
		t.Fatal("the killed host left nothing to sweep; the test proves nothing")
	}
	// The next host removes what the killed host has left.
	d, err := newPrivateDir(opts.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	d.remove()
	wantEmpty(t, opts.TempDir)
}

// isRunning reports whether a process exists and is not a zombie. A process remains a zombie if its parent does not
// reap it.
func isRunning(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[0] != "Z"
}
