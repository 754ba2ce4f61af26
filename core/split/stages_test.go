package split_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/split"
	"github.com/rlx-go/rlx/core/tensor"
)

// layered returns a method of a model with layers: products with weights of their own, some of which write their result
// to a state of the layer and read it. Methods of the same model have the same layers; each leaves some ops out.
func layered(name string, model uint64, layers int, r *rand.Rand) *ir.Graph {
	same := rand.New(rand.NewPCG(model, 3))
	g := ir.NewGraph(name, ir.Sym{Name: "N", Min: 1, Max: 4})
	typ := ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(32)}}
	x, pos := op.Input(g, "x", typ), op.Input(g, "pos", ir.TypeOf(dtype.I32))
	values := []*ir.Node{x, op.Exp(op.Neg(x))}
	h := x
	for i := range layers {
		w := op.Param(g, fmt.Sprint("w", i), ir.TypeOf(dtype.F32, 32, 32))
		keeps := same.IntN(3) > 0
		if keeps {
			s := op.State(g, fmt.Sprint("s", i), ir.TypeOf(dtype.F32, 8, 32), 1)
			s = op.KVAppend(s, h, pos, 0)
			h = op.Add(h, op.Narrow(s, 0, 0, 1))
		}
		h = op.MatMul(h, w, op.MatMulAttrs{})
		if r.IntN(2) == 0 {
			h = op.Add(h, values[r.IntN(len(values))])
		}
		if r.IntN(3) == 0 {
			h = op.Neg(h)
		}
		values = append(values, h)
	}
	g.Return("y", h)
	if r.IntN(2) == 0 {
		g.Return("z", values[r.IntN(len(values))])
	}
	g, err := g.Rebuild(nil)
	if err != nil {
		panic(err)
	}
	return g
}

// TestStages checks that the stages of two methods of a model, in turn, compute the same as the methods over several
// runs, that each is a segment, and that no state is in two of them.
func TestStages(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 11))
		layers, n := 3+r.IntN(6), 2+r.IntN(2)
		graphs := []*ir.Graph{layered("a", seed, layers, r), layered("b", seed, layers, r)}
		plans, err := split.Stages(graphs, n)
		if err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, graphs[0])
		}
		weights, home := map[string]*tensor.Array{}, map[string]int{}
		for i, g := range graphs {
			for _, x := range g.Params() {
				weights[x.Name] = interp.Random(rand.New(rand.NewPCG(1, 1)), x.Type, nil, ir.Range{Lo: -.2, Hi: .2})
			}
			if plans[i] == nil || len(plans[i].Segments) != n {
				t.Fatalf("seed %d: %v; want %d segments\n%v", seed, plans[i], n, g)
			}
			most, all := 0, 0
			for k, s := range plans[i].Segments {
				for _, x := range s.Graph.States() {
					if old, ok := home[x.Name]; ok && old != k {
						t.Fatalf("seed %d: state %s in stages %d and %d", seed, x.Name, old, k)
					}
					home[x.Name] = k
				}
				products := 0
				for _, x := range s.Graph.Nodes {
					if x.Is(op.MatMulDef) {
						products++
					}
				}
				most, all = max(most, products), all+products
			}
			if all != layers || most > (layers+n-1)/n+1 {
				t.Errorf("seed %d: a stage has %d of %d products, of %d\n%v", seed, most, all, layers, g)
			}
		}
		params := func(name string) (*tensor.Array, error) { return weights[name], nil }
		one, two := map[string]*tensor.Array{}, map[string]*tensor.Array{}
		for k := range 3 {
			g, p := graphs[k%2], plans[k%2]
			syms := map[string]int64{"N": 1 + r.Int64N(4)}
			in := map[string]*tensor.Array{"pos": tensor.NewArray(dtype.I32)}
			in["pos"].Ints[0] = r.Int64N(4)
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
	}
}

// TestStagesBalance checks where methods are cut: where the work is about equal, and near that where the least passes.
func TestStagesBalance(t *testing.T) {
	const head = "graph g\nx = input : f32[4,64]\nw = param : f32[64,64]\nv = param : f32[64,64]\nu = param : f32[64,8]\nd = param : f32[8,64]\n"
	for _, c := range []struct {
		name, text string
		n          int
		want       string
	}{
		{"the middle", "a = matmul x, w : f32[4,64]\nb = exp a : f32[4,64]\nc = matmul b, v : f32[4,64]\nreturn c=c", 2,
			"matmul exp | matmul"},
		{"where little passes",
			"a = matmul x, w : f32[4,64]\nb = matmul a, u : f32[4,8]\nc = matmul b, d : f32[4,64]\ne = matmul c, v : f32[4,64]\nreturn e=e",
			2, "matmul matmul | matmul matmul"},
		{"too few products", "a = matmul x, w : f32[4,64]\nb = exp a : f32[4,64]\nreturn b=b", 2,
			"error: no method has 2 steps"},
		{"a state that is read at both ends",
			"s = state {init=0} : f32[64,64]\np = input : i32[]\na = matmul s, w : f32[64,64]\nb = matmul a, v : f32[64,64]\nt = kv_append s, b, p {axis=0} : f32[64,64]\nc = matmul t, v : f32[64,64]\nreturn c=c",
			2, "error: g: keeps states, and has too little work for 2 stages"},
	} {
		g, err := ir.Parse(head + c.text + "\n")
		if err == nil {
			g, err = g.Rebuild(nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		plans, err := split.Stages([]*ir.Graph{g}, c.n)
		var parts []string
		if err != nil {
			parts = []string{"error: " + err.Error()}
		} else {
			for _, s := range plans[0].Segments {
				var ops []string
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
