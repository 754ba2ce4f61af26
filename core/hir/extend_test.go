package hir_test

import (
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

type gateAttrs struct {
	Cap float64 `attr:"cap"` // of the gate
}

// gate is x·wᵀ times a sigmoid of x·gateᵀ (+ bias) that is at most cap.
var gate = hir.Extension[gateAttrs]{
	Name: "test_capped_gate", Operands: "x, w, gate, bias?",
	Doc: "x·wᵀ ∘ min(sigmoid(x·gateᵀ + bias), cap). x [..., in], w and gate [out, in], bias [out].",
	Lower: func(g *ir.Graph, a gateAttrs, in []*ir.Node) *ir.Node {
		s := op.Sigmoid(hir.Linear(in[0], in[2], in[3], "")).Named("act")
		return op.Mul(hir.Linear(in[0], in[1], nil, ""), op.Min(s, op.Const(g, a.Cap, ir.TypeOf(s.Type.DType))))
	},
}

// TestExtend adds a block of this test to a graph in text form, which infers its type. It compares the graph with a
// formula, both as written and as compiled for every built-in target with all intermediate values as outputs.
func TestExtend(t *testing.T) {
	def, err := hir.Extend(gate)
	if err != nil {
		t.Fatal(err)
	}
	const text = "graph g\nsym N = 1..8\na = input : f32[N,3]\nb = input : f32[2,3]\nc = input : f32[2,3]\n" +
		"d = input : f32[2]\ny = test_capped_gate a, b, c, bias=d {cap=0.6} : f32[N,2]\nz = test_capped_gate a, c, b {cap=0.4} : f32[N,2]\n" +
		"return y=y, z=z\n"
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(g.String(), "test_capped_gate a, b, c, d {cap=0.6} : f32[N,2]") &&
		!strings.Contains(g.String(), "test_capped_gate a, b, c, bias=d {cap=0.6} : f32[N,2]") {
		t.Errorf("it prints as\n%v", g)
	}
	values := map[string][]float64{"a": {1, -2, 3, .5, .25, -1}, "b": {.1, .2, .3, -.4, .5, .6},
		"c": {1, 0, -1, 2, 1, 0}, "d": {.5, -.5}}
	in := map[string]*tensor.Array{}
	for _, n := range g.Inputs() {
		x := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(map[string]int64{"N": 2})...)
		copy(x.Floats, values[n.Name])
		in[n.Name] = x
	}
	formula := func(w, gate, bias []float64, most float64) (y []float64) {
		for row := range 2 {
			for o := range 2 {
				v, s := 0.0, 0.0
				for i := range 3 {
					v += values["a"][3*row+i] * w[3*o+i]
					s += values["a"][3*row+i] * gate[3*o+i]
				}
				if bias != nil {
					s += bias[o]
				}
				y = append(y, v*min(1/(1+math.Exp(-s)), most))
			}
		}
		return y
	}
	want := map[string][]float64{"y": formula(values["b"], values["c"], values["d"], .6),
		"z": formula(values["c"], values["b"], nil, .4)}
	check := func(where string, g *ir.Graph, folded map[string]tensor.Tensor) {
		t.Helper()
		out, err := interp.Run(g, map[string]int64{"N": 2}, in, func(name string) (*tensor.Array, error) {
			return folded[name].Array(), nil
		})
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		for name, w := range want {
			for i, v := range out[name].Floats {
				if math.Abs(v-w[i]) > 1e-6 {
					t.Errorf("%s: %s[%d] is %v; want %v", where, name, i, v, w[i])
				}
			}
		}
	}
	check("as written", g, nil)
	for _, all := range []bool{false, true} {
		if all {
			interp.ReturnAll(g)
		}
		for _, to := range target.Builtin() {
			out, report, err := pass.Run(g, to, pass.Options{Verify: true})
			if err != nil {
				t.Fatalf("%s: %v", to.Name, err)
			}
			for _, n := range out.Nodes {
				if n.Op == def {
					t.Errorf("%s: %v was not expanded", to.Name, n)
				}
			}
			check(to.Name, out, report.Folded)
		}
	}
	parts := ir.NewGraph("g")
	x := inputs(parts, f32(2, 3), f32(2, 3), f32(2, 3))
	parts.Return("y", parts.Add(def, gateAttrs{1}, x[0], x[1], x[2], nil).Named("layers.0.gate"))
	lowered, _, err := pass.RunOne(parts, target.Builtin()[0], "lower", pass.Options{Verify: true})
	if err != nil || !strings.Contains(lowered.String(), "layers.0.gate.act = sigmoid") {
		t.Errorf("the part has another name (%v):\n%v", err, lowered)
	}
}

// TestExtendErrors checks that operands that do not fit are reported with the block's name, and that blocks which are
// not one are refused.
func TestExtendErrors(t *testing.T) {
	x := gate
	x.Name = "test_other_gate"
	def, err := hir.Extend(x)
	if err != nil {
		t.Fatal(err)
	}
	g := ir.NewGraph("g")
	in := inputs(g, f32(2, 3), f32(2, 3), f32(5, 4))
	err = g.Build(func() { g.Add(def, gateAttrs{1}, append(in, nil)...) })
	const want = "test_other_gate: linear: w is f32[5,4]; want a float matrix [out, 3]"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a gate of other rows: %v", err)
	}
	for text, change := range map[string]func(*hir.Extension[gateAttrs]){
		"there is an op of this name": func(x *hir.Extension[gateAttrs]) { x.Name = "softmax" },
		"test_other_gate: there is":   func(x *hir.Extension[gateAttrs]) { x.Name = "test_other_gate" },
		`"Gate": want a name`:         func(x *hir.Extension[gateAttrs]) { x.Name = "Gate" },
		`"": want a name`:             func(x *hir.Extension[gateAttrs]) { x.Name = "" },
		`"9gate": want a name`:        func(x *hir.Extension[gateAttrs]) { x.Name = "9gate" },
		"Doc or Lower is missing":     func(x *hir.Extension[gateAttrs]) { x.Name, x.Doc = "test_nothing", "" },
		"Lower is missing":            func(x *hir.Extension[gateAttrs]) { x.Name, x.Lower = "test_nothing", nil },
	} {
		x := gate
		change(&x)
		if _, err := hir.Extend(x); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	nothing := hir.Extension[op.NoAttrs]{Name: "test_no_node", Doc: "Nothing.", Operands: "x",
		Lower: func(*ir.Graph, op.NoAttrs, []*ir.Node) *ir.Node { return nil }}
	if def, err = hir.Extend(nothing); err != nil {
		t.Fatal(err)
	}
	g = ir.NewGraph("g")
	err = g.Build(func() { g.Add(def, op.NoAttrs{}, inputs(g, f32(1))...) })
	if err == nil || !strings.Contains(err.Error(), "test_no_node: its Lower returned no node") {
		t.Errorf("no node: %v", err)
	}
}
