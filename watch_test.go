package rlx

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// opened opens a model with programs.
func opened(t *testing.T, programs ...*program.Program) *Model {
	t.Helper()
	path := t.TempDir() + "/m.rlx"
	a := format.Artifact{Programs: programs,
		Meta: format.Meta{Model: "m", Producer: format.Producer{Name: "test", Version: "0"}}}
	if _, err := format.Write(t.Context(), path, a, nil); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// pickGraph has ops with several results. Nothing reads w.
const pickGraph = `graph f
x = input : f32[3,8]
n = neg x : f32[3,8]
v, i = top_k n {k=3} : f32[3,3], i32[3,3]
w, j = top_k n {k=2} : f32[3,2], i32[3,2]
s = add v, v : f32[3,3]
return s=s, i=i, j=j
`

// TestCheckResults checks that Check compares every result of a step, in whatever order a backend sends them, and names
// the wrong one; likewise CheckNaN.
func TestCheckResults(t *testing.T) {
	m := opened(t, tinymodel.Program(t, pickGraph, "cpu"))
	sched := m.methods[0].Schedules[0]
	p := sched.split.Segments[0].Program
	all := &piece{worker: &worker{}, prog: p, binder: program.NewBinder(p)}
	l := &loaded{method: m.methods[0], schedule: sched, pieces: []*piece{all}}
	s := &Session{model: m, memory: NewBudget(0), precision: device.DefaultPrecision}
	x := tensor.New(dtype.F32, 3, 8)
	for i, v := range tensor.View[float32](x.Data) {
		tensor.View[float32](x.Data)[i] = v + float32(i*7%24)
	}
	right := map[int]tensor.Tensor{}
	if _, err := interp.RunProgram(p, nil, map[string]*tensor.Array{"x": x.Array()}, nil,
		func(n *ir.Node, v *tensor.Array) error {
			right[n.ID] = v.Tensor()
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	watch := func(r Request) *watcher {
		w, err := s.watch(context.Background(), l, all, r, nil, []Tensor{ofCore(x)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	n, _ := p.Graph.Find("w")
	if err := watch(Request{CheckNaN: true}).verdict(device.Stats{FirstNaN: n.ID}); !errors.Is(err, ErrNaN) ||
		!strings.Contains(err.Error(), "f step 3 of 4 (top_k w)") {
		t.Errorf("a NaN in w: %v", err)
	}
	for _, wrong := range []string{"", "v", "i", "w", "j"} {
		w := watch(Request{Check: true})
		var err error
		for _, step := range w.bound.Steps {
			for _, o := range slices.Backward(step.Outs) {
				x := right[o.Node]
				if p.Graph.Nodes[o.Node].Name == wrong {
					x.Data = slices.Clone(x.Data)
					x.Data[5] ^= 1
				}
				if err == nil {
					err = w.observe(o.Node, o.Shape, x.Data)
				}
			}
		}
		if wrong == "" && err != nil {
			t.Errorf("right values: %v", err)
		} else if wrong != "" && (!errors.Is(err, ErrCheck) || !strings.Contains(err.Error(), "top_k "+wrong)) {
			t.Errorf("%s is wrong: %v", wrong, err)
		}
	}
}

// TestChoose checks that the schedule is the backend's own, or else one whose nodes the backend runs.
func TestChoose(t *testing.T) {
	var progs []*program.Program
	for _, name := range []string{"portable", "cpu", "gpu"} {
		progs = append(progs, tinymodel.Program(t, tinymodel.MLP, name))
	}
	m := opened(t, progs...)
	all, ok := target.Find("cpu")
	if !ok {
		t.Fatal("no target cpu")
	}
	few, err := target.Parse("target metal 1\ntypes f32\nrun const()\nrun matmul(f32...)\nrun add(f32...)")
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{model: m, worker: &worker{info: device.Info{Name: "cpu", Target: all}}}
	if c, err := s.choose(m.methods[0]); err != nil || c.Target != "cpu" {
		t.Errorf("%v, %v; want the schedule for cpu", c, err)
	}
	s.info.Name = "metal"
	if c, err := s.choose(m.methods[0]); err != nil || c.Target != m.methods[0].Schedules[0].Target {
		t.Errorf("%v, %v; want the first", c, err)
	}
	s.info.Target = few
	if _, err = s.choose(m.methods[0]); !errors.Is(err, ErrUnsupported) ||
		!strings.Contains(err.Error(), "metal has no rule for gelu") {
		t.Errorf("no gelu: %v", err)
	}
}
