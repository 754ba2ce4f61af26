package values

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
)

var inf, nan = math.Inf(1), math.NaN()

// planOf returns the plan of a graph in text form. Its weights are all 0.5.
func planOf(t testing.TB, text string) *Plan {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: "cpu", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	return NewPlan(program.Whole(p), func(_, size int64) ([]byte, error) {
		b := tensor.AlignedBytes(int(size))
		for i := range tensor.View[float32](b) {
			tensor.View[float32](b)[i] = 0.5
		}
		return b, nil
	})
}

func f32s(shape []int, v ...float64) tensor.Tensor {
	return (&tensor.Array{DType: dtype.F32, Shape: shape, Floats: v}).Tensor()
}

func TestSummary(t *testing.T) {
	s, ok := Summarise(f32s([]int{2, 4}, 1, 0, -3, nan, inf, 0, -inf, 2))
	want := Summary{Len: 8, Zeros: 2, NaN: 1, Inf: 2, Min: -3, Max: 2, MeanAbs: 6.0 / 5, FirstNaN: 3, FirstInf: 4}
	if s != want || !ok {
		t.Errorf("%+v; want %+v", s, want)
	}
	other, _ := Summarise(f32s([]int{3}, 7, 7, nan))
	if s.Merge(other); s.MeanAbs != 20.0/7 || s.Max != 7 || s.Min != -3 || s.NaN != 2 || s.Len != 11 {
		t.Errorf("merged: %+v", s)
	}
	for _, d := range []dtype.DType{dtype.F16, dtype.BF16, dtype.F64, dtype.I8, dtype.U32, dtype.Bool} {
		x := tensor.NewArray(d, chunk+3)
		x.Fill(1)
		if s, ok := Summarise(x.Tensor()); !ok || s.Len != chunk+3 || s.Min != 1 || s.MeanAbs != 1 {
			t.Errorf("%v: %+v", d, s)
		}
	}
	if s, ok := Summarise(f32s([]int{0})); !ok || s.Min != 0 || s.Max != 0 || s.MeanAbs != 0 {
		t.Errorf("an empty value: %+v", s)
	}
}

// find runs a graph by the reference and returns what a Finder finds.
func find(t *testing.T, p *Plan, g Given, nan, inf bool, change func(s *Step)) []Bad {
	t.Helper()
	f := NewFinder(p, nan, inf)
	err := p.RunReference(t.Context(), g, func(s *Step) error {
		if change != nil {
			change(s)
		}
		return f.Step(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	return f.Found
}

// TestFinder checks which values count as bad, which of them come first, and which cause is reported.
func TestFinder(t *testing.T) {
	for _, c := range []struct {
		text     string
		x        []float64
		nan, inf bool
		want     string // names of the bad values
		inside   string // of the first
	}{
		{"y = log x : f32[2]", []float64{1, 2}, true, true, "", ""},
		{"y = log x : f32[2]", []float64{1, -2}, true, true, "y", ""},
		{"y = log x : f32[2]", []float64{1, 0}, true, false, "", ""},
		{"y = log x : f32[2]", []float64{1, 0}, false, true, "y", ""},
		{"a = log x : f32[2]\nb = neg a : f32[2]\nc = exp b : f32[2]\ny = neg c : f32[2]", []float64{1, -2}, true, false,
			"a b c", ""},
		// a mask's infinity is on purpose, and so are the values computed from it
		{"m = const {value=-Inf} : f32[2]\ny = add x, m : f32[2]", []float64{1, 2}, true, true, "", ""},
		{"y = neg x : f32[2]", []float64{inf, 2}, true, true, "", ""},
		{`y = elementwise_region x {expr="v0=lt(i0,0.0); v1=where(v0,-Inf,i0)"} : f32[2]`, []float64{-1, 2}, true, true,
			"", ""},
		// but not an infinity that a step beside it makes
		{"m = const {value=-Inf} : f32[2]\na = mul x, x : f32[2]\ny = add a, m : f32[2]", []float64{1e30, 2}, true, true,
			"a y", ""},
		{`y = elementwise_region x {expr="v0=lt(i0,0.0); v1=mul(i0,i0); v2=where(v0,-Inf,v1)"} : f32[2]`,
			[]float64{-1, 1e30}, false, true, "y", "v1=mul(i0,i0)"},
		{`y = elementwise_region x {expr="v0=exp(i0); v1=div(v0,v0)"} : f32[2]`, []float64{1, 1e3}, true, false, "y",
			"v1=div(v0,v0)"},
		{`y = elementwise_region x {expr="v0=lt(i0,0.0); v1=where(v0,-Inf,i0); v2=sub(v1,v1)"} : f32[2]`,
			[]float64{-1, 2}, true, true, "y", "v2=sub(v1,v1)"},
		{"m = const {value=NaN} : f32[2]\ny = add x, m : f32[2]", []float64{1, 2}, true, false, "m y", ""},
	} {
		p := planOf(t, "graph f\nx = input : f32[2]\n"+c.text+"\nreturn y=y\n")
		var names []string
		found := find(t, p, Given{Inputs: []tensor.Tensor{f32s([]int{2}, c.x...)}}, c.nan, c.inf, nil)
		for _, b := range found {
			names = append(names, b.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s of %v: found %q; want %q", c.text, c.x, got, c.want)
		} else if c.inside != "" && found[0].Inside != c.inside {
			t.Errorf("%s of %v: made by %q; want %q", c.text, c.x, found[0].Inside, c.inside)
		}
		if len(found) > 0 && found[0].Sound {
			t.Errorf("%s of %v: the reference makes it, too", c.text, c.x)
		}
	}
}

// TestFinderBackend checks that a bad value which the operands do not explain is called the backend's fault.
func TestFinderBackend(t *testing.T) {
	p := planOf(t, "graph f\nx = input : f32[2,3]\na = neg x : f32[2,3]\ns = softmax a {axis=1} : f32[2,3]\n"+
		"y = neg s : f32[2,3]\nreturn y=y\n")
	given := Given{Inputs: []tensor.Tensor{f32s([]int{2, 3}, 1, 2, 3, 4, 5, 6)}}
	found := find(t, p, given, true, false, func(s *Step) {
		if s.Node.Op.Name == "softmax" {
			tensor.View[float32](s.Results[0].Data)[4] = float32(nan)
		}
	})
	if len(found) != 2 || !found[0].Sound || found[0].Name != "s" || found[1].Sound {
		t.Fatalf("found %+v", found)
	}
	b := found[0]
	if b.First != 4 || b.NaN != 1 || b.At[0] != 1 || b.At[1] != 1 || b.Good.Name != "a" || b.Good.Min != -6 ||
		len(b.Around) != 4 || b.Label() != "f step 2 of 3 (softmax s)" {
		t.Errorf("%+v", b)
	}
	if s := b.String(); !strings.Contains(s, "1 NaN of 6 elements of f32[2,3]; the first is at [1,1]") {
		t.Error(s)
	}
}

func TestCompare(t *testing.T) {
	tol := ir.Tolerance{Abs: 0.1, Rel: 0.01}
	array := func(v ...float64) *tensor.Array {
		return &tensor.Array{DType: dtype.F32, Shape: []int{len(v)}, Floats: v}
	}
	d, err := Compare(array(1, 2, 3, nan, inf), array(1, 2.5, 103, nan, inf), tol, 0)
	if err != nil || d.Bad != 2 || d.Over != 2 || d.Worst != 2 || d.Got != 3 || d.Want != 103 || d.Max != 100 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, _ = Compare(array(1, 2), array(1, 12), tol, 1); d.Bad != 0 || d.Over != 1 || d.Max != 10 {
		t.Errorf("with a scale: %+v", d)
	}
	if d, _ = Compare(array(nan, 2), array(1, 2), tol, 1); d.Bad != 1 || d.Worst != 0 {
		t.Errorf("a NaN: %+v", d)
	}
	if _, err = Compare(array(1), array(1, 2), tol, 0); err == nil {
		t.Error("values of other shapes are compared")
	}
}

const several = `graph f
sym N = 1..4
x = input : f32[N,8]
w = param : f32[8,8]
pos = input : i32[]
cache = state {init=0.25} : f32[4,8]
h = matmul x, w : f32[N,8]
next = kv_append cache, h, pos {axis=0} : f32[4,8]
v, i = top_k next {k=3} : f32[4,3], i32[4,3]
two = const {value=2.0} : f32[4,3]
d = mul v, two : f32[4,3]
flat = reshape d : f32[12]
s = softmax flat {axis=0} : f32[12]
return s=s, i=i
`

// TestJudge makes each step of a program wrong in turn. Judge names it, and no other, and the step runs alone as an
// artifact, in which the reference agrees with itself and has the result that the step should have had.
func TestJudge(t *testing.T) {
	p := planOf(t, several)
	x := tensor.New(dtype.F32, 2, 8)
	for i := range tensor.View[float32](x.Data) {
		tensor.View[float32](x.Data)[i] = float32(i*5%16) / 4
	}
	given := Given{Sizes: map[string]int64{"N": 2}, Inputs: []tensor.Tensor{x, tensor.New(dtype.I32)},
		States: map[string]tensor.Tensor{"cache": f32s([]int{4, 8}, make([]float64, 32)...)}}
	steps := 0
	for bad := range p.Steps {
		var wrong *Wrong
		right := map[int]*tensor.Array{}
		err := p.RunReference(t.Context(), given, func(s *Step) error {
			for k, o := range s.Outs {
				right[o.Node] = s.Results[k].Array()
			}
			if s.Index == bad {
				last := len(s.Results) - 1
				b := s.Results[last].Data
				b[len(b)-1] ^= 0x41
			}
			w, err := s.Judge(t.Context(), 0)
			if w != nil && wrong != nil {
				t.Errorf("step %d is wrong; so is %s", bad+1, w.Label())
			}
			if w != nil {
				wrong = w
			}
			return err
		})
		if err != nil || wrong == nil || wrong.Step != bad+1 {
			t.Fatalf("step %d is wrong: found %+v, %v", bad+1, wrong, err)
		}
		path := filepath.Join(t.TempDir(), "case.rlx")
		err = wrong.WriteCase(t.Context(), path, p, format.Meta{Model: "case"})
		if p.Steps[bad].Node.Op.Updates {
			if !errors.Is(err, code.Differs) || !strings.Contains(err.Error(), "updates a state") {
				t.Errorf("a step that updates a state: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		steps++
		v, err := format.Open(path, format.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		alone, ok := PlanOf(v, "f", "cpu")
		if !ok {
			t.Fatal("the case has no method f")
		}
		ran := false
		err = alone.RunReference(t.Context(), Given{}, func(s *Step) error {
			if s.Node.Op != p.Steps[bad].Node.Op || s.Node.Op == op.CopyDef {
				return nil
			}
			ran = true
			for k, n := range p.Steps[bad].Node.Values() {
				if err := interp.Compare(s.Results[k].Array(), right[n.ID], ir.Tolerance{}); err != nil {
					t.Errorf("%s alone: %v", wrong.Label(), err)
				}
			}
			return nil
		})
		if err != nil || !ran && p.Steps[bad].Node.Op != op.CopyDef {
			t.Errorf("%s alone: %v, ran %v", wrong.Label(), err, ran)
		}
	}
	if steps < 4 {
		t.Errorf("%d steps were cut out", steps)
	}
}

// TestFollowErrors checks that a Follower refuses values that a backend should not have sent.
func TestFollowErrors(t *testing.T) {
	p := planOf(t, several)
	f, err := p.Follow(Given{Sizes: map[string]int64{"N": 1}}, EveryStep, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Observe(0, "nobody", f32s([]int{1}, 1)); err == nil {
		t.Error("a value that no step has is accepted")
	}
	if _, err := p.Follow(Given{Sizes: map[string]int64{"N": 9}}, nil, nil); err == nil {
		t.Error("a size out of range is accepted")
	}
	if n := p.Memory(map[string]int64{"N": 2}, EveryStep); n < 4*8*4 {
		t.Errorf("%d bytes for kept values", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.RunReference(ctx, Given{Sizes: map[string]int64{"N": 1}, Inputs: []tensor.Tensor{
		tensor.New(dtype.F32, 1, 8), tensor.New(dtype.I32)}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSpool(t *testing.T) {
	s, err := NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x := f32s([]int{2, 1}, 3, 4)
	if err := s.Put("x", x); err != nil {
		t.Fatal(err)
	}
	y, ok, err := s.Get("x")
	if err != nil || !ok || interp.Compare(y.Array(), x.Array(), ir.Tolerance{}) != nil {
		t.Errorf("%v, %v, %v", y, ok, err)
	}
	if _, ok, _ := s.Get("y"); ok {
		t.Error("a value that was not put")
	}
}
