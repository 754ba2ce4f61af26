package compile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/target"
)

// TestFallback checks that only the ops that a target lacks run elsewhere, even if a pass could fuse them with ops that
// the target runs.
func TestFallback(t *testing.T) {
	g, err := ir.Parse(`graph f
x = input : f32[64,64]
w = param : f32[64,64]
h = matmul x, w {trans_b=true} : f32[64,64]
a = silu h : f32[64,64]
p = matmul a, w {trans_b=true} : f32[64,64]
y = add p, x : f32[64,64]
return y=y
`)
	if err != nil {
		t.Fatal(err)
	}
	few, err := target.Parse(
		"target few 1\ntypes f32\nrun add(f32...)\nrun copy(f32)\nrun fused_matmul(f32...) if act = \"\"\nrun matmul(f32...)")
	if err != nil {
		t.Fatal(err)
	}
	cpu, _ := target.Find("cpu")
	o := compile.Options{Targets: []compile.Target{{Name: "few", Takes: few}},
		Layout: func([]compile.Weight) (int64, error) { return 64 * 64 * 4, nil }}
	if _, err := compile.Compile(context.Background(), []*ir.Graph{g}, o); !errors.Is(err, code.Untaken) {
		t.Errorf("without a fallback: %v", err)
	}
	o.Fallbacks = []compile.Target{{Name: "few", Takes: few}, {Name: "cpu", Takes: cpu}}
	r, err := compile.Compile(context.Background(), []*ir.Graph{g}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Programs) != 0 || len(r.Splits) != 1 {
		t.Fatalf("%d programs, %d splits", len(r.Programs), len(r.Splits))
	}
	var got []string
	for _, s := range r.Splits[0].Segments {
		text := s.Target + ":"
		for _, st := range s.Steps {
			text += " " + s.Graph.Nodes[st.Node].Op.Name
		}
		got = append(got, text)
	}
	if fmt.Sprint(got) != "[few: matmul cpu: silu few: fused_matmul]" || r.Splits[0].Lowering() != "on cpu: silu (1)" {
		t.Errorf("%v; %s", got, r.Splits[0].Lowering())
	}
}
