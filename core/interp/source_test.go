package interp_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestSameSteps checks that a compiled graph that means something else than its source is found, and the step named.
func TestSameSteps(t *testing.T) {
	const text = "x = input : bool[2]\ny = not x : bool[2]\nz = xor x, y : bool[2]\nreturn z"
	source := parse(t, text)
	interp.ReturnAll(source)
	same := func(_ *ir.Node, _, got, want []*tensor.Array) error {
		return interp.Compare(got[0], want[0], ir.Tolerance{})
	}
	inputs := map[string]*tensor.Array{"x": {DType: source.Nodes[0].Type.DType, Shape: []int{2}, Ints: []int64{0, 1}}}
	for compiled, want := range map[string]string{
		text: "",
		"x = input : bool[2]\ni = cast x {to=i32} : i32[2]\nn = not i : i32[2]\ny = cast n {to=bool} : bool[2]\nz = xor x, y : bool[2]\nreturn z": "y (not of [bool[2]]): 1 of 2 elements differ",
	} {
		g := parse(t, compiled)
		for _, name := range []string{"y", "z"} {
			n, _ := g.Find(name)
			m, _ := source.Find(name)
			g.Return("value."+string(rune('0'+m.ID)), n)
		}
		got, err := interp.Run(g, nil, inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = interp.SameSteps(source, nil, inputs, nil, got, same)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
