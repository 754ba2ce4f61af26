package program_test

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
)

// double returns a program for y = x + w, where x has 1 to 9 rows and w is one row.
func double(t *testing.T) *program.Program {
	t.Helper()
	g := ir.NewGraph("double", ir.Sym{Name: "N", Min: 1, Max: 9})
	x := op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(3)}})
	w := op.Param(g, "w", ir.TypeOf(dtype.F32, 3))
	g.Return("y", op.Add(x, w))
	p, _, err := sched.Build(
		g, sched.Options{Method: "double", Target: "portable", Weights: func(string) (int64, bool) {
			return 512, true
		}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBind(t *testing.T) {
	p := double(t)
	b, err := p.Bind(map[string]int64{"N": 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Steps) != 1 || !slices.Equal(b.Steps[0].Outs[0].Shape, []int{2, 3}) || b.Steps[0].Outs[0].Bytes != 24 {
		t.Errorf("steps %+v", b.Steps)
	}
	if w := b.Steps[0].In[1]; w.Space != program.Weights || w.Offset != 512 || w.Bytes != 12 {
		t.Errorf("weight %+v", w)
	}
	if b.Inputs[0].Offset == b.Outputs[0].Offset || b.Outputs[0].Space != program.IO {
		t.Errorf("input %+v and output %+v", b.Inputs[0], b.Outputs[0])
	}
	// The place is large enough for every size.
	if pl := p.Places[b.Inputs[0].Node]; pl.Size != 9*3*4 || p.IOSize < 2*256 || p.IOSize%program.Align != 0 {
		t.Errorf("place %+v, io %d", pl, p.IOSize)
	}
	if got := p.WeightsExtent(); got != 512+12 {
		t.Errorf("weights extent %d", got)
	}
}

func TestCheckSyms(t *testing.T) {
	p := double(t)
	for _, syms := range []map[string]int64{nil, {"N": 0}, {"N": 10}, {"N": -1}, {"M": 2}, {"N": 2, "M": 2}} {
		if err := p.Graph.CheckSyms(syms); err == nil {
			t.Errorf("%v is accepted", syms)
		}
		if _, err := p.Bind(syms); err == nil {
			t.Errorf("%v binds", syms)
		}
	}
	for _, n := range []int64{1, 9} {
		if err := p.Graph.CheckSyms(map[string]int64{"N": n}); err != nil {
			t.Error(err)
		}
	}
}

// TestRecent checks that Recent remembers the most recently used sizes.
func TestRecent(t *testing.T) {
	at := func(n int64) map[string]int64 { return map[string]int64{"N": n, "M": 7} }
	var r program.Recent[*int64]
	for n := range int64(32) {
		r.Put(at(n), &n)
	}
	for _, n := range []int64{3, 0, 7, 0} {
		if v, ok := r.Get(at(n)); !ok || *v != n {
			t.Fatalf("%d: %v, %v", n, v, ok)
		}
	}
	other := int64(30)
	r.Put(at(3), &other)
	if v, _ := r.Get(at(3)); v != &other {
		t.Error("a value is not replaced")
	}
	r.Put(at(32), &other)
	r.Put(at(33), &other)
	for n, want := range map[int64]bool{1: false, 2: false, 3: true, 0: true, 7: true, 32: true, 33: true} {
		if _, ok := r.Get(at(n)); ok != want {
			t.Errorf("%d is remembered: %v", n, ok)
		}
	}
	if _, ok := r.Get(map[string]int64{"N": 8}); ok {
		t.Error("sizes are found by a part of them")
	}
}

// TestBinderReusesMemory checks that Values gives the same result in reused memory as in new memory.
func TestBinderReusesMemory(t *testing.T) {
	p := double(t)
	b := program.NewBinder(p)
	var old *program.Values
	for _, n := range []int64{9, 1, 4} {
		syms := map[string]int64{"N": n}
		old = b.Values(syms, old)
		fresh := b.Values(syms, nil)
		for i := range fresh.Operands {
			if x, y := old.Operands[i], fresh.Operands[i]; !slices.Equal(x.Shape, y.Shape) || x.Bytes != y.Bytes ||
				x.Offset != y.Offset {
				t.Errorf("N = %d: value %d is %+v; want %+v", n, i, x, y)
			}
		}
	}
}
