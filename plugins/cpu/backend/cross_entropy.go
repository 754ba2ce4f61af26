package backend

import (
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

func init() {
	for _, k := range []struct{ op, takes string }{
		{"softmax_cross_entropy", "(f32, i32|i64|u32)"},
		{"softmax_cross_entropy_backward", "(f32, i32|i64|u32, f32)"},
	} {
		register(kernel{op: k.op, takes: k.takes,
			scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
				x := n.Graph.Syms.Largest(n.In[0].Type.Shape)
				r := norm.CrossEntropyScratch(x[1])
				r.Other += pool.SizeOf[int](x[0])
				return r
			},
			prepare: func(*ir.Node) func(*call) error { return newCrossEntropy().run }})
	}
}

// crossEntropy runs one node. It lives as long as the program, so that runs allocate nothing.
type crossEntropy struct {
	args   norm.CrossEntropyArgs
	labels []int
}

func appendInts[T int32 | int64 | uint32](dst []int, src []T) []int {
	for _, v := range src {
		dst = append(dst, int(v))
	}
	return dst
}

func newCrossEntropy() *crossEntropy {
	x := &crossEntropy{}
	x.args.Label = func(row int) int { return x.labels[row] }
	return x
}

func (x *crossEntropy) run(c *call) error {
	g := &x.args
	switch labels := c.in[1]; labels.DType {
	case dtype.I32:
		x.labels = appendInts(x.labels[:0], view[int32](labels))
	case dtype.I64:
		x.labels = appendInts(x.labels[:0], view[int64](labels))
	default:
		x.labels = appendInts(x.labels[:0], view[uint32](labels))
	}
	g.X, g.Rows, g.N = f32(c.in[0]), c.in[0].Shape[0], c.in[0].Shape[1]
	for r, label := range x.labels {
		if label < 0 || label >= g.N {
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
