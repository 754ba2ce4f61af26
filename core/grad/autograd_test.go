package grad_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestAutograd compares the gradients of random graphs with those of PyTorch's autograd in float64.
// testdata/autograd.py makes the graphs. The last of them have ties and values at kinks.
func TestAutograd(t *testing.T) { compareFile(t, "testdata/autograd.json", 20) }

// TestRules does so for single ops, from testdata/rules.py.
func TestRules(t *testing.T) { compareFile(t, "testdata/rules.json", 100) }

// compareFile checks all graphs of a file, which has at least as many as least.
func compareFile(t *testing.T, path string, least int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text              []string
		Loss              float64
		Inputs, Gradients map[string][]float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < least {
		t.Errorf("%d graphs", len(cases))
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			g := parse(t, strings.Join(c.Text, "\n"))
			in := map[string]*tensor.Array{}
			for _, n := range g.Inputs() {
				in[n.Name] = tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
				copy(in[n.Name].Floats, c.Inputs[n.Name])
			}
			out, err := interp.Run(g, nil, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if e := math.Abs(out["loss"].Floats[0] - c.Loss); !(e <= 1e-9*(1+math.Abs(c.Loss))) {
				t.Errorf("loss %v; want %v", out["loss"].Floats[0], c.Loss)
			}
			for name, want := range c.Gradients {
				most := 0.0
				for _, w := range want {
					most = max(most, math.Abs(w))
				}
				for k, w := range want {
					if got := out["d"+name].Floats[k]; !(math.Abs(got-w) <= 1e-9*(most+1e-3)) {
						t.Errorf("d%s[%d] is %v; want %v\n%s", name, k, got, w, g)
						break
					}
				}
			}
		})
	}
}
