package compile_test

import (
	"context"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/ir"
)

// TestSplitIsFree checks that splitting needs no step and no memory along the outermost axis, or along an axis that
// only axes of size 1 precede. Along other axes each part is a copy.
func TestSplitIsFree(t *testing.T) {
	for _, c := range []struct {
		graph string
		want  []string // ops of the steps
	}{
		{`x = input : f32[6,4]
a, b, c = split x {sizes=[1,2,3]} : f32[1,4], f32[2,4], f32[3,4]
y = neg b : f32[2,4]
z = exp c : f32[3,4]
return y, z`, []string{"neg", "exp"}},
		{`x = input : f32[1,6,4]
s = softmax x {axis=2} : f32[1,6,4]
a, b = split s {axis=1, parts=2} : f32[1,3,4], f32[1,3,4]
y = matmul a, b {trans_b=true} : f32[1,3,3]
return y`, []string{"softmax", "matmul"}},
		{`x = input : f32[2,6]
a, b = split x {axis=1, parts=2} : f32[2,3], f32[2,3]
y = matmul a, b {trans_b=true} : f32[2,2]
return y`, []string{"narrow", "narrow", "matmul"}},
	} {
		g, err := ir.Parse("graph m\n" + c.graph)
		if err != nil {
			t.Fatal(err)
		}
		r, err := compile.Compile(context.Background(), []*ir.Graph{g}, compile.Options{Targets: compile.Defaults()[:1],
			Layout: func([]compile.Weight) (int64, error) { return 0, nil }})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Programs[0]
		var got []string
		for _, s := range p.Steps {
			got = append(got, p.Graph.Nodes[s.Node].Op.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("steps are %v; want %v\n%v", got, c.want, p.Graph)
		}
	}
}
