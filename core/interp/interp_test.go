package interp_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// addTwiceDef is a block that lowers to two nodes and has no reference evaluation.
var addTwiceDef = ir.Define(ir.Def[op.NoAttrs]{
	Name: "test_add_twice", Doc: "x + y + y.", Operands: "x, y", Block: true,
	Infer: func(s ir.Sig[op.NoAttrs]) (ir.Type, error) { return s.In[0], nil },
})

var _ = ir.Lower(addTwiceDef, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node {
	return op.Add(op.Add(in[0], in[1]), in[1])
})

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	if err == nil {
		err = g.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func f32s(shape []int, v ...float64) *tensor.Array {
	return &tensor.Array{DType: dtype.F32, Shape: shape, Floats: v}
}

const blockGraph = `graph g
sym N = 1..4
x = input : f32[N,2]
w = param : f32[2]
y = expand w : f32[N,2]
z = test_add_twice x, y : f32[N,2]
s = reduce_sum z {axes=[0]} : f32[2]
return z=z, s=s
`

func TestRun(t *testing.T) {
	g := parse(t, blockGraph)
	asked := 0
	params := func(name string) (*tensor.Array, error) {
		asked++
		return f32s([]int{2}, 10, 20), nil
	}
	var seen []string
	out, err := interp.Run(g, map[string]int64{"N": 3},
		map[string]*tensor.Array{"x": f32s([]int{3, 2}, 1, 2, 3, 4, 5, 6)}, params,
		func(n *ir.Node, v *tensor.Array) error { seen = append(seen, n.Label()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := interp.Compare(out["z"], f32s([]int{3, 2}, 21, 42, 23, 44, 25, 46), ir.Tolerance{}); err != nil {
		t.Error(err)
	}
	if err := interp.Compare(out["s"], f32s([]int{2}, 69, 132), ir.Tolerance{}); err != nil {
		t.Error(err)
	}
	if got := strings.Join(seen, " "); got != "x w y z s" || asked != 1 {
		t.Errorf("observed %q and %d weights", got, asked)
	}
}

func TestRunErrors(t *testing.T) {
	g := parse(t, blockGraph)
	good := f32s([]int{3, 2}, 1, 2, 3, 4, 5, 6)
	noWeight := errors.New("no such weight")
	for _, c := range []struct {
		syms   map[string]int64
		inputs map[string]*tensor.Array
		params interp.Params
		want   string
	}{
		{nil, map[string]*tensor.Array{"x": good}, nil, "size N is not given"},
		{map[string]int64{"N": 5}, map[string]*tensor.Array{"x": good}, nil, "size N is 5; allowed are 1 to 4"},
		{map[string]int64{"N": 3}, nil, nil, "x: input of type f32[N,2] is not given"},
		{map[string]int64{"N": 2}, map[string]*tensor.Array{"x": good}, nil, "x: input is f32[3,2]; want f32[2,2]"},
		{map[string]int64{"N": 3}, map[string]*tensor.Array{"x": good, "y": good}, nil, `has no input "y"`},
		{map[string]int64{"N": 3}, map[string]*tensor.Array{"x": good}, nil,
			"w: the graph has weights, but none are given"},
		{map[string]int64{"N": 3}, map[string]*tensor.Array{"x": good}, func(string) (*tensor.Array, error) {
			return nil, noWeight
		}, "w: no such weight"},
	} {
		if _, err := interp.Run(g, c.syms, c.inputs, c.params); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v; want %q", err, c.want)
		}
	}
	stop := errors.New("stop")
	_, err := interp.Run(g, map[string]int64{"N": 3}, map[string]*tensor.Array{"x": good}, nil,
		func(*ir.Node, *tensor.Array) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("error of the observer became %v", err)
	}
}

func TestCompare(t *testing.T) {
	nan, inf := f32s([]int{1}, math.NaN()), f32s([]int{1}, math.Inf(1))
	one := f32s([]int{1}, 1)
	tol := ir.Tolerance{Abs: 0.5, Rel: 0.5}
	for _, c := range []struct {
		got, want *tensor.Array
		equal     bool
	}{
		{nan, nan, true}, {nan, one, false}, {one, nan, false}, {inf, inf, true}, {inf, one, false}, {one, inf, false},
		{f32s([]int{1}, 2), one, true},
		{f32s([]int{1}, 2.1), one, false}, {f32s([]int{1}, -0.1), one, false}, {f32s([]int{1, 1}, 1), one, false},
	} {
		if err := interp.Compare(c.got, c.want, tol); (err == nil) != c.equal {
			t.Errorf("%v against %v: %v", c.got.Floats, c.want.Floats, err)
		}
	}
}

// TestRandom checks that random values lie in their range and are exact in their type, and that equal seeds give equal
// values.
func TestRandom(t *testing.T) {
	for _, d := range dtype.All() {
		a := interp.Random(rand.New(rand.NewPCG(3, 4)), ir.TypeOf(d, 100), nil, ir.Range{Lo: -3, Hi: 300})
		if err := interp.Compare(a.Tensor().Array(), a, ir.Tolerance{}); err != nil {
			t.Errorf("%v: %v", d, err)
		}
		for i := range a.Len() {
			if v := a.At(i); v < -3 || v > 301 {
				t.Errorf("%v: %v", d, v)
			}
		}
	}
	c := ir.Case[any]{In: []ir.Type{ir.TypeOf(dtype.F32, 9)}}
	if err := interp.Compare(interp.CaseInputs(c, 5)[0], interp.CaseInputs(c, 5)[0], ir.Tolerance{}); err != nil {
		t.Error(err)
	}
}
