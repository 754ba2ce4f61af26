//go:build linux || darwin

package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"
)

// transports runs f twice: with tensors in shared memory and in chunks.
func transports(t *testing.T, f func(t *testing.T, opts Options, log *rpctest.LogBuffer), mode string) {
	for _, chunks := range []bool{false, true} {
		t.Run(map[bool]string{false: "shared", true: "chunks"}[chunks], func(t *testing.T) {
			t.Parallel()
			opts, log := testOptions(t, mode)
			opts.NoSharedMemory = chunks
			f(t, opts, log)
		})
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, opts Options, _ *rpctest.LogBuffer) {
		s := start(t, opts)
		info, err := s.Info(t.Context())
		want, _ := rpctest.Reference{}.Info(t.Context())
		if diff := cmp.Diff(want, info); err != nil || diff != "" {
			t.Fatalf("info: %v\n%s", err, diff)
		}
		p := rpctest.Program(t)
		e, err := s.LoadMapped(t.Context(), testLoad(p))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]device.Kernel{{Op: "matmul"}}, e.Kernels()); diff != "" {
			t.Fatal(diff)
		}
		if e.Memory() != rpctest.FakeMemory {
			t.Errorf("runs take %d bytes; want %d, as reported by the backend", e.Memory(), rpctest.FakeMemory)
		}
		// Sizes change from run to run; 40,000 rows need several chunks.
		for i, n := range []int{1, 3, 3, 40_000, 2} {
			in := rpctest.Input(n, uint64(i))
			out, st, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": int64(n)}}, [][]byte{in})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out[0], rpctest.WantOutput(t, p, n, in)) {
				t.Fatalf("run of %d rows differs from the reference executor", n)
			}
			if st.FirstNaN != -1 || st.PeakRSS < 1<<20 || st.Total <= 0 {
				t.Errorf("stats %+v", st)
			}
		}
		if rss := s.PeakRSS(); rss < 1<<20 {
			t.Errorf("peak RSS %d", rss)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		wantGone(t, s, opts)
		if rss := s.PeakRSS(); rss < 1<<20 {
			t.Errorf("peak RSS after the end %d", rss)
		}
		_, err = s.LoadMapped(t.Context(), testLoad(p))
		wantCode(t, err, code.Closed)
	}, "good")
}

// TestUnwrittenOutputs checks that outputs which a backend does not write are zero. They must not show what an earlier
// run has left in the region, whether it succeeded or failed, and whatever its sizes and executable.
func TestUnwrittenOutputs(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "lazy@run:99")
	s := start(t, opts)
	p := rpctest.Program(t)
	var exes [2]*Executable
	for i := range exes {
		var err error
		if exes[i], err = s.LoadMapped(t.Context(), testLoad(p)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(e *Executable, n int64, o device.RunOptions) ([]byte, error) {
		out, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": n}, Opts: o},
			[][]byte{rpctest.Input(int(n), 1)})
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
	y, _ := p.Graph.Find("y")
	refuse := device.RunOptions{Dump: []int{y.ID}, Observe: func(int, []int, []byte) error {
		return errors.New("seen enough")
	}}
	for _, c := range []struct {
		exe int
		n   int64
		o   device.RunOptions
		bad bool
	}{{0, 64, device.RunOptions{}, false}, {0, 3, device.RunOptions{}, false}, {1, 63, device.RunOptions{}, false},
		{0, 64, refuse, true}, {0, 63, device.RunOptions{}, false},
		{1, 4, device.RunOptions{}, false}, {0, 7, device.RunOptions{}, false}} {
		got, err := run(exes[c.exe], c.n, c.o)
		want := make([]byte, 16*c.n)
		if c.n%2 == 0 {
			want = rpctest.WantOutput(t, p, int(c.n), rpctest.Input(int(c.n), 1))
		}
		if (err != nil) != c.bad || !c.bad && !bytes.Equal(got, want) {
			t.Errorf("%d rows: error %v, correct output: %v", c.n, err, bytes.Equal(got, want))
		}
	}
	if s.region == nil || len(s.dirty.within(p.Places[p.Graph.Outputs[0].Node.ID].Offset, p.IOSize)) == 0 {
		t.Error("no shared region was used, or all of it counts as zero; the test proves nothing")
	}
}

// TestPeakRSSIsTheBackends checks that the peak of a small backend does not include the memory of a large host. The
// kernel's own figure (getrusage) does include the parent's memory before exec.
func TestPeakRSSIsTheBackends(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // or garbage might fill several times as much
	const held = 512 << 20
	heap := bytes.Repeat([]byte{1}, held)
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	during := s.PeakRSS()
	s.Close()
	if after := s.PeakRSS(); after < during || after >= held || peakrss.Own() < held {
		t.Errorf("peak of the backend: %d, %d at the end; of this process: %d", during, after, peakrss.Own())
	}
	runtime.KeepAlive(heap)
}

// TestBackendInterface checks that a session follows the contract of core/device: inputs and outputs in one IO space,
// progress, profiles and dumps.
func TestBackendInterface(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, opts Options, _ *rpctest.LogBuffer) {
		opts.Artifact = nil
		s := start(t, opts)
		var b device.Backend = s
		p := rpctest.Program(t)
		exe, err := b.Load(t.Context(), device.Load{Program: p, Weights: rpctest.Weights()})
		if err != nil {
			t.Fatal(err)
		}
		bound, err := p.Bind(map[string]int64{"N": 5})
		if err != nil {
			t.Fatal(err)
		}
		io := tensor.AlignedBytes(int(p.IOSize))
		in, out := bound.Inputs[0], bound.Outputs[0]
		copy(io[in.Offset:], rpctest.Input(5, 9))
		var last int
		var dumped []int
		act, _ := p.Graph.Find("act")
		xw, _ := p.Graph.Find("xw")
		st, err := exe.Run(
			t.Context(), device.Run{Syms: map[string]int64{"N": 5}, IO: io, Progress: func(n int) { last = n },
				Opts: device.RunOptions{Profile: true, Dump: []int{xw.ID, act.ID},
					Observe: func(node int, shape []int, data []byte) error {
						dumped = append(dumped, node)
						if !slices.Equal(shape, []int{5, 4}) || len(data) != 80 {
							t.Errorf("node %d: shape %v, %d bytes", node, shape, len(data))
						}
						return nil
					}}})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(io[out.Offset:out.Offset+out.Bytes], rpctest.WantOutput(t, p, 5, rpctest.Input(5, 9))) {
			t.Error("output differs from the reference executor")
		}
		if last != len(p.Steps) || !slices.Equal(dumped, []int{xw.ID, act.ID}) || len(st.Steps) != len(p.Steps) {
			t.Errorf("progress ended at %d, dumped %v, %d step times; want %d, both, %d", last, dumped, len(st.Steps),
				len(p.Steps), len(p.Steps))
		}
		if st.Clock != device.DeviceClock || st.DeviceMemory != rpctest.FakeDeviceMemory {
			t.Errorf("times by the clock %q, device memory %d; want %q, %d", st.Clock, st.DeviceMemory,
				device.DeviceClock, rpctest.FakeDeviceMemory)
		}
		// The caller may return an error for a dump: the run ends, and the session stays usable.
		full := errors.New("disk is full")
		for _, ctx := range []context.Context{t.Context(), context.Background()} { // the latter is never cancelled
			_, err = exe.Run(
				ctx, device.Run{Syms: map[string]int64{"N": 5}, IO: io, Opts: device.RunOptions{Dump: []int{xw.ID},
					Observe: func(int, []int, []byte) error { return full }}})
			if !errors.Is(err, full) {
				t.Errorf("got %v; want the caller's own error", err)
			}
		}
		select {
		case <-s.dead.Done():
		case <-time.After(s.opts.Timeouts.Cancel + time.Second/5): // the host no longer waits for the run to end
		}
		if _, err := exe.Run(t.Context(), device.Run{Syms: map[string]int64{"N": 5}, IO: io}); err != nil {
			t.Errorf("after a refused value: %v", err)
		}
	}, "good")
}

func TestTypedErrors(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "error@run:1")
	s := start(t, opts)
	p := rpctest.Program(t)
	_, err := s.LoadMapped(t.Context(), LoadOptions{Program: p, Device: "none", Weights: testLoad(p).Weights})
	wantCode(t, err, device.ErrUnavailable, `backend ref: device "none": have only 0; leave --device out`)
	_, err = s.LoadMapped(t.Context(), LoadOptions{Program: p, Weights: Weights{Offset: 1 << 40, Size: 64}})
	wantCode(t, err, code.Refused, "the weights are 64 bytes at 1099511627776 of an artifact of")
	_, err = s.LoadMapped(t.Context(), LoadOptions{Program: p, Weights: Weights{Offset: rpctest.WeightsAt, Size: 63}})
	wantCode(t, err, code.Refused, "load: w takes 64 bytes at 0 of its space, which has 63")
	e, err := s.LoadMapped(t.Context(), testLoad(p))
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int64, in ...[]byte) error {
		_, _, err := e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": n}}, in)
		return err
	}
	wantCode(t, run(0, nil), device.ErrInput, "encode: size N is 0; allowed are 1 to 65536")
	wantCode(t, run(2, rpctest.Input(1, 1)), device.ErrInput, "encode: input x has 16 bytes; f32[2 4] takes 32")
	wantCode(t, run(2), device.ErrInput, "0 inputs given; the program has 1")
	_, err = e.Run(t.Context(), device.Run{Syms: map[string]int64{"N": 2}, IO: make([]byte, 8)})
	wantCode(t, err, device.ErrInput, "io space of 8 bytes")
	err = run(2, rpctest.Input(2, 1))
	wantCode(t, err, device.ErrDevice, "backend ref: step 2 of 4 (gelu act): the ", "device fell off")
	var step *wire.StepError
	if !errors.As(err, &step) || *step != (wire.StepError{Step: 2, Steps: 4, Op: "gelu", Name: "act"}) {
		t.Errorf("step %+v", step)
	}
	if errors.Is(err, device.ErrLost) {
		t.Error("an error of the device is not the loss of the backend")
	}
}

// TestUndecodable checks that a backend that cannot decode the program reports code.Refused, not an error about the
// artifact.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	opts.Encode = func(*program.Program) ([]byte, error) { return []byte("{"), nil }
	s := start(t, opts)
	_, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
	wantCode(t, err, code.Refused, "load: unexpected end of JSON")
}

// TestPanicIsAnErrorOfTheCall checks that a panic in a kernel fails the runs of its program, and that the session stays
// usable.
func TestPanicIsAnErrorOfTheCall(t *testing.T) {
	t.Parallel()
	opts, log := testOptions(t, "panic@run:1")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second run is refused, because the first left the program in an unknown state
		_, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{rpctest.Input(1, 1)})
		wantCode(t, err, code.Panicked, "kernel met", "a bug")
	}
	for late := time.Now().Add(rpctest.HangGuard); !strings.Contains(log.String(), "refExecutable"); time.Sleep(
		time.Millisecond) {
		if time.Now().After(late) { // the log takes another path than the error
			t.Fatal("the log lacks the stack")
		}
	}
	if _, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t))); err != nil {
		t.Errorf("another program: %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, opts Options, _ *rpctest.LogBuffer) {
		s := start(t, opts)
		e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for {
					if n, _ := s.Progress(); n > 0 {
						cancel()
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			_, _, err = e.RunTensors(ctx, device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{rpctest.Input(1, 1)})
			wantCode(t, err, diag.Interrupted)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v does not match context.Canceled", err)
			}
		}
		select {
		case <-s.Done():
			t.Fatal("the session ended because of a cancelled run")
		default:
		}
	}, "wait@run:2")
}

// TestCancelledBefore checks that if a context is cancelled before the call reaches the backend, no run is left behind.
func TestCancelledBefore(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = e.RunTensors(ctx, device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{rpctest.Input(1, 1)})
	wantCode(t, err, diag.Interrupted)
	if _, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}},
		[][]byte{rpctest.Input(1, 1)}); err != nil {
		t.Fatal(err)
	}
}

func TestDeafToCancel(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "sleep@run:2")
	opts.Timeouts.Cancel = 300 * time.Millisecond
	s := start(t, opts)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for started, _ := s.Progress(); started < 3; started, _ = s.Progress() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := runOnce(ctx, t, s, 1)
	wantCode(t, err, diag.Interrupted)
	<-s.released
	wantGone(t, s, opts)
	wantCode(t, s.Err(), code.Stopped, "did not end a cancelled run")
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	opts.IOSize = 4 << 20
	s := start(t, opts)
	p := rpctest.Program(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			e, err := s.LoadMapped(t.Context(), testLoad(p))
			for i := 0; i < 8 && err == nil; i++ {
				in := rpctest.Input(g+1, uint64(i))
				var out [][]byte
				out, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": int64(g + 1)}},
					[][]byte{in})
				if err == nil && !bytes.Equal(out[0], rpctest.WantOutput(t, p, g+1, in)) {
					t.Error("a run got another's result")
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestDigest(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	exe, err := os.ReadFile(opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	opts.SHA256 = sha256.Sum256(exe)
	s := start(t, opts)
	if _, err := runOnce(t.Context(), t, s, 2); err != nil {
		t.Fatal(err)
	}
	s.Close()
	opts.SHA256[0]++
	_, err = Start(t.Context(), opts)
	wantCode(t, err, code.Digest, "has SHA-256")
	wantEmpty(t, opts.TempDir)
}

func TestArtifactMustBeReadOnly(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	f, err := os.OpenFile(opts.Artifact.Name(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	opts.Artifact = f
	_, err = Start(t.Context(), opts)
	wantCode(t, err, code.Host, "open for writing")
}

// TestTruncatedArtifact truncates the artifact while it is mapped. The backend receives SIGBUS, and the host returns an
// error.
func TestTruncatedArtifact(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	e, err := s.LoadMapped(t.Context(), testLoad(rpctest.Program(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(opts.Artifact.Name(), 0); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.RunTensors(t.Context(), device.Run{Syms: map[string]int64{"N": 1}}, [][]byte{rpctest.Input(1, 1)})
	wantCode(t, err, code.Crashed, "during step 1 of 4 (matmul xw) of encode")
	<-s.released
	wantGone(t, s, opts)
}

// TestEnvironment checks the environment, the standard input and the privileges of the backend's process.
func TestEnvironment(t *testing.T) {
	t.Setenv("RLX_TEST_SECRET", "hunter2")
	t.Setenv("RLX_REF_FEATURES", "slow")
	t.Setenv("RLX_REFS", "hunter2")
	opts, _ := testOptions(t, "good")
	s := start(t, opts)
	env, err := os.ReadFile("/proc/" + s.runner.ID() + "/environ")
	if err != nil {
		t.Skip(err)
	}
	if bytes.Contains(env, []byte("hunter2")) {
		t.Error("the backend inherited a variable that is not on the list")
	}
	if !bytes.Contains(env, []byte("\x00RLX_REF_FEATURES=slow\x00")) {
		t.Error("the backend did not inherit a variable with its own prefix")
	}
	fds := "=lifeline=3,io=4,artifact=5,runs=6,weights=7,executable=8\x00"
	if !bytes.Contains(env, []byte("\x00"+wire.FilesEnv+fds)) {
		t.Errorf("%s is missing: %q", wire.FilesEnv, env)
	}
	if in, err := os.Readlink("/proc/" + s.runner.ID() + "/fd/0"); err != nil || in != "/dev/null" {
		t.Errorf("stdin is %s (%v)", in, err)
	}
	status, _ := os.ReadFile("/proc/" + s.runner.ID() + "/status")
	if !bytes.Contains(status, []byte("NoNewPrivs:\t1")) {
		t.Error("the backend may gain privileges")
	}
}

// TestNoSharedMemory checks that with RLX_NO_SHM=1 the host sends tensors in chunks, io_size is 0, and the backend
// inherits neither the variable nor a region.
func TestNoSharedMemory(t *testing.T) {
	t.Setenv(wire.NoSharedMemory, "1")
	opts, _ := testOptions(t, "good")
	opts.IOSize = 1 << 20
	s := start(t, opts)
	if s.region != nil || s.direct != nil || s.ioSize() != 0 {
		t.Errorf("region %v, runs %v, io_size %d", s.region, s.direct, s.ioSize())
	}
	if env, err := os.ReadFile("/proc/" + s.runner.ID() + "/environ"); err == nil &&
		(bytes.Contains(env, []byte(wire.NoSharedMemory)) ||
			!bytes.Contains(env, []byte("\x00"+wire.FilesEnv+"=lifeline=3,artifact=4,executable=5\x00"))) {
		t.Errorf("the backend's environment is %q", env)
	}
	out, err := runOnce(t.Context(), t, s, 3)
	if err != nil || !bytes.Equal(out, rpctest.WantOutput(t, rpctest.Program(t), 3, rpctest.Input(3, 1))) {
		t.Errorf("a run in chunks: %v", err)
	}
}

// TestNameOfExecutable checks that the name in a backend's description must match the name of its executable.
func TestNameOfExecutable(t *testing.T) {
	t.Parallel()
	opts, _ := testOptions(t, "good")
	for name, fits := range map[string]bool{"rlx-backend-ref": true, "rlx-backend-other": false, "other": true} {
		link := filepath.Join(opts.TempDir, name)
		if err := os.Symlink(opts.Path, link); err != nil {
			t.Fatal(err)
		}
		o := opts
		o.Path = link
		s, err := Start(t.Context(), o)
		if fits {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			s.Close()
			continue
		}
		wantCode(
			t, err, code.Protocol,
			"is called ref in its description, but its executable is rlx-backend-other; want rlx-backend-ref")
	}
}

// TestInheritedByHost checks that a backend does not inherit a descriptor that is open in the host without
// close-on-exec.
func TestInheritedByHost(t *testing.T) {
	opts, _ := testOptions(t, "good")
	secret := filepath.Join(opts.TempDir, "secret")
	fd, err := unix.Open(secret, unix.O_CREAT|unix.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s := start(t, opts)
	links, err := filepath.Glob("/proc/" + s.runner.ID() + "/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("no /proc: ", err)
	}
	for _, l := range links {
		// Expected are descriptors of the Go runtime, those in RLX_FDS, and those of the sandbox for its paths in
		// /proc.
		to, err := os.Readlink(l)
		expected := err != nil || to == "/dev/null" || to == opts.Artifact.Name() || to == opts.Path
		for _, prefix := range []string{"pipe:", "socket:", "anon_inode:", "/memfd:rlx-io", "/memfd:rlx-weights",
			"/proc", "/sys"} {
			expected = expected || strings.HasPrefix(to, prefix)
		}
		if !expected {
			t.Errorf("the backend has %s as %s", to, l)
		}
	}
}
