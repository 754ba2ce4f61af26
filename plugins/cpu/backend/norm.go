package backend

import (
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// takesFloats is the rule of kernels whose operands all have the same float type.
const takesFloats = "(f32|f64|f16|bf16...)"

// lastNorm describes an op that normalises the last axis.
type lastNorm struct {
	op               string
	eps              func(attrs any) float64
	center, residual bool // it subtracts the mean; operand 1 is added to x first
}

func init() {
	for _, k := range []lastNorm{
		{"layer_norm", func(a any) float64 { return a.(op.LayerNormAttrs).Eps }, true, false},
		{"rms_norm", func(a any) float64 { return a.(op.RmsNormAttrs).Eps }, false, false},
		{"fused_residual_layer_norm", func(a any) float64 { return a.(op.FusedResidualLayerNormAttrs).Eps }, true,
			true},
		{"fused_residual_rms_norm", func(a any) float64 { return a.(op.FusedResidualRmsNormAttrs).Eps }, false, true},
	} {
		d := kernel{op: k.op, takes: takesFloats, scratch: normScratch, run: k.run}
		if k.op == "layer_norm" {
			d.makesBlocked = normMakesBlocked
		}
		register(d)
	}
}

func (k lastNorm) run(c *call) error {
	rows, n := rowsOf(c.out)
	eps, x, affine := k.eps(c.node.Attrs), c.in[0], c.in[1:]
	var residual stored.Values
	if k.residual {
		residual, affine = weights(c.in[1]), c.in[2:]
	}
	switch {
	case x.DType == dtype.F64:
		g := norm.F64Args{Dst: view[float64](c.out), X: view[float64](x), Gamma: view[float64](affine[0]),
			Beta: view[float64](affine[1]),
			Rows: rows, N: n, Groups: 1, Area: 1, Eps: eps, Center: k.center}
		if k.residual {
			g.Residual = view[float64](c.in[1])
		}
		norm.NormalizeF64(c.pool, g)
	case c.outBlocked:
		norm.LayerNormBlocked(c.pool, f32(c.out), f32(x), f32(affine[0]), f32(affine[1]), rows, n, float32(eps))
	default:
		norm.Normalize(
			c.pool, norm.Args{Dst: weights(c.out), X: weights(x), Residual: residual, Gamma: weights(affine[0]),
				Beta: weights(affine[1]),
				N:    n, Eps: float32(eps), Center: k.center}, rows)
	}
	return nil
}

func normMakesBlocked(c *call) bool {
	rows, n := rowsOf(c.out)
	return c.out.DType == dtype.F32 && fitsBlocked(rows, n)
}

func normScratch(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	shape := n.Graph.Syms.Largest(n.Type.Shape)
	width := shape[len(shape)-1]
	return norm.Scratch(n.Type.DType, width, width)
}

var _ = register(
	kernel{op: "group_norm", takes: takesFloats,
		scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			shape := n.Graph.Syms.Largest(n.Type.Shape)
			return norm.Scratch(n.Type.DType, tensor.Numel(shape[1:])/n.Attrs.(op.GroupNormAttrs).Groups,
				shape[1])
		}, run: func(c *call) error {
			a, shape := c.node.Attrs.(op.GroupNormAttrs), c.out.Shape
			batch, channels, area := shape[0], shape[1], tensor.Numel(shape[2:])
			if tensor.Numel(shape) == 0 {
				return nil
			}
			n := channels / a.Groups * area
			if c.out.DType == dtype.F64 {
				norm.NormalizeF64(
					c.pool, norm.F64Args{Dst: view[float64](c.out), X: view[float64](c.in[0]),
						Gamma: view[float64](c.in[1]), Beta: view[float64](c.in[2]),
						Rows: batch * a.Groups, N: n, Groups: a.Groups, Area: area, Eps: a.Eps, Center: true})
				return nil
			}
			norm.Normalize(
				c.pool, norm.Args{Dst: weights(c.out), X: weights(c.in[0]), Gamma: weights(c.in[1]),
					Beta: weights(c.in[2]),
					N:    n, Groups: a.Groups, Area: area, Eps: float32(a.Eps), Center: true}, batch*a.Groups)
			return nil
		}})

var _ = register(kernel{op: "batch_norm", takes: "(f32...)",
	scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
		shape := n.Graph.Syms.Largest(n.Type.Shape)
		r := norm.BatchNormScratch(shape[1], tensor.Numel(shape[2:]))
		if keepsBatchNorm(n) {
			r.Packed = norm.BatchNormKeptSize(shape[1], tensor.Numel(shape[2:]))
		}
		return r
	},
	prepare: func(n *ir.Node) func(*call) error {
		g := norm.BatchNormArgs{Eps: float32(n.Attrs.(op.BatchNormAttrs).Eps)}
		if keepsBatchNorm(n) {
			g.Kept = new(norm.BatchNormKept)
		}
		return always(func(c *call) {
			shape := c.out.Shape
			g.Batch, g.Channels, g.Area = shape[0], shape[1], tensor.Numel(shape[2:])
			g.Dst, g.X, g.Gamma, g.Beta = f32(c.out), f32(c.in[0]), f32(c.in[1]), f32(c.in[2])
			g.Mean, g.Variance = f32(c.in[3]), f32(c.in[4])
			if g.Batch*g.Area > 0 {
				norm.BatchNorm(c.pool, &g)
			}
		})
	}})

// keepsBatchNorm reports whether the operands of a batch norm but the first are the same in every run.
func keepsBatchNorm(n *ir.Node) bool {
	return !slices.ContainsFunc(n.In[1:], func(x *ir.Node) bool { return param(x) == nil })
}

var (
	_ = register(softmax("softmax", false))
	_ = register(softmax("log_softmax", true))
)

func softmax(name string, log bool) kernel {
	return kernel{op: name, takes: takesFloats,
		scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			shape, axis := n.Graph.Syms.Largest(n.Type.Shape), positive(n.Attrs.(op.SoftmaxAttrs).Axis, n.Type.Rank())
			_, k, inner := around(shape, axis)
			x := weights(tensor.Tensor{DType: n.Type.DType})
			one := norm.SoftmaxArgs{X: x, N: k, Inner: 1}.ScratchSize()
			return one.With(norm.SoftmaxArgs{X: x, N: k, Inner: max(inner, 1)}.ScratchSize())
		}, run: func(c *call) error {
			outer, n, inner := around(c.out.Shape, positive(c.node.Attrs.(op.SoftmaxAttrs).Axis, len(c.out.Shape)))
			if c.out.DType == dtype.F64 {
				norm.SoftmaxF64(c.pool, view[float64](c.out), view[float64](c.in[0]), outer, n, inner, log)
				return nil
			}
			norm.Softmax(
				c.pool, norm.SoftmaxArgs{Dst: weights(c.out), X: weights(c.in[0]), Outer: outer, N: n, Inner: inner,
					Log: log})
			return nil
		}}
}

// rowsOf returns the shape of t as a matrix: n is the length of the last axis.
func rowsOf(t tensor.Tensor) (rows, n int) {
	n = t.Shape[len(t.Shape)-1]
	return tensor.Numel(t.Shape[:len(t.Shape)-1]), n
}

// positive resolves an axis that may be negative, which counts from the end.
func positive(axis, rank int) int {
	if axis < 0 {
		return axis + rank
	}
	return axis
}

// around views a shape as [outer, n, inner], where n is the length of an axis.
func around(shape []int, axis int) (outer, n, inner int) {
	return tensor.Numel(shape[:axis]), shape[axis], tensor.Numel(shape[axis+1:])
}

var _ = register(
	kernel{op: "l2_norm", takes: "(f32|f16|bf16) if axes = last",
		scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			shape := n.Graph.Syms.Largest(n.Type.Shape)
			return norm.L2NormScratch(shape[len(shape)-1])
		}, run: func(c *call) error {
			rows, n := rowsOf(c.out)
			norm.L2Norm(c.pool, weights(c.out), weights(c.in[0]), rows, n,
				float32(c.node.Attrs.(op.L2NormAttrs).Eps))
			return nil
		}})
