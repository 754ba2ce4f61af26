package rlx_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

// few is the cpu backend under the name few, without some ops.
type few struct {
	faulty
	lacks string
}

func (b few) Info(ctx context.Context) (device.Info, error) {
	info, err := backend.Backend{}.Info(ctx)
	info.Name, info.Target, info.Levels = "few", fewTarget(info.Target, b.lacks), nil
	return info, err
}

// fewTarget returns d without some ops, and without the rule that the reference runs every op.
func fewTarget(d *target.Description, lacks string) *target.Description {
	c := *d
	c.Name, c.Levels = "few", nil
	c.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(r target.Rule) bool {
		return r.Op == target.AnyOp || slices.Contains(strings.Split(lacks, ","), r.Op)
	})
	return &c
}

// splitModel compiles graphs for few, which lacks some ops. fallback names the cpu backend that runs these. It invents
// the params.
func splitModel(t *testing.T, fallback, lacks string, texts ...string) (*rlx.Model, interp.Params) {
	t.Helper()
	t.Setenv("RLX_FEW_LACKS", lacks)
	all, _ := target.Find("cpu")
	return splitFor(t, compile.Target{Name: "few", Takes: fewTarget(all, lacks)}, fallback, texts...)
}

// splitFor is like splitModel for a target.
func splitFor(t *testing.T, to compile.Target, fallback string, texts ...string) (*rlx.Model, interp.Params) {
	t.Helper()
	all, _ := target.Find("cpu")
	var graphs []*ir.Graph
	params := map[string]*tensor.Array{}
	meta := format.Meta{Model: "split", Producer: format.Producer{Name: "test"}}
	for _, text := range texts {
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		graphs, meta.Methods = append(graphs, g), append(meta.Methods, format.MethodOf(g.Name, g))
		for _, n := range g.Params() {
			params[n.Name] = interp.Random(rand.New(rand.NewPCG(1, 1)), n.Type, nil, ir.Range{Lo: -0.5, Hi: 0.5})
		}
	}
	values := paramsOf(params)
	o := compile.Options{Targets: []compile.Target{to}, Fallbacks: []compile.Target{{Name: fallback, Takes: all}},
		Params: values,
		Layout: func(list []compile.Weight) (int64, error) {
			dir, err := format.Layout(written(list, values))
			if err != nil {
				return 0, err
			}
			size := int64(0)
			for i := range list {
				list[i].Offset, _ = dir.Offset(list[i].Name)
				size = list[i].Offset + list[i].Size()
			}
			return size, nil
		}}
	r, err := compile.Compile(t.Context(), graphs, o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "split.rlx")
	if _, err := format.Write(t.Context(), path, format.Artifact{Programs: r.Programs, Splits: r.Splits, Meta: meta},
		written(r.Weights, values)); err != nil {
		t.Fatal(err)
	}
	return open(t, path), values.Param
}

type paramsOf map[string]*tensor.Array

func (p paramsOf) Param(name string) (*tensor.Array, error) { return p[name], nil }

func written(list []compile.Weight, values paramsOf) (out []format.Weight) {
	for _, w := range list {
		data := w.Data
		if data == nil {
			data = values[w.Name].Tensor().Data
		}
		out = append(out, format.Weight{Name: w.Name, Type: w.Type, Write: func(to io.Writer) error {
			_, err := io.Copy(to, bytes.NewReader(data))
			return err
		}})
	}
	return out
}

// fewSession returns a session of few, with cpu as its fallback.
func fewSession(t *testing.T, m *rlx.Model) *rlx.Session {
	t.Helper()
	return session(
		t, m, rlx.Options{Backend: faultyBackend("few"), Fallbacks: []rlx.Backend{faultyBackend("wgpu"), cpu()}})
}

// mixed has symbols, an op with several results that few lacks, values that cross twice, and a result that is also an
// output.
const mixed = `graph mixed
sym N = 1..8
x = input : f32[N,32]
bias = input : f32[32]
w = param : f32[32,32]
h = matmul x, w : f32[N,32]
v, i = top_k h {k=32} : f32[N,32], i32[N,32]
c = cumsum h {axis=0} : f32[N,32]
s = add v, c : f32[N,32]
p = matmul s, w : f32[N,32]
q = add p, h : f32[N,32]
y = add q, bias : f32[N,32]
f = cast i {to=f32} : f32[N,32]
z = add y, f : f32[N,32]
return z=z, s=s, i=i, h=h
`

func inputsOf(t *testing.T, n int) map[string]rlx.Tensor {
	t.Helper()
	x, bias := make([]float32, n*32), make([]float32, 32)
	for i := range x {
		x[i] = float32(i*37%64)/32 - 1
	}
	for i := range bias {
		bias[i] = float32(i) / 32
	}
	return map[string]rlx.Tensor{"x": tensorOf(t, x, n, 32), "bias": tensorOf(t, bias, 32)}
}

// TestSplit checks that a method with several segments computes its graph at several sizes, and reports where each step
// ran.
func TestSplit(t *testing.T) {
	m, params := splitModel(t, "cpu", "top_k,cumsum", mixed)
	method := m.Methods()[0]
	if got := method.Schedules[0]; got.Lowering != "on cpu: cumsum (1), top_k (1)" &&
		!strings.HasPrefix(got.Lowering, "on cpu: cumsum (1), top_k (1), with") ||
		!slices.Equal(got.Backends, []string{"few", "cpu", "few"}) {
		t.Fatalf("%s on %v", got.Lowering, got.Backends)
	}
	s := fewSession(t, m)
	g, err := ir.Parse(mixed)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 8, 1} {
		in := inputsOf(t, n)
		steps := map[int]string{}
		last := 0
		r, err := s.Run(
			t.Context(), rlx.Request{Method: "mixed", Inputs: in, Check: true, CheckNaN: true, Profile: true,
				Observe:  func(v rlx.StepValue, _ rlx.Tensor) error { steps[v.Step] = v.Op; return nil },
				Progress: func(done, total int) { last = total }})
		if err != nil {
			t.Fatal(err)
		}
		arrays := map[string]*tensor.Array{}
		for name, x := range in {
			arrays[name] = arrayOf(x)
		}
		want, err := interp.Run(g, map[string]int64{"N": int64(n)}, arrays, params)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range want {
			if err := interp.Compare(arrayOf(r.Outputs[name]), x, ir.Tolerance{Abs: 1e-4, Rel: 1e-4}); err != nil {
				t.Errorf("N = %d, %s: %v", n, name, err)
			}
		}
		var values []int
		for i, x := range r.Steps {
			values = append(values, x.Step)
			if steps[x.Step] != x.Op || i > 0 && x.Start < r.Steps[i-1].Start {
				t.Errorf("step %d: %+v after %+v; observed was %s", i, x, r.Steps[max(0, i-1)], steps[x.Step])
			}
		}
		if len(values) != len(steps) || last != len(steps) || values[len(values)-1] != len(steps)-1 {
			t.Errorf("steps %v of %d, progress of %d", values, len(steps), last)
		}
		c := r.Crossings
		if c.Switches != 2 || c.Values < 3 || c.Bytes != int64(c.Values*n*32*4) || c.Time <= 0 || c.Time >= r.Duration {
			t.Errorf("%+v of %v", c, r.Duration)
		}
	}
	if info, ok := s.Loaded("mixed"); !ok || len(info.Kernels) == 0 {
		t.Error("no kernels")
	}
}

// TestSplitGPU checks that the processor runs 64-bit floats, which wgpu lacks.
func TestSplitGPU(t *testing.T) {
	o := rlxtest.OnGPU(t)
	o.Fallbacks = []rlx.Backend{cpu()}
	d, _ := target.Find("wgpu")
	m, _ := splitFor(t, compile.Target{Name: "wgpu", Takes: d}, "cpu", `graph wide
sym N = 1..8
x = input : f32[N,64]
w = param : f32[64,64]
h = matmul x, w : f32[N,64]
d = cast h {to=f64} : f64[N,64]
e = exp d : f64[N,64]
s = cast e {to=f32} : f32[N,64]
p = matmul s, w : f32[N,64]
y = add p, h : f32[N,64]
return y=y, h=h
`)
	s := session(t, m, o)
	r, err := s.Run(
		t.Context(),
		rlx.Request{Method: "wide", Check: true,
			Inputs: map[string]rlx.Tensor{"x": tensorOf(t, make([]float32, 3*64), 3, 64)}})
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := s.Loaded("wide"); l.Crossings != r.Crossings || r.Crossings.Switches != 2 ||
		l.Lowering != "on cpu: cast (2), exp (1)" {
		t.Errorf("%s; %+v, in all %+v", l.Lowering, r.Crossings, l.Crossings)
	}
}

// TestSplitOutputs checks that segments that no wanted output needs are skipped.
func TestSplitOutputs(t *testing.T) {
	m, _ := splitModel(t, "cpu", "top_k,cumsum", mixed)
	s := fewSession(t, m)
	for _, c := range []struct {
		outputs  []string
		keep     []string
		switches int
	}{{[]string{"h"}, nil, 0}, {[]string{"i"}, nil, 1}, {[]string{"z"}, nil, 2}, {[]string{}, []string{"s"}, 2}} {
		r, err := s.Run(
			t.Context(), rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2), Outputs: c.outputs, Keep: c.keep})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(r.Outputs)); !slices.Equal(got, c.outputs) && len(c.outputs) > 0 ||
			r.Crossings.Switches != c.switches {
			t.Errorf("%v: %v after %d switches", c.outputs, got, r.Crossings.Switches)
		}
		if c.keep == nil {
			continue
		}
		// An output kept by one backend feeds another. It passes through the host if it is on the other's device.
		kept, err := r.Kept["s"].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in := inputsOf(t, 2)
		delete(in, "x")
		fed, err := s.Run(
			t.Context(), rlx.Request{Method: "mixed", Inputs: in, Feeds: map[string]*rlx.Resident{"x": r.Kept["s"]}})
		if err != nil {
			t.Fatal(err)
		}
		in["x"] = kept
		given, err := s.Run(t.Context(), rlx.Request{Method: "mixed", Inputs: in})
		if err != nil || !bytes.Equal(fed.Outputs["z"].Data, given.Outputs["z"].Data) {
			t.Errorf("fed and given inputs give other results, %v", err)
		}
		r.Kept["s"].Close()
	}
}

// TestSplitErrors checks that errors name the missing backend, and count the steps of the whole method.
func TestSplitErrors(t *testing.T) {
	m, _ := splitModel(t, "cpu", "top_k,cumsum", mixed)
	alone := session(t, m, rlx.Options{Backend: faultyBackend("few"), Fallbacks: []rlx.Backend{}})
	_, err := alone.Run(t.Context(), rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2)})
	if wantError(t, "no fallback", err, code.Backend); !strings.Contains(
		err.Error(), "backend cpu: runs a part of mixed") {
		t.Error(err)
	}
	found := session(t, m, rlx.Options{Backend: faultyBackend("few")})
	if _, err = found.Run(t.Context(), rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2)}); err != nil {
		t.Errorf("without Fallbacks, the session finds the backend cpu: %v", err)
	}
	_, err = session(t, m, rlx.Options{}).Run(t.Context(), rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2)})
	if wantError(t, "another backend", err, rlx.ErrUnsupported); !strings.Contains(
		err.Error(), "backend cpu: cannot run mixed as it was compiled for few: it is in pieces") {
		t.Error(err)
	}
	s := fewSession(t, m)
	in := inputsOf(t, 2)
	tensor.View[float32](in["bias"].Data)[3] = float32(math.NaN())
	_, err = s.Run(t.Context(), rlx.Request{Method: "mixed", Inputs: in, CheckNaN: true})
	if wantError(t, "a NaN", err, rlx.ErrNaN); !strings.Contains(err.Error(), "backend few: segment 3 of 3: step ") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user's reason")
	_, err = s.Run(
		ctx, rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2), Observe: func(v rlx.StepValue, _ rlx.Tensor) error {
			if v.Op == "top_k" {
				cancel(why)
			}
			return nil
		}})
	if err == nil || !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := s.Run(t.Context(), rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2)}); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestSplitLost checks that the loss of a fallback is an error of the run, and ends the session.
func TestSplitLost(t *testing.T) {
	t.Setenv("RLX_CRASHES_FAULT", "crash")
	m, _ := splitModel(t, "crashes", "top_k,cumsum", mixed)
	s := session(t, m, rlx.Options{Backend: faultyBackend("few"), Fallbacks: []rlx.Backend{faultyBackend("crashes")}})
	r := rlx.Request{Method: "mixed", Inputs: inputsOf(t, 2)}
	_, err := s.Run(t.Context(), r)
	wantError(t, "a fallback that crashes", err, rlx.ErrLost)
	select {
	case <-s.Done():
	case <-t.Context().Done():
		t.Fatal("the session goes on")
	}
	wantError(t, "Err", s.Err(), rlx.ErrLost)
	_, err = s.Run(t.Context(), r)
	wantError(t, "the next run", err)
}

// counting updates a state, and adds it to a value of another backend.
const counting = `graph count
sym N = 1..4
x = input : f32[N,8]
pos = input : i32[]
cache = state {init=0} : f32[8,8]
c = cumsum x {axis=0} : f32[N,8]
next = kv_append cache, c, pos {axis=0} : f32[8,8]
sum = reduce_sum next {axes=[0]} : f32[8]
d = cumsum sum {axis=0} : f32[8]
return d=d
`

// TestSplitState checks that states stay on the first backend, and that a run that fails after an update leaves an
// invalid state.
func TestSplitState(t *testing.T) {
	m, _ := splitModel(t, "cpu", "cumsum", counting)
	s := fewSession(t, m)
	st, err := s.NewState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	request := func(pos int32) rlx.Request {
		x := make([]float32, 16)
		for i := range x {
			x[i] = 1
		}
		return rlx.Request{Method: "count", State: st,
			Inputs: map[string]rlx.Tensor{"x": tensorOf(t, x, 2, 8), "pos": tensorOf(t, []int32{pos})}}
	}
	// Each run appends two rows, 1 and 2. d is the running sum of the sums of the columns.
	for run, want := range []float32{3, 6, 9} {
		r, err := s.Run(t.Context(), request(int32(2*run)))
		if err != nil {
			t.Fatal(err)
		}
		if d := tensor.View[float32](r.Outputs["d"].Data); d[0] != want || d[7] != 8*want {
			t.Errorf("run %d: %v; want %v in the first, 8 times that in the last", run, d, want)
		}
	}
	broken := request(0)
	fails := errors.New("enough")
	broken.Observe = func(v rlx.StepValue, _ rlx.Tensor) error {
		if v.Name == "d" {
			return fails
		}
		return nil
	}
	if _, err := s.Run(t.Context(), broken); !errors.Is(err, fails) {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), request(0)); !errors.Is(err, rlx.ErrState) {
		t.Errorf("after a run that failed: %v", err)
	}
	if err := st.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Run(t.Context(), request(0)); err != nil || tensor.View[float32](r.Outputs["d"].Data)[0] != 3 {
		t.Errorf("after a reset: %v, %v", r, err)
	}
}
