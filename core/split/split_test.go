package split_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/split"
	"github.com/rlx-go/rlx/core/tensor"
)

// lacking returns options with two backends. Backend 0 lacks the given ops, backend 1 has all ops.
func lacking(ops ...*ir.OpDef) split.Options {
	return split.Options{Targets: 2, Takes: func(k int, n *ir.Node) bool { return k == 1 || !n.Is(ops...) }}
}

// run runs the segments of a plan in turn and returns the outputs of the method.
func run(t *testing.T, g *ir.Graph, p *split.Plan, states map[string]*tensor.Array, syms map[string]int64,
	in map[string]*tensor.Array, params interp.Params) map[string]*tensor.Array {
	t.Helper()
	var results []map[string]*tensor.Array
	value := func(segment, index int) *tensor.Array {
		if segment < 0 {
			return in[g.Inputs()[index].Name]
		}
		return results[segment][p.Segments[segment].Graph.Outputs[index].Name]
	}
	for _, s := range p.Segments {
		if err := s.Graph.Verify(); err != nil {
			t.Fatalf("%v\n%v", err, s.Graph)
		}
		mine := map[string]*tensor.Array{}
		for _, n := range s.Graph.Inputs() {
			from, ok := s.Inputs[n.Name]
			if !ok || from.Segment >= len(results) {
				t.Fatalf("input %s comes from %v\n%v", n.Name, from, s.Graph)
			}
			mine[n.Name] = value(from.Segment, from.Index)
		}
		out, err := interp.RunFrom(states, s.Graph, syms, mine, params)
		if err != nil {
			t.Fatalf("%v\n%v", err, s.Graph)
		}
		results = append(results, out)
	}
	out := map[string]*tensor.Array{}
	for i, o := range g.Outputs {
		out[o.Name] = value(p.Outputs[i].Segment, p.Outputs[i].Index)
	}
	return out
}

// randomGraph returns a graph with ops for several backends (neg, top_k) and two states that are updated and read.
// Values have the shape [N,3].
func randomGraph(r *rand.Rand) *ir.Graph {
	g := ir.NewGraph("random", ir.Sym{Name: "N", Min: 2, Max: 5})
	typ := ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(3)}}
	x, pos := op.Input(g, "x", typ), op.Input(g, "pos", ir.TypeOf(dtype.I32))
	w := op.Param(g, "w", ir.TypeOf(dtype.F32, 3))
	m := op.Param(g, "m", ir.TypeOf(dtype.F32, 3, 3))
	state := ir.TypeOf(dtype.F32, 8, 3)
	last := []*ir.Node{op.State(g, "a", state, 1), op.State(g, "b", state, -2)}
	values := []*ir.Node{x, op.Mul(x, w)}
	pick := func() *ir.Node { return values[r.IntN(len(values))] }
	for range 5 + r.IntN(12) {
		switch v := pick(); r.IntN(8) {
		case 0, 1:
			values = append(values, op.Add(v, pick()))
		case 2:
			values = append(values, op.Neg(v))
		case 3:
			values = append(values, op.MatMul(v, m, op.MatMulAttrs{}))
		case 4:
			top, _ := op.TopK(v, 3)
			values = append(values, top)
		case 5: // a row of the latest value of a state
			values = append(values, op.Add(v, op.Narrow(op.Narrow(last[r.IntN(2)], 0, 1, 2), 0, 0, 1)))
		case 6:
			values = append(values, op.Mul(op.Neg(w), v))
		default:
			k := r.IntN(2)
			last[k] = op.KVAppend(last[k], v, pos, 0)
		}
	}
	for i := range 1 + r.IntN(3) {
		g.Return(fmt.Sprint("y", i), pick())
	}
	if r.IntN(3) == 0 {
		g.Return("state", last[0])
	}
	g, err := g.Rebuild(nil)
	if err != nil {
		panic(err)
	}
	return g
}

// TestSameMeaning checks that the segments in turn compute the same as the graph, over several runs.
func TestSameMeaning(t *testing.T) {
	counts := map[int]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 5))
		g := randomGraph(r)
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		o := lacking(op.NegDef, op.TopKDef)
		if seed%2 == 1 { // backend 1 has neg, backend 2 has top_k
			o = split.Options{Targets: 3, Takes: func(k int, n *ir.Node) bool {
				return n.Is(op.NegDef) && k == 1 || n.Is(op.TopKDef) && k == 2 || !n.Is(op.NegDef, op.TopKDef)
			}}
		}
		p, err := split.Make(g, o)
		if err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, g)
		}
		counts[len(p.Segments)]++
		weights := map[string]*tensor.Array{}
		for _, n := range g.Params() {
			weights[n.Name] = interp.Random(r, n.Type, nil, ir.Range{Lo: -1, Hi: 1})
		}
		params := func(name string) (*tensor.Array, error) { return weights[name], nil }
		one, two := map[string]*tensor.Array{}, map[string]*tensor.Array{}
		for range 2 {
			syms := map[string]int64{"N": 2 + r.Int64N(4)}
			in := map[string]*tensor.Array{"pos": tensor.NewArray(dtype.I32)}
			in["pos"].Ints[0] = r.Int64N(3)
			in["x"] = interp.Random(r, g.Inputs()[0].Type, syms, ir.Range{Lo: -1, Hi: 1})
			want, err := interp.RunFrom(one, g, syms, in, params)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, g, p, two, syms, in, params)
			for name, x := range want {
				if err := interp.Compare(got[name], x, ir.Tolerance{}); err != nil {
					t.Fatalf("seed %d, %s: %v\n%v", seed, name, err, g)
				}
			}
		}
		again, err := split.Make(g, o)
		if err != nil || len(again.Segments) != len(p.Segments) {
			t.Fatalf("seed %d: another plan, %v", seed, err)
		}
		for k := range p.Segments {
			if again.Segments[k].Graph.String() != p.Segments[k].Graph.String() {
				t.Errorf("seed %d: segment %d differs from one call to the next", seed, k)
			}
		}
	}
	if counts[1] == 400 || len(counts) < 4 {
		t.Errorf("plans by number of segments: %v: the test shows little", counts)
	}
}

// TestMake checks the segments of a few graphs.
func TestMake(t *testing.T) {
	const head = "graph g\nx = input : f32[64,64]\nw = param : f32[64,64]\ns = state {init=0} : f32[64,64]\np = input : i32[]\n"
	for _, c := range []struct {
		name, text, want string
	}{
		{"the op alone",
			"a = matmul x, w : f32[64,64]\nb = neg a : f32[64,64]\nc = matmul b, w : f32[64,64]\nreturn c=c",
			"0: matmul | 1: neg | 0: matmul"},
		{"at the beginning", "b = neg x : f32[64,64]\nc = matmul b, w : f32[64,64]\nreturn c=c", "1: neg | 0: matmul"},
		{"what is light comes along between two",
			"a = neg x : f32[64,64]\nb = exp a : f32[64,64]\nc = neg b : f32[64,64]\nreturn c=c", "1: neg exp neg"},
		{"a product does not",
			"a = neg x : f32[64,64]\nb = matmul a, w : f32[64,64]\nc = neg b : f32[64,64]\nreturn c=c",
			"1: neg | 0: matmul | 1: neg"},
		{"nor what is light and not between two",
			"a = exp x : f32[64,64]\nb = neg a : f32[64,64]\nc = exp b : f32[64,64]\nreturn c=c",
			"0: exp | 1: neg | 0: exp"},
		{"views come along",
			"a = reshape x : f32[4096]\nb = neg a : f32[4096]\nc = reshape b : f32[64,64]\nd = neg c : f32[64,64]\nreturn d=d",
			"1: reshape neg reshape neg"},
		{"two of one kind, side by side",
			"a = neg x : f32[64,64]\nb = matmul x, w : f32[64,64]\nc = neg b : f32[64,64]\nd = add a, c : f32[64,64]\nreturn d=d",
			"0: matmul | 1: neg neg | 0: add"},
		{"an output that crosses", "a = matmul x, w : f32[64,64]\nb = neg a : f32[64,64]\nreturn a=a, b=b",
			"0: matmul | 1: neg"},
		{"a state stays",
			"a = neg x : f32[64,64]\nt = kv_append s, a, p {axis=0} : f32[64,64]\nb = exp t : f32[64,64]\nc = neg b : f32[64,64]\nreturn c=c",
			"1: neg | 0: kv_append exp | 1: neg"},
		{"a state that only changes", "a = neg x : f32[64,64]\nt = kv_append s, a, p {axis=0} : f32[64,64]\nreturn a=a",
			"1: neg | 0: kv_append"},
		{"op that reads a state", "a = neg s : f32[64,64]\nreturn a=a", "error: a: op neg reads or updates a state"},
		{"old value after an update",
			"a = exp s : f32[64,64]\nb = neg a : f32[64,64]\nt = kv_append s, b, p {axis=0} : f32[64,64]\nc = add s, t : f32[64,64]\nreturn c=c",
			"error: a state is read as it was before an update"},
	} {
		g, err := ir.Parse(head + c.text + "\n")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		g, err = g.Rebuild(nil)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := split.Make(g, lacking(op.NegDef))
		var parts []string
		if err != nil {
			parts = []string{"error: " + err.Error()}
		} else {
			for _, s := range plan.Segments {
				ops := []string{fmt.Sprint(s.Target) + ":"}
				for _, n := range s.Graph.Nodes {
					if len(n.In) > 0 {
						ops = append(ops, n.Op.Name)
					}
				}
				parts = append(parts, strings.Join(ops, " "))
			}
		}
		if got := strings.Join(parts, " | "); got != c.want && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestCounts checks that each segment counts the ops that backend 0 lacks, and the ops that were moved with them.
func TestCounts(t *testing.T) {
	g, err := ir.Parse(
		"graph g\nx = input : f32[4,8]\na = neg x : f32[4,8]\nb = exp a : f32[4,8]\nc = neg b : f32[4,8]\nreturn c=c\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := split.Make(g, lacking(op.NegDef))
	if err != nil || len(p.Segments) != 1 {
		t.Fatal(p, err)
	}
	s := p.Segments[0]
	if got := fmt.Sprint(s.Lacked, s.Moved); got != "[{neg 2}] [{exp 1}]" || !slices.Equal(p.Outputs, p.Outputs[:1]) {
		t.Error(got)
	}
}
