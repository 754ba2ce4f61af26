package interp_test

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestResults checks that both executors compute every result of an op, and that they show each result to observers
// under its own name, even if nothing reads it. The graph executor lowers split; programs have no split.
func TestResults(t *testing.T) {
	const text = `graph g
x = input : f32[2,4]
n = neg x : f32[2,4]
v, i = top_k n {k=2} : f32[2,2], i32[2,2]
f = cast i {to=f32} : f32[2,2]
y = add f, f : f32[2,2]
`
	x := map[string]*tensor.Array{"x": f32s([]int{2, 4}, 3, 1, 2, 1, -1, -5, 0, 7)}
	i := &tensor.Array{DType: dtype.I32, Shape: []int{2, 2}, Ints: []int64{1, 3, 1, 0}}
	for name, run := range map[string]func(o interp.Observer) (map[string]*tensor.Array, error){
		"graph": func(o interp.Observer) (map[string]*tensor.Array, error) {
			return interp.Run(parse(t, text+"return y=y"), nil, x, nil, o)
		},
		"program": func(o interp.Observer) (map[string]*tensor.Array, error) {
			p, _, err := sched.Build(parse(t, text+"return y=y"), sched.Options{Target: "portable"})
			if err != nil {
				t.Fatal(err)
			}
			return interp.RunProgram(p, nil, x, nil, o)
		},
	} {
		seen := map[string]*tensor.Array{}
		out, err := run(func(n *ir.Node, v *tensor.Array) error {
			if !interp.TypeOf(v).Equal(n.Type) {
				t.Errorf("%s: %s is shown as %v; its type is %v", name, n.Label(), interp.TypeOf(v), n.Type)
			}
			seen[n.Label()] = &tensor.Array{DType: v.DType, Shape: v.Shape, Floats: slices.Clone(v.Floats),
				Ints: slices.Clone(v.Ints)}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for label, want := range map[string]*tensor.Array{"v": f32s([]int{2, 2}, -1, -1, 5, 1), "i": i,
			"y": f32s([]int{2, 2}, 2, 6, 2, 0)} {
			if seen[label] == nil {
				t.Errorf("%s: %s is not shown", name, label)
			} else if err := interp.Compare(seen[label], want, ir.Tolerance{}); err != nil {
				t.Errorf("%s: %s: %v", name, label, err)
			}
		}
		if seen["v,i"] != nil || !slices.Equal(out["y"].Floats, []float64{2, 6, 2, 0}) {
			t.Errorf("%s: outputs %v, values shown %v", name, out, seen)
		}
	}
	out, err := interp.Run(parse(t, `x = input : f32[2,4]
a, b, c = split x {axis=1, sizes=[1,0,3]} : f32[2,1], f32[2,0], f32[2,3]
return b=b, c=c
`), nil, x, nil)
	if err != nil || !slices.Equal(out["c"].Floats, []float64{1, 2, 1, -5, 0, 7}) || out["b"].Len() != 0 {
		t.Errorf("split: %v (%v)", out, err)
	}
}
