package backend

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

func init() {
	for _, k := range []struct{ op, takes string }{
		{"softmax_cross_entropy", "(f32, i32)"}, {"softmax_cross_entropy_backward", "(f32, i32, f32)"},
	} {
		register(kernel{op: k.op, takes: k.takes,
			scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
				return norm.CrossEntropyScratch(n.Graph.Syms.Largest(n.In[0].Type.Shape)[1])
			},
			prepare: func(*ir.Node) func(*call) error { return newCrossEntropy().run }})
	}
}

// crossEntropy runs one node. It lives as long as the program, so that runs allocate nothing.
type crossEntropy struct {
	args   norm.CrossEntropyArgs
	labels []int32
}

func newCrossEntropy() *crossEntropy {
	x := &crossEntropy{}
	x.args.Label = func(row int) int { return int(x.labels[row]) }
	return x
}

func (x *crossEntropy) run(c *call) error {
	g := &x.args
	x.labels = view[int32](c.in[1])
	g.X, g.Rows, g.N = f32(c.in[0]), c.in[0].Shape[0], c.in[0].Shape[1]
	for r, label := range x.labels {
		if label < 0 || int(label) >= g.N {
			return diag.New(code.Index, "", "label %d of row %d is out of range 0 to %d", label, r, g.N-1)
		}
	}
	if len(c.in) > 2 {
		g.DLoss, g.DX = f32(c.in[2]), f32(c.out)
	} else {
		g.Loss = f32(c.out)
	}
	norm.CrossEntropy(c.pool, *g)
	return nil
}
