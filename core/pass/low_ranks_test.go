package pass_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestLowRanks checks that patterns that look at the last axes of values leave values alone that have no axes, few axes
// or empty ones. The graphs contain the parts of norms, rotary embeddings, activations and attention: sums of products,
// halves that are joined, means and softmaxes.
func TestLowRanks(t *testing.T) {
	shapes := [][]int64{{}, {1}, {0}, {2}, {4}, {1, 1}, {2, 4}, {0, 2}, {1, 2, 4}, {2, 1, 2}, {1, 2, 3, 2}}
	cpu := target.Builtin()[0]
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		g := ir.NewGraph("f")
		shape := shapes[r.IntN(len(shapes))]
		all := []*ir.Node{op.Input(g, "x", ir.TypeOf(dtype.F32, shape...)), op.Input(g, "y", ir.TypeOf(dtype.F32)),
			op.Input(g, "z", ir.TypeOf(dtype.F32, shape...))}
		for range 14 {
			a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
			all = append(all, lowRankNode(r, a, b))
		}
		last := all[len(all)-1]
		g.Return("r", op.Add(op.Mul(last, all[0]), op.Mul(all[2], last)))
		out, _, err := pass.Run(g, cpu, pass.Options{Verify: true})
		if err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, g)
		}
		inputs := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			inputs[n.Name] = interp.Random(r, n.Type, nil, ir.Range{Lo: -2, Hi: 2})
		}
		want, err := interp.Run(g, nil, inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := interp.Run(out, nil, inputs, nil)
		if err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, out)
		}
		for i, w := range want["r"].Floats {
			v := got["r"].Floats[i]
			if v != w && !(math.Abs(v-w) <= 1e-4*(1+math.Abs(w))) && !(math.IsNaN(v) && math.IsNaN(w)) {
				t.Fatalf("seed %d: element %d is %v; want %v\n%v\n%v", seed, i, v, w, g, out)
			}
		}
	}
}

// lowRankNode adds a node of a kind that patterns look for. b broadcasts to a, or the other way, or is left alone.
func lowRankNode(r *rand.Rand, a, b *ir.Node) *ir.Node {
	if !a.Type.Shape.Equal(b.Type.Shape) && a.Type.Rank() > 0 && b.Type.Rank() > 0 {
		b = a
	}
	axis := a.Type.Rank() - 1
	even := axis >= 0 && a.Type.Shape[axis].Const%2 == 0 && a.Type.Shape[axis].Const > 0
	half := func(n *ir.Node, second int) *ir.Node {
		d := int(n.Type.Shape[axis].Const) / 2
		return op.Narrow(n, axis, second*d, d)
	}
	switch k := r.IntN(11); {
	case k < 2:
		return op.Mul(a, b)
	case k < 4:
		return op.Add(a, b)
	case k == 4:
		return op.Sub(a, b)
	case k == 5:
		return op.Neg(a)
	case k == 6 && even:
		return op.Concat(axis, op.Neg(half(a, 1)), half(a, 0))
	case k == 7 && even:
		return op.Concat(axis, half(a, 1), half(a, 0))
	case k == 8 && axis >= 0 && a.Type.Shape[axis].Const > 0:
		return op.Sub(a, op.ReduceMean(a, true, axis))
	case k == 9 && axis >= 0 && a.Type.Shape[axis].Const > 0:
		return op.Softmax(a, axis)
	}
	return op.Mul(a, op.Sigmoid(a))
}
