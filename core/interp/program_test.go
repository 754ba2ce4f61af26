package interp_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

const planned = `graph g
sym N = 1..4
x = input : f32[N,3]
w = param : bf16[2,3]
a = matmul x, w {trans_b=true} : f32[N,2]
r = reshape a : f32[2*N]
b = neg r : f32[2*N]
c = exp r : f32[2*N]
d = add b, c : f32[2*N]
e = softmax d : f32[2*N]
return e=e, d=d
`

// makeProgram returns a program with a hand-made plan: r is a view of a, c overwrites r (and so a), and d lies in the
// IO space.
func makeProgram(t *testing.T) *program.Program {
	g := parse(t, planned)
	place := func(s program.Space, offset, size int64, parent int) program.Place {
		return program.Place{Space: s, Offset: offset, Size: size, Parent: parent}
	}
	return &program.Program{
		Graph: g, ArenaSize: 768, IOSize: 768,
		Places: []program.Place{
			place(program.IO, 0, 48, -1), place(program.Weights, 256, 12, -1), place(program.Arena, 0, 32, -1),
			place(program.Arena, 0, 32, 2),
			place(program.Arena, 256, 32, -1), place(program.Arena, 0, 32, 3), place(program.IO, 256, 32, -1),
			place(program.IO, 512, 32, -1),
		},
		Steps: []program.Step{{Node: 2}, {Node: 4}, {Node: 5}, {Node: 6}, {Node: 7}},
	}
}

func runBoth(t *testing.T, p *program.Program) error {
	t.Helper()
	w := &tensor.Array{DType: p.Graph.Nodes[1].Type.DType, Shape: []int{2, 3},
		Floats: []float64{1, -0.5, 2, 0.25, 3, -1}}
	x := f32s([]int{3, 3}, 0.1, 0.2, 0.3, -0.4, 0.5, -0.6, 0.7, 0.8, -0.9)
	x = x.Tensor().Array()
	syms, inputs := map[string]int64{"N": 3}, map[string]*tensor.Array{"x": x}
	weights := make([]byte, 512)
	copy(weights[256:], w.Tensor().Data)
	want, err := interp.Run(p.Graph, syms, inputs, func(string) (*tensor.Array, error) { return w, nil })
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	got, err := interp.RunProgram(p, syms, inputs, weights, func(*ir.Node, *tensor.Array) error { steps++; return nil })
	if err != nil {
		return err
	}
	if steps != len(p.Steps) {
		t.Errorf("%d steps observed", steps)
	}
	for name, v := range want {
		if err := interp.Compare(got[name], v, ir.Tolerance{Abs: 1e-6, Rel: 1e-6}); err != nil {
			return err
		}
	}
	return nil
}

func TestRunProgram(t *testing.T) {
	if err := runBoth(t, makeProgram(t)); err != nil {
		t.Error(err)
	}
}

// TestRunProgramShowsBadPlans checks that each mistake in a plan gives a wrong result or an error.
func TestRunProgramShowsBadPlans(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(p *program.Program)
		want    string
	}{
		"two live values": {func(p *program.Program) { p.Places[4].Offset = 16 }, "differ"},
		"overwritten too early": {func(p *program.Program) { p.Steps[1], p.Steps[2] = p.Steps[2], p.Steps[1] },
			"differ"},
		"not in place": {func(p *program.Program) { p.Places[5].Parent = -1 }, "differ"},
		"input overwritten": {
			func(p *program.Program) { p.Places[2].Space = program.IO; p.Places[3].Space = program.IO }, "differ"},
		"output overwritten": {func(p *program.Program) { p.Places[7].Offset = 256 + 4 }, "differ"},
		"step missing":       {func(p *program.Program) { p.Steps = p.Steps[1:] }, "differ"},
		"out of the arena": {func(p *program.Program) { p.Places[4].Offset = 760 },
			"b: node 4 lies at 760 to 784 of the arena space, which has 768 bytes"},
		"negative": {func(p *program.Program) { p.Places[4].Offset = -8 }, "lies at -8"},
		"result in weights": {func(p *program.Program) { p.Places[4].Space = program.Weights },
			"weights, which are read-only"},
	} {
		p := makeProgram(t)
		c.breakIt(p)
		if err := runBoth(t, p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v; want %q", name, err, c.want)
		}
	}
	p := makeProgram(t)
	if _, err := interp.RunProgram(p, map[string]int64{"N": 9}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "size N is 9") {
		t.Errorf("error is %v", err)
	}
	if _, err := interp.RunProgram(p, map[string]int64{"N": 1}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "x: input of type f32[N,3] is not given") {
		t.Errorf("error is %v", err)
	}
}

// TestAlias checks that a product must not overwrite its residual if the residual is also its left factor.
func TestAlias(t *testing.T) {
	const text = `graph g
x = input : f32[3,3]
w = param : f32[3,3]
r = relu x : f32[3,3]
y = fused_matmul r, w, residual=r : f32[3,3]
z = neg y : f32[3,3]
return z=z
`
	g := parse(t, text)
	p, _, err := sched.Build(g, sched.Options{Target: "cpu", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	x := f32s([]int{3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	inputs := map[string]*tensor.Array{"x": x}
	run := func() *tensor.Array {
		out, err := interp.RunProgram(p, nil, inputs, x.Tensor().Data)
		if err != nil {
			t.Fatal(err)
		}
		return out["z"]
	}
	want := f32s([]int{3, 3}, -31, -38, -45, -70, -86, -102, -109, -134, -159)
	if err := interp.Compare(run(), want, ir.Tolerance{}); err != nil {
		t.Errorf("as planned: %v", err)
	}
	p.Places[3] = p.Places[2]
	p.Places[3].Parent = 2
	if interp.Compare(run(), want, ir.Tolerance{}) == nil {
		t.Error("over its left factor: the result is right")
	}
}
