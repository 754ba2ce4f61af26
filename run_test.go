package rlx_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

const negGraph = `graph f
sym N = 1..100
x = input : f32[N]
y = neg x : f32[N]
return y=y
`

func TestOpenErrors(t *testing.T) {
	good := artifact(t, nil, tinymodel.Program(t, negGraph, "cpu"))
	bytes, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := slices.Clone(bytes)
	flipped[len(flipped)/2] ^= 1
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		what, path string
		ctx        context.Context
		o          rlx.OpenOptions
		target     error
	}{
		{"no file", filepath.Join(dir, "none.rlx"), t.Context(), rlx.OpenOptions{}, fs.ErrNotExist},
		{"a folder", dir, t.Context(), rlx.OpenOptions{}, rlx.ErrArtifact},
		{"text", write("text", []byte("plain text")), t.Context(), rlx.OpenOptions{}, rlx.ErrArtifact},
		{"a flipped bit", write("flipped", flipped), t.Context(), rlx.OpenOptions{}, rlx.ErrArtifact},
		{"no memory", good, t.Context(), rlx.OpenOptions{Memory: rlx.NewBudget(1)}, rlx.ErrMemory},
		{"a context that is over", good, over, rlx.OpenOptions{}, context.Canceled},
	} {
		_, err := rlx.Open(c.ctx, c.path, c.o)
		wantError(t, c.what, err, c.target)
	}
}

// TestLazy checks that the weights of a model opened with Lazy are verified by Verify, and by a session before it loads
// a method that uses them.
func TestLazy(t *testing.T) {
	b, err := os.ReadFile(demoModel())
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-100] ^= 1
	path := filepath.Join(t.TempDir(), "damaged.rlx")
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = rlx.Open(t.Context(), path, rlx.OpenOptions{})
	wantError(t, "Open", err, rlx.ErrArtifact)
	m, err := rlx.Open(t.Context(), path, rlx.OpenOptions{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wantError(t, "Verify", m.Verify(t.Context()), rlx.ErrArtifact)
	s := session(t, m, rlx.Options{})
	err = s.Load(t.Context(), "encode", "decode")
	wantError(t, "Load", err, rlx.ErrArtifact)
	for _, method := range []string{"encode", "decode"} {
		if _, ok := s.Loaded(method); ok {
			t.Errorf("%s is loaded after a Load that failed", method)
		}
	}
}

func TestRun(t *testing.T) {
	s := session(t, tiny(t, negGraph), rlx.Options{Threads: 1})
	for _, data := range [][]float32{{1}, {2, -3, 4}, {5, 6}} {
		done, total := 0, 0
		r, err := s.Run(
			t.Context(), rlx.Request{Method: "f", Inputs: map[string]rlx.Tensor{"x": tensorOf(t, data, len(data))},
				Progress: func(d, n int) { done, total = d, n }})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rlx.Values[float32](r.Outputs["y"])
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range data {
			if len(got) != len(data) || got[i] != -v {
				t.Fatalf("neg of %v is %v", data, got)
			}
		}
		if r.Sizes["N"] != int64(len(data)) || r.Outputs["y"].Shape[0] != len(data) || r.Duration <= 0 || done != 1 ||
			total != 1 {
			t.Errorf("%v: %+v, %d of %d", data, r, done, total)
		}
	}
	l, ok := s.Loaded("f")
	if !ok || l.Target != "cpu" || len(l.Kernels) != 1 || l.Kernels[0].Op != "neg" || l.IO == 0 {
		t.Errorf("loaded: %+v, %v", l, ok)
	}
	if s.Device().ID == "" || s.Precision() != "f32" || s.Backend().Name != "cpu" ||
		!strings.HasPrefix(s.Backend().Target, "target cpu") {
		t.Errorf("device %+v, precision %s, backend %+v", s.Device(), s.Precision(), s.Backend())
	}
}

// TestRunErrors checks that mistakes in a request are found before anything runs, and that the session stays usable.
func TestRunErrors(t *testing.T) {
	s := session(
		t, open(
			t, artifact(t, tinymodel.Task(), tinymodel.Program(t, tinymodel.Encode, "cpu"),
				tinymodel.Program(t, tinymodel.Decode, "cpu"))), rlx.Options{})
	good := func() map[string]rlx.Tensor {
		return map[string]rlx.Tensor{"embeddings": tensorOf(t, make([]float32, 64), 1, 1, 8, 8),
			"points": tensorOf(t, make([]float32, 6), 1, 3, 2),
			"labels": tensorOf(t, []int32{1, 0, -1}, 1, 3)}
	}
	if _, err := s.Run(t.Context(), rlx.Request{Method: "decode", Inputs: good()}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		bad  rlx.Tensor
		text string
	}{
		{"points", tensorOf(t, make([]float32, 12), 1, 6, 2),
			"input points: is f32[1,6,2]; allowed is f32[1,N,2] with N from 1 to 5"},
		{"points", tensorOf(t, []float32{}, 1, 0, 2), "N from 1 to 5"},
		{"points", tensorOf(t, make([]float64, 6), 1, 3, 2), "input points: is f64[1,3,2]; allowed is f32[1,N,2]"},
		{"points", tensorOf(t, make([]float32, 6), 3, 2), "it needs 3 dimensions"},
		{"labels", tensorOf(t, []int32{1, 1}, 1, 2), "N is 2 here and 3 in input points"},
		{"labels", tensorOf(t, []int32{1, 1, 7}, 1, 3), "label 2 is 7; allowed are 1 (foreground)"},
		{"embeddings", tensorOf(t, make([]float32, 72), 1, 1, 8, 9), "size 9 must be 8"},
		{"embeddings", rlx.Tensor{DType: rlx.F32, Shape: []int{1, 1, 8, 8}, Data: make([]byte, 255)},
			"has 255 bytes; f32[1,1,8,8] takes 64 times 4"},
		{"embeddings", rlx.Tensor{}, "is invalid[]"},
		{"more", tensorOf(t, []float32{1}, 1),
			"decode has no such input; its inputs are embeddings f32[1,1,8,8], points"},
	} {
		in := good()
		in[c.name] = c.bad
		_, err := s.Run(t.Context(), rlx.Request{Method: "decode", Inputs: in})
		wantError(t, c.text, err, rlx.ErrInput)
		if err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v; want it to say %q", err, c.text)
		}
	}
	in := good()
	delete(in, "labels")
	_, err := s.Run(t.Context(), rlx.Request{Method: "decode", Inputs: in})
	wantError(t, "no labels", err, rlx.ErrInput)
	_, err = s.Run(t.Context(), rlx.Request{Method: "transcode", Inputs: in})
	wantError(t, "no such method", err, rlx.ErrUsage)
	if e, ok := errors.AsType[*rlx.Error](err); !ok || e.Code != "RLX2001" ||
		!strings.Contains(e.Msg, "methods are encode, decode") {
		t.Errorf("%#v", err)
	}
	if _, err := s.Run(t.Context(), rlx.Request{Method: "decode", Inputs: good()}); err != nil || s.Err() != nil {
		t.Errorf("after errors of the caller: %v, %v", err, s.Err())
	}
}

// TestConcurrentRuns checks that goroutines that share a session get their own results, whichever of them loads the
// method.
func TestConcurrentRuns(t *testing.T) {
	s := session(t, tiny(t, tinymodel.MLP), rlx.Options{})
	want := map[int]float32{}
	input := func(n int) rlx.Tensor {
		data := make([]float32, 8*n)
		for i := range data {
			data[i] = float32(n)
		}
		return tensorOf(t, data, n, 8)
	}
	for _, r := range []int{1, 2} { // the second one runs concurrently with others
		var g sync.WaitGroup
		var mu sync.Mutex
		for k := range 18 {
			n := 1 + k%9
			in := input(n)
			g.Go(func() {
				res, err := s.Run(t.Context(), rlx.Request{Method: "f", Inputs: map[string]rlx.Tensor{"x": in}})
				if err != nil {
					t.Error(err)
					return
				}
				y, err := rlx.Values[float32](res.Outputs["y"])
				if err != nil || len(y) != 8*n {
					t.Errorf("%d values for %d rows: %v", len(y), n, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if was, ok := want[n]; ok && was != y[0] {
					t.Errorf("round %d, %d rows: %v and %v", r, n, was, y[0])
				}
				want[n] = y[0]
			})
		}
		g.Wait()
	}
	for n, v := range want {
		if math.Abs(float64(v)-0.25) > 1e-6 { // the softmax of four equal numbers
			t.Errorf("%d rows: %v", n, v)
		}
	}
}

func neg(t testing.TB, s *rlx.Session, ctx context.Context) error {
	_, err := s.Run(ctx, rlx.Request{Method: "f", Inputs: map[string]rlx.Tensor{"x": tensorOf(t, []float32{1, 2}, 2)}})
	return err
}

// TestLost checks that a lost backend makes its session unusable, but not the model.
func TestLost(t *testing.T) {
	t.Setenv("RLX_CRASHES_FAULT", "crash")
	m := tiny(t, negGraph)
	for range 3 {
		s := session(t, m, rlx.Options{Backend: faultyBackend("crashes")})
		wantError(t, "a crash", neg(t, s, t.Context()), rlx.ErrLost)
		<-s.Done()
		wantError(t, "the session after it", s.Err(), rlx.ErrLost)
		wantError(t, "the next run", neg(t, s, t.Context()), rlx.ErrLost)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := m.NewSession(t.Context(), rlx.Options{Backend: faultyBackend("crashes")})
	wantError(t, "the fourth start", err, rlx.ErrLost, rlx.ErrCrashing)
	if err := neg(t, session(t, tiny(t, negGraph), rlx.Options{}), t.Context()); err != nil {
		t.Errorf("another model: %v", err)
	}
	_, err = m.NewSession(
		t.Context(), rlx.Options{Backend: rlx.Backend{Name: "none", Path: filepath.Join(t.TempDir(), "none")}})
	wantError(t, "no executable", err, rlx.ErrLost)
}

// TestContextOver checks that a context which is done, for any cause, ends the run and leaves the session usable.
func TestContextOver(t *testing.T) {
	t.Setenv("RLX_WAITS_FAULT", "wait")
	m := tiny(t, negGraph)
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		s := session(t, m, rlx.Options{Backend: faultyBackend("waits")})
		if err := s.Load(t.Context(), "f"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // the backend waits for it
		if cause == context.Canceled {
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		wantError(t, "a run that is stopped", neg(t, s, ctx), cause)
		cancel()
		if err := neg(t, s, t.Context()); err != nil || s.Err() != nil {
			t.Errorf("%v: the next run: %v, %v", cause, err, s.Err())
		}
		wantError(t, "a run that does not start", neg(t, s, ctx), cause)
	}
}

// TestLoadContextOver is like TestContextOver for a load.
func TestLoadContextOver(t *testing.T) {
	t.Setenv("RLX_LOADS_FAULT", "wait")
	s := session(t, tiny(t, negGraph), rlx.Options{Backend: faultyBackend("loads")})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // the backend waits for it
	defer cancel()
	wantError(t, "a load that is stopped", s.Load(ctx, "f"), context.DeadlineExceeded)
	if err := neg(t, s, t.Context()); err != nil || s.Err() != nil {
		t.Errorf("the next: %v, %v", err, s.Err())
	}
}

func TestClose(t *testing.T) {
	m := tiny(t, negGraph)
	s := session(t, m, rlx.Options{})
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	if err := neg(t, s, t.Context()); err != nil {
		t.Errorf("a session of a model that was closed: %v", err)
	}
	_, err := m.NewSession(t.Context(), rlx.Options{Backend: cpu()})
	wantError(t, "another one", err, rlx.ErrUsage)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	wantError(t, "a run after Close", neg(t, s, t.Context()), rlx.ErrClosed, rlx.ErrLost)
	<-s.Done()
}

// TestSessionOptions checks the errors for options, before and at the start of the backend.
func TestSessionOptions(t *testing.T) {
	m := tiny(t, negGraph)
	for _, c := range []struct {
		what   string
		o      rlx.Options
		target error
	}{
		{"no backend", rlx.Options{}, rlx.ErrUsage},
		{"a precision that the artifact does not allow", rlx.Options{Backend: cpu(), Precision: "fp8"}, rlx.ErrUsage},
		{"a negative number of threads", rlx.Options{Backend: cpu(), Threads: -1}, rlx.ErrUsage},
		{"no such device", rlx.Options{Backend: cpu(), Device: "7"}, rlx.ErrDevice},
		{"no such sandbox", rlx.Options{Backend: cpu(), Sandbox: "maybe"}, rlx.ErrUsage},
	} {
		_, err := m.NewSession(t.Context(), c.o)
		wantError(t, c.what, err, c.target)
	}
	s := session(t, m, rlx.Options{Precision: "bf16"})
	if s.Precision() != "bf16" {
		t.Errorf("precision %s", s.Precision())
	}
	_, err := s.Run(
		t.Context(),
		rlx.Request{Method: "f", Check: true, Inputs: map[string]rlx.Tensor{"x": tensorOf(t, []float32{1}, 1)}})
	wantError(t, "Check in bf16", err, rlx.ErrUsage)
	info, err := cpu().Describe(t.Context(), rlx.Options{})
	if err != nil || info.Name != "cpu" || len(info.Devices) != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestChanged checks that an artifact that is written to while it is open does not run.
func TestChanged(t *testing.T) {
	path := artifact(t, nil, tinymodel.Program(t, negGraph, "cpu"))
	m := open(t, path)
	s := session(t, m, rlx.Options{})
	if err := neg(t, s, t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // the clock of the file system may be coarse
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "a run", neg(t, s, t.Context()), rlx.ErrChanged, rlx.ErrArtifact)
}

// TestSoftwareDevice checks that a device that the processor emulates is used only if it is named.
func TestSoftwareDevice(t *testing.T) {
	m := open(t, artifact(t, nil, tinymodel.Programs(t, "cpu", tinymodel.Cache, tinymodel.Peek)...))
	for _, c := range []struct{ has, asked, want string }{
		{"software", "", ""},
		{"software", "0", "0"},
		{"software", rlx.SoftwareDevice, "0"},
		{"software,gpu", "", "1"},
		{"software,gpu", "0", "0"},
		{"gpu,software,software", "", "0"},
		{"gpu,software,software", rlx.SoftwareDevice, "1"},
		{"npu", "", "0"},
		{"gpu", rlx.SoftwareDevice, "none"},
	} {
		t.Setenv("RLX_SOFT_DEVICES", c.has)
		s, err := m.NewSession(t.Context(), rlx.Options{Backend: faultyBackend("soft"), Device: c.asked})
		what := c.asked + " of " + c.has
		switch c.want {
		case "":
			wantError(t, what, err, rlx.ErrDevice)
			if err != nil &&
				!strings.Contains(
					err.Error(),
					"backend soft: has no device on this machine but soft:0, test software, which the processor emulates slowly") {
				t.Errorf("%s: %v", what, err)
			}
		case "none":
			wantError(t, what, err, rlx.ErrDevice)
		default:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			} else if s.Device().ID != c.want {
				t.Errorf("%s: device %s; want %s", what, s.Device().ID, c.want)
			}
		}
		if err == nil {
			s.Close()
		}
	}
}
