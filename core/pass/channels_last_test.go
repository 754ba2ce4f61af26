package pass_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/internal/golden"
)

// TestRandomChannelsLast turns random networks of convolutions and compares their results with those of the networks
// as they were, after the pass alone and after all passes.
func TestRandomChannelsLast(t *testing.T) {
	turned := 0
	for seed := range uint64(150) {
		text := randomNetwork(seed).String()
		for _, all := range []bool{false, true} {
			g, err := ir.Parse(text)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			to := *builtin(t, "cpu")
			to.ChannelsLast = 1 + int(seed%3)
			o := pass.Options{Params: weights(golden.Weights(g)), Verify: true}
			var out *ir.Graph
			var r *pass.Report
			if all {
				out, r, err = pass.Run(g, &to, o)
			} else {
				out, r, err = pass.RunOne(g, &to, "channels-last", o)
			}
			if err == nil {
				err = golden.SameMeaning(g, rewritten(out, r))
			}
			if err != nil {
				t.Fatalf("seed %d, all passes %t: %v\n%s\n%s", seed, all, err, text, out)
			}
			turned += r.Fired()["channels-last/turn"]
		}
	}
	if turned < 300 {
		t.Errorf("%d convolutions were turned; want 1 for each network", turned)
	}
}

// network adds random nodes to a graph.
type network struct {
	*rand.Rand
	g      *ir.Graph
	values []*ir.Node // of rank 4
	params int
}

func randomNetwork(seed uint64) *ir.Graph {
	g := &ir.Graph{Name: "main", Syms: ir.Syms{{Name: "B", Min: 1, Max: 3}}}
	n := &network{Rand: rand.New(rand.NewPCG(seed, 12)), g: g}
	batch := ir.Static(int64(1 + n.IntN(2)))
	if n.IntN(3) == 0 {
		batch = ir.Named("B")
	}
	shape := ir.Shape{batch, ir.Static(int64(1 + n.IntN(6))), ir.Static(int64(3 + n.IntN(5))),
		ir.Static(int64(3 + n.IntN(5)))}
	n.values = append(n.values, op.Input(g, "x", ir.Type{DType: dtype.F32, Shape: shape}))
	for range 3 + n.IntN(15) {
		before := len(g.Nodes)
		if y := n.step(); y != nil && g.Err() == nil && y.Type.Rank() == 4 {
			n.values = append(n.values, y)
		} else if g.Err() != nil {
			panic(fmt.Sprint(g.Err(), g.Nodes[before:]))
		}
	}
	last := n.values[len(n.values)-1]
	g.Return("y", last)
	g.Return("z", n.values[n.IntN(len(n.values))])
	g.Return("m", op.ReduceMean(last, false, 2, 3))
	return g
}

// param adds a weight.
func (n *network) param(dims ...ir.Dim) *ir.Node {
	n.params++
	return op.Param(n.g, fmt.Sprint("w", n.params), ir.Type{DType: dtype.F32, Shape: dims})
}

// step adds a random op on a random value, mostly a late one.
func (n *network) step() *ir.Node {
	x := n.values[len(n.values)-1-min(n.IntN(len(n.values)), n.IntN(len(n.values)))]
	one, s := ir.Static(1), x.Type.Shape
	c := s[1]
	switch n.IntN(20) {
	case 0, 1, 2, 3, 4:
		return n.conv(x)
	case 5:
		return op.Relu(x)
	case 6:
		return op.Pool(x, op.PoolAttrs{Kind: []string{"max", "mean"}[n.IntN(2)], Kernel: []int{1, 2},
			Stride: []int{1, 1}, Padding: []int{0, 1}, Layout: op.NCHW})
	case 7:
		other := n.values[n.IntN(len(n.values))]
		if other.Type.Shape.Equal(s) {
			return op.Add(x, other)
		}
		return op.Mul(x, n.param(one, c, one, one))
	case 8:
		shapes := []ir.Shape{{c, one, one}, {s[3]}, {s[2], s[3]}, {one, one, s[2], one}, {c, s[2], s[3]}, {one, c, s[2], s[3]}}
		return op.Sub(x, n.param(shapes[n.IntN(len(shapes))]...))
	case 9:
		return op.Mul(op.Sigmoid(op.ReduceMean(x, true, 2, 3)), x)
	case 10:
		return op.Concat(1, x, op.Relu(x))
	case 11:
		if c.Const > 1 {
			return op.Narrow(x, 1, 1, int(c.Const)-1)
		}
	case 12:
		return op.Pad(x, []int{0, n.IntN(2), 0, 1}, []int{0, 0, n.IntN(2), 0}, 0.5)
	case 13:
		return op.Softmax(x, 1+n.IntN(3))
	case 14:
		p := []([]int){{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}, {0, 2, 1, 3}}[n.IntN(4)]
		return op.Transpose(x, p...)
	case 15:
		return n.shuffle(x)
	case 16:
		return op.BatchNorm(x, n.param(c), n.param(c), n.param(c), op.Const(n.g, 0.5, ir.Type{DType: dtype.F32,
			Shape: ir.Shape{c}}), 1e-3)
	case 17:
		t := op.Transpose(x, 0, 2, 3, 1)
		return op.Transpose(op.MatMul(t, n.param(c, ir.Static(int64(1+n.IntN(5)))), op.MatMulAttrs{}), 0, 3, 1, 2)
	case 18:
		area, _ := s[2].Mul(s[3])
		t := op.Reshape(x, ir.Shape{s[0], c, area})
		return op.Reshape(op.Relu(op.Transpose(op.Transpose(t, 0, 2, 1), 0, 2, 1)), s)
	case 19:
		y := op.ReduceMax(x, n.IntN(2) == 0, 1+n.IntN(3))
		if y.Type.Rank() == 4 {
			return op.Sub(x, y)
		}
	}
	return nil
}

func (n *network) conv(x *ir.Node) *ir.Node {
	c := x.Type.Shape[1]
	cout, groups := int64(1+n.IntN(6)), 1
	in := c
	if n.IntN(3) == 0 {
		groups, in, cout = int(c.Const), ir.Static(1), c.Const*int64(1+n.IntN(2))
	}
	k := []int64{1, 3}[n.IntN(2)]
	a := op.ConvAttrs{Stride: []int{1, 1}, Padding: []int{int(k / 2), int(k / 2)}, Dilation: []int{1, 1},
		Groups: groups, Layout: op.NCHW}
	var bias *ir.Node
	if n.IntN(2) == 0 {
		bias = n.param(ir.Static(cout))
	}
	return op.Conv2D(x, n.param(ir.Static(cout), in, ir.Static(k), ir.Static(k)), bias, a)
}

// shuffle exchanges two parts of the channels.
func (n *network) shuffle(x *ir.Node) *ir.Node {
	s := x.Type.Shape
	if s[1].Const%2 != 0 {
		return nil
	}
	t := op.Reshape(x, ir.Shape{s[0], ir.Static(2), ir.Static(s[1].Const / 2), s[2], s[3]})
	return op.Reshape(op.Transpose(t, 0, 2, 1, 3, 4), s)
}
