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

// TestRandomBranches merges random sums of branches and compares their results with those of the branches.
func TestRandomBranches(t *testing.T) {
	fired, convs := 0, 0
	for seed := range uint64(200) {
		b := &branches{network: network{Rand: rand.New(rand.NewPCG(seed, 77)), g: &ir.Graph{Name: "main",
			Syms: ir.Syms{{Name: "B", Min: 1, Max: 3}}}}}
		text := b.graph().String()
		for _, all := range []bool{false, true} {
			g, err := ir.Parse(text)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			o := pass.Options{Params: weights(golden.Weights(g)), Verify: true}
			var out *ir.Graph
			var r *pass.Report
			if all {
				out, r, err = pass.Run(g, builtin(t, "cpu"), o)
			} else {
				out, r, err = pass.RunOne(g, builtin(t, "cpu"), "merge-convs", o)
			}
			if err == nil {
				err = golden.SameMeaning(g, rewritten(out, r))
			}
			if err != nil {
				t.Fatalf("seed %d, all passes %t: %v\n%s\n%s", seed, all, err, text, out)
			}
			if made := r.Fired()["merge-convs/branches"]; !all && made > 0 {
				fired++
				convs += count(g) - count(out)
			}
		}
	}
	if fired < 60 || convs < 100 {
		t.Errorf("%d networks were changed, by %d convolutions; want 60 and 100", fired, convs)
	}
}

// count returns the number of convolutions.
func count(g *ir.Graph) (n int) {
	for _, x := range g.Nodes {
		if x.Is(op.Conv1DDef, op.Conv2DDef, op.Conv3DDef) {
			n++
		}
	}
	return n
}

// branches makes sums of what is linear in an image.
type branches struct {
	network
	axes, groups, stride, dilation int
	c, made                        int64
	x                              *ir.Node
	at                             []int64 // kernels beyond 1 have this size or a smaller one, with the same middle
}

func (b *branches) graph() *ir.Graph {
	b.axes, b.c, b.made = 1+b.IntN(3), int64(1+b.IntN(4)), int64(1+b.IntN(4))
	b.groups, b.stride, b.dilation = 1, 1+b.IntN(5)/4, 1+b.IntN(4)/3
	if b.IntN(2) == 0 {
		b.made = b.c
	}
	if b.IntN(3) == 0 {
		b.groups = 1 + b.IntN(3)
		b.c, b.made = b.c*int64(b.groups), b.made*int64(b.groups)
	}
	shape := ir.Shape{ir.Static(int64(1 + b.IntN(2))), ir.Static(b.c)}
	if b.IntN(3) == 0 {
		shape[0] = ir.Named("B")
	}
	for range b.axes {
		shape = append(shape, ir.Static(int64(1+b.IntN(6))))
		b.at = append(b.at, []int64{1, 3, 3, 5}[b.IntN(4)])
	}
	b.x = op.Input(b.g, "x", ir.Type{DType: dtype.F32, Shape: shape})
	if b.IntN(4) == 0 {
		b.x = op.Relu(b.x)
	}
	y := b.value(3)
	for range b.IntN(3) { // a value that is read twice, and a branch of a branch
		y = op.Relu(op.Add(y, b.like(y)))
	}
	b.g.Return("y", y)
	if b.IntN(4) == 0 {
		b.g.Return("z", b.g.Nodes[len(b.g.Nodes)/2])
	}
	return b.g
}

// like returns a value of the type of y.
func (b *branches) like(y *ir.Node) *ir.Node {
	x, c := b.x, b.c
	defer func() { b.x, b.c = x, c }()
	b.x, b.c, b.stride = y, b.made, 1
	return b.value(1 + b.IntN(3))
}

// value returns a random branch.
func (b *branches) value(depth int) *ir.Node {
	if depth == 0 {
		return b.conv()
	}
	y := b.value(depth - 1)
	one := ir.Static(1)
	vector := ir.Shape{ir.Static(b.made)}
	for range b.axes {
		vector = append(vector, one)
	}
	switch b.IntN(8) {
	case 0, 1:
		return op.Add(y, b.value(depth-1))
	case 2:
		return op.Sub(b.value(depth-1), y)
	case 3:
		c := ir.Static(b.made)
		return op.BatchNorm(y, b.param(c), b.param(c), b.param(c), op.Const(b.g, 0.5, ir.Type{DType: dtype.F32,
			Shape: ir.Shape{c}}), 1e-3)
	case 4:
		half := op.Const(b.g, 0.5, ir.Type{DType: dtype.F32})
		return op.Mul(y, []*ir.Node{b.param(vector...), b.param(one), half}[b.IntN(3)])
	case 5:
		return op.Add(b.param(vector...), op.Sub(y, b.param(vector...)))
	case 6:
		if b.x.Type.Equal(y.Type) {
			return op.Add(y, b.x)
		}
	case 7:
		if b.x.Type.Equal(y.Type) {
			c := ir.Static(b.made)
			return op.Sub(op.BatchNorm(b.x, b.param(c), b.param(c), b.param(c), op.Const(b.g, 0.5,
				ir.Type{DType: dtype.F32, Shape: ir.Shape{c}}), 1e-3), y)
		}
	}
	return y
}

// conv returns a convolution of the image. Some kernels do not fit into each other, and some weights are inputs.
func (b *branches) conv() *ir.Node {
	a := op.ConvAttrs{Groups: b.groups, Layout: []string{op.NCW, op.NCHW, op.NCDHW}[b.axes-1]}
	w := ir.Shape{ir.Static(b.made), ir.Static(b.c / int64(b.groups))}
	for i := range b.axes {
		k := b.at[i]
		for k > 1 && b.IntN(2) == 0 {
			k -= 2
		}
		a.Stride, a.Dilation = append(a.Stride, b.stride), append(a.Dilation, b.dilation)
		a.Padding, w = append(a.Padding, int(k/2)*b.dilation), append(w, ir.Static(k))
	}
	weight := b.param(w...)
	if b.IntN(12) == 0 {
		b.params++
		weight = op.Input(b.g, fmt.Sprint("i", b.params), weight.Type)
	}
	var bias *ir.Node
	if b.IntN(2) == 0 {
		bias = b.param(ir.Static(b.made))
	}
	return b.g.Add([]*ir.OpDef{op.Conv1DDef, op.Conv2DDef, op.Conv3DDef}[b.axes-1], a, b.x, weight, bias)
}
