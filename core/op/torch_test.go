package op_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestAgainstTorch compares the reference with results of PyTorch in float64 (testdata/make_torch.py).
func TestAgainstTorch(t *testing.T) {
	type array struct {
		Shape []int
		Data  []float64
	}
	var cases []struct {
		Line   string
		Inputs map[string]array
		Out    array
	}
	text, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 25 {
		t.Fatalf("%d cases", len(cases))
	}
	value := func(a array) *tensor.Array { return f32s(a.Shape, a.Data...) }
	typ := func(a array) ir.Type { return interp.TypeOf(&tensor.Array{DType: dtype.F32, Shape: a.Shape}) }
	for _, c := range cases {
		t.Run(c.Line, func(t *testing.T) {
			var b strings.Builder
			inputs := map[string]*tensor.Array{}
			for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
				fmt.Fprintf(&b, "%s = input : %v\n", name, typ(c.Inputs[name]))
				inputs[name] = value(c.Inputs[name])
			}
			fmt.Fprintf(&b, "out = %s : %v\nreturn out=out\n", c.Line, typ(c.Out))
			g, err := ir.Parse(b.String())
			if err != nil {
				t.Fatal(err)
			}
			got, err := interp.Run(g, nil, inputs, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := interp.Compare(got["out"], value(c.Out), ir.Tolerance{Abs: 1e-11, Rel: 1e-10}); err != nil {
				t.Error(err)
			}
		})
	}
}
