package rlx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
)

// stagedGraphs are two methods with four products, the second and fourth of which have a state. A run of add writes a
// row to both and reads all.
const stagedGraphs = `graph add
sym N = 1..6
x = input : f32[N,64]
pos = input : i32[]
w0 = param : f32[64,64]
w1 = param : f32[64,64]
w2 = param : f32[64,64]
w3 = param : f32[64,64]
s1 = state {init=0.25} : f32[16,64]
s3 = state {init=-0.5} : f32[16,64]
a = matmul x, w0 : f32[N,64]
t1 = kv_append s1, a, pos {axis=0} : f32[16,64]
r1 = reduce_mean t1 {axes=[0], keep_dims=true} : f32[1,64]
b = add a, r1 : f32[N,64]
c = matmul b, w1 : f32[N,64]
d = matmul c, w2 : f32[N,64]
t3 = kv_append s3, d, pos {axis=0} : f32[16,64]
r3 = reduce_mean t3 {axes=[0], keep_dims=true} : f32[1,64]
e = add d, r3 : f32[N,64]
f = matmul e, w3 : f32[N,64]
y = add f, c : f32[N,64]
return y=y, c=c

graph peek
s1 = state {init=0.25} : f32[16,64]
s3 = state {init=-0.5} : f32[16,64]
w1 = param : f32[64,64]
w3 = param : f32[64,64]
a = matmul s1, w1 : f32[16,64]
b = matmul s3, w3 : f32[16,64]
return a=a, b=b
`

// compileStaged compiles a text with graphs.
func compileStaged(t *testing.T, text string, flags ...string) *rlx.Model {
	t.Helper()
	graph, out := filepath.Join(t.TempDir(), "g.txt"), filepath.Join(t.TempDir(), "g.rlx")
	if err := os.WriteFile(graph, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	rlxtest.Compile(out, graph, append(flags, "--target", "cpu")...)
	return open(t, out)
}

// addRows returns a request that writes n rows at pos.
func addRows(t *testing.T, st *rlx.State, n int, pos int32) rlx.Request {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), uint64(pos)))
	x := make([]float32, n*64)
	for i := range x {
		x[i] = r.Float32() - 0.5
	}
	return rlx.Request{Method: "add", State: st,
		Inputs: map[string]rlx.Tensor{"x": tensorOf(t, x, n, 64), "pos": tensorOf(t, []int32{pos})}}
}

// sameOutputs runs a request in two sessions and compares the results bit for bit.
func sameOutputs(t *testing.T, what string, a, b *rlx.Session, ra, rb rlx.Request) {
	t.Helper()
	x, err := a.Run(t.Context(), ra)
	if err != nil {
		t.Fatal(what, err)
	}
	y, err := b.Run(t.Context(), rb)
	if err != nil {
		t.Fatal(what, err)
	}
	for name, v := range x.Outputs {
		if !bytes.Equal(v.Data, y.Outputs[name].Data) {
			t.Errorf("%s: output %s differs", what, name)
		}
	}
}

// TestDevices checks that a model in stages on one, two and three devices gives the results of the undivided model, bit
// for bit, and that states are the same in files, whatever the devices.
func TestDevices(t *testing.T) {
	t.Parallel()
	whole := session(t, compileStaged(t, stagedGraphs), rlx.Options{})
	for _, stages := range []int{2, 3} {
		m := compileStaged(t, stagedGraphs, "--stages", fmt.Sprint(stages))
		var files [][]byte
		for devices := 1; devices <= stages; devices++ {
			what := fmt.Sprintf("%d stages on %d devices", stages, devices)
			s := session(t, m, rlx.Options{Devices: strings.Split("0,0,0", ",")[:devices]})
			if n := len(s.Devices()); n != devices {
				t.Errorf("%s: %d", what, n)
			}
			a, b := newState(t, whole), newState(t, s)
			for i, n := range []int{1, 6, 3} {
				sameOutputs(t, what, whole, s, addRows(t, a, n, int32(3*i)), addRows(t, b, n, int32(3*i)))
			}
			c, err := b.Clone(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sameOutputs(t, what, whole, s, rlx.Request{Method: "peek", State: a}, rlx.Request{Method: "peek", State: c})
			for _, name := range []string{"s1", "s3"} {
				x, err := a.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				want, err := x.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				y, err := c.Tensor(name)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := y.Read(t.Context()); err != nil || !bytes.Equal(got.Data, want.Data) {
					t.Errorf("%s: state %s differs, %v", what, name, err)
				}
			}
			var file bytes.Buffer
			if err := c.Export(t.Context(), &file); err != nil {
				t.Fatal(err)
			}
			files = append(files, file.Bytes())
			path := filepath.Join(t.TempDir(), "state")
			if err := os.WriteFile(path, files[0], 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := s.ImportState(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			sameOutputs(t, what+", read from a file", whole, s, addRows(t, a, 2, 9), addRows(t, d, 2, 9))
			sameOutputs(t, what+", reset", whole, s, addRows(t, newState(t, whole), 2, 9), addRows(t, b, 2, 9))
			for _, x := range []*rlx.State{c, d} {
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		for _, f := range files[1:] {
			if !bytes.Equal(f, files[0]) {
				t.Errorf("%d stages: the files of one state differ", stages)
			}
		}
	}
}

// TestDevicesImage checks that a model without states, one of whose methods is too small for stages, gives the same
// bits.
func TestDevicesImage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sam.rlx")
	rlxtest.Compile(path, "demo/sam-nano.safetensors", "--target", "cpu", "--stages", "3")
	whole := session(t, open(t, demoModel()), rlx.Options{Threads: 1})
	s := session(t, open(t, path), rlx.Options{Devices: []string{"0", "0", "0"}, Threads: 3})
	for _, m := range whole.Model().Methods() {
		r := rlx.Request{Method: m.Name, Inputs: map[string]rlx.Tensor{}}
		for _, v := range m.Inputs {
			shape, n := v.ShapeAt(map[string]int64{"N": 3, "P": 2}), 1
			for _, k := range shape {
				n *= k
			}
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(i*i%97) / 97
			}
			r.Inputs[v.Name] = tensorOf(t, x, shape...)
			if v.DType == rlx.I32 {
				r.Inputs[v.Name] = tensorOf(t, make([]int32, n), shape...)
			}
		}
		sameOutputs(t, m.Name, whole, s, r, r)
	}
}

// TestDevicesOverlap checks that two runs are in different stages at the same time: each waits, in a stage, until the
// other is in the other stage. Runs do not overtake each other.
func TestDevicesOverlap(t *testing.T) {
	t.Parallel()
	s := session(t, compileStaged(t, stagedGraphs, "--stages", "2"), rlx.Options{Devices: []string{"0", "0"}})
	whole := session(t, compileStaged(t, stagedGraphs), rlx.Options{})
	if err := s.Load(t.Context(), "add"); err != nil {
		t.Fatal(err)
	}
	loaded, _ := s.Loaded("add")
	values := loaded.Values()
	last := values[len(values)-1].Step
	st := newState(t, s)
	second, first := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	run := func(r rlx.Request, step int, tell, await chan struct{}) {
		queued := make(chan struct{})
		r.Queued = func() { close(queued) }
		r.Select = func(v rlx.StepValue) bool { return v.Step == step }
		r.Observe = func(rlx.StepValue, rlx.Tensor) error {
			close(tell)
			select {
			case <-await:
				return nil
			case <-t.Context().Done():
				return context.Cause(t.Context())
			case <-time.After(time.Minute):
				return errors.New("the other run did not come")
			}
		}
		wg.Go(func() {
			if _, err := s.Run(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
		<-queued
	}
	run(addRows(t, st, 2, 0), last, second, first) // in the second stage
	run(addRows(t, st, 3, 1), 0, first, second)    // in the first one
	wg.Wait()
	// many runs of one state: the result is that of the same runs in turn
	order := newState(t, whole)
	for i, n := range []int{2, 3} {
		if _, err := whole.Run(t.Context(), addRows(t, order, n, int32(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		queued := make(chan struct{})
		r := addRows(t, st, 1+i%6, int32(i%10))
		r.Queued = func() { close(queued) }
		want, err := whole.Run(t.Context(), addRows(t, order, 1+i%6, int32(i%10)))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			got, err := s.Run(t.Context(), r)
			if err != nil || !bytes.Equal(got.Outputs["y"].Data, want.Outputs["y"].Data) {
				t.Errorf("run %d differs, %v", i, err)
			}
		})
		<-queued
	}
	wg.Wait()
}

// TestDevicesFail checks that a run that is cancelled or that loses a device leaves no state that is half old, and that
// others go on.
func TestDevicesFail(t *testing.T) {
	s := session(t, compileStaged(t, stagedGraphs, "--stages", "2"), rlx.Options{Devices: []string{"0", "0"}})
	st, other := newState(t, s), newState(t, s)
	stopped := errors.New("stopped")
	r := addRows(t, st, 2, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.Observe = func(v rlx.StepValue, _ rlx.Tensor) error {
		if v.Op == "reduce_mean" {
			cancel(stopped)
			return stopped
		}
		return nil
	}
	_, err := s.Run(ctx, r)
	wantError(t, "a run that was stopped", err, stopped)
	_, err = s.Run(t.Context(), addRows(t, st, 1, 0))
	wantError(t, "its state", err, rlx.ErrState)
	if _, err := s.Run(t.Context(), addRows(t, other, 1, 0)); err != nil {
		t.Error("another state:", err)
	}
	weights := map[string]rlx.Tensor{"w1": tensorOf(t, make([]float32, 64*64), 64, 64),
		"w3": tensorOf(t, make([]float32, 64*64), 64, 64)}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.Run(t.Context(), rlx.Request{Method: "peek", State: other}); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.SetWeights(t.Context(), weights); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	res, err := s.Run(t.Context(), rlx.Request{Method: "peek", State: other})
	if err != nil || !bytes.Equal(res.Outputs["a"].Data, make([]byte, 16*64*4)) {
		t.Errorf("with weights of 0: %v", err)
	}
	rlxtest.Kill(t, nil)
	_, err = s.Run(t.Context(), addRows(t, other, 1, 0))
	wantError(t, "without backends", err, rlx.ErrLost)
	if s.Err() == nil {
		t.Error("the session is not lost")
	}
}

// TestDevicesErrors checks the errors of Options.Devices.
func TestDevicesErrors(t *testing.T) {
	t.Parallel()
	staged, whole := compileStaged(t, stagedGraphs, "--stages", "2"), compileStaged(t, stagedGraphs)
	for _, c := range []struct {
		name string
		m    *rlx.Model
		o    rlx.Options
		want error
		text string
	}{
		{"an unknown device", staged, rlx.Options{Devices: []string{"0", "7"}}, rlx.ErrDevice, "cpu:7"},
		{"too many", staged, rlx.Options{Devices: []string{"0", "0", "0"}}, rlx.ErrUsage, "has 2 stages"},
		{"a model without stages", whole, rlx.Options{Devices: []string{"0", "0"}}, rlx.ErrUsage,
			"no method in stages"},
		{"both options", staged, rlx.Options{Devices: []string{"0", "0"}, Device: "0"}, rlx.ErrUsage, "Options.Device"},
	} {
		c.o.Backend = cpu()
		_, err := c.m.NewSession(t.Context(), c.o)
		wantError(t, c.name, err, c.want)
		if err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", c.name, err, c.text)
		}
	}
}
