package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// This file has the functions that gradient rules share. A rule is in the file of its op's definition; see
// ir.GradientRule.

// gradient registers the rule of an op with one result, for rules that cover every node. a has n's attributes.
func gradient[A any](def *ir.OpDef, rule func(n *ir.Node, a A, dy *ir.Node) []*ir.Node) struct{} {
	return ir.Gradient(def, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
		return rule(n, n.Attrs.(A), dy[0]), nil
	})
}

// gradientUnary registers the rule of an elementwise op of one operand. f returns the gradient of x, given x, the
// result y, the attributes and the gradient dy of y. For f16 and bf16 it computes in f32, so that it rounds once.
func gradientUnary[A any](def *ir.OpDef, f func(x, y *ir.Node, a A, dy *ir.Node) *ir.Node) struct{} {
	return gradient(def, func(n *ir.Node, a A, dy *ir.Node) []*ir.Node {
		return narrowed([]*ir.Node{f(widened(n.In[0]), widened(n), a, widened(dy))}, n.In)
	})
}

// gradientBinary registers the rule of an elementwise op of two operands that are broadcast. f returns the gradients of
// both in the shape of the result; nil is 0. For f16 and bf16 it computes in f32, so that it rounds once.
func gradientBinary(def *ir.OpDef, f func(a, b, y, dy *ir.Node) (da, db *ir.Node)) struct{} {
	return gradient(def, func(n *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node {
		da, db := f(widened(n.In[0]), widened(n.In[1]), widened(n), widened(dy))
		return narrowed([]*ir.Node{sumTo(da, n.In[0].Type.Shape), sumTo(db, n.In[1].Type.Shape)}, n.In)
	})
}

// allWidened returns operands in f32 that are f16 or bf16. Absent ones stay absent.
func allWidened(x ...*ir.Node) []*ir.Node {
	wide := make([]*ir.Node, len(x))
	for i, v := range x {
		if v != nil {
			wide[i] = widened(v)
		}
	}
	return wide
}

// widened returns a value in f32 if it is f16 or bf16.
func widened(x *ir.Node) *ir.Node {
	if d := x.Type.DType; d == dtype.F16 || d == dtype.BF16 {
		return Cast(x, dtype.F32)
	}
	return x
}

// narrowed returns gradients in the element types of the operands that they belong to.
func narrowed(dx, operands []*ir.Node) []*ir.Node {
	for k, y := range dx {
		if y != nil {
			dx[k] = castTo(y, operands[k].Type.DType)
		}
	}
	return dx
}

// castTo returns x in another element type.
func castTo(x *ir.Node, d dtype.DType) *ir.Node {
	if x.Type.DType == d {
		return x
	}
	return Cast(x, d)
}

// sumTo sums dy, the gradient of a value that was broadcast from the given shape, to that shape. dy may be nil. A dim
// with a symbol is never repeated, so the axes to sum are known.
func sumTo(dy *ir.Node, shape ir.Shape) *ir.Node {
	if dy == nil || dy.Type.Shape.Equal(shape) {
		return dy
	}
	lead := dy.Type.Rank() - len(shape)
	var axes []int
	for i, d := range dy.Type.Shape {
		if i < lead || shape[i-lead].Is(1) && !d.Is(1) {
			axes = append(axes, i)
		}
	}
	return Reshape(ReduceSum(dy, false, axes...), shape)
}

// broadcastTo repeats a number, or a value with axes of size 1, to a shape.
func broadcastTo(x *ir.Node, shape ir.Shape) *ir.Node {
	if x.Type.Shape.Equal(shape) {
		return x
	}
	return Expand(x, shape)
}

// plusConst, timesConst, ... compute with a number.
func plusConst(x *ir.Node, c float64) *ir.Node  { return Add(x, number(c, x)) }
func timesConst(x *ir.Node, c float64) *ir.Node { return Mul(x, number(c, x)) }

// constMinus adds c - x.
func constMinus(c float64, x *ir.Node) *ir.Node { return Sub(number(c, x), x) }

// gradientZero registers the rule of an op of floats whose derivative is 0.
func gradientZero(def *ir.OpDef) struct{} {
	return ir.Gradient(def, func(*ir.Node, []*ir.Node) ([]*ir.Node, error) { return nil, nil })
}

// extremeGradient returns the gradient of operand a of max or min. wins is where a alone is the result.
func extremeGradient(wins, a, b, dy *ir.Node) *ir.Node {
	return Where(wins, dy, Where(Eq(a, b), timesConst(dy, 0.5), number(0, dy)))
}

// cut returns size elements of an axis of x, from start on. Either may be known only at run time.
func cut(x *ir.Node, axis int, start, size ir.Dim) *ir.Node {
	if start.IsStatic() && size.IsStatic() {
		return Narrow(x, axis, int(start.Const), int(size.Const))
	}
	index := Iota(x.Graph, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{size}})
	if !start.Is(0) {
		index = Add(index, sizeOf(x.Graph, start))
	}
	return Gather(x, index, axis)
}

// sizeOf returns a size that may be known only at run time, as i64.
func sizeOf(g *ir.Graph, d ir.Dim) *ir.Node {
	one := ir.Type{DType: dtype.I64, Shape: ir.Shape{d}}
	if d.IsStatic() {
		return Const(g, float64(d.Const), ir.TypeOf(dtype.I64))
	}
	return ReduceSum(Const(g, 1, one), false, 0)
}

// surround puts x into an axis of another size, from start on, with zeros around it.
func surround(x *ir.Node, axis, start int, size ir.Dim) *ir.Node {
	length := x.Type.Shape[axis]
	rest, _ := size.Sub(length)
	rest, _ = rest.Sub(ir.Static(int64(start)))
	if rest.IsStatic() {
		before, after := make([]int, x.Type.Rank()), make([]int, x.Type.Rank())
		before[axis], after[axis] = start, int(rest.Const)
		return Pad(x, before, after, 0)
	}
	zeros := func(d ir.Dim) *ir.Node {
		t := ir.Type{DType: x.Type.DType, Shape: append(ir.Shape{}, x.Type.Shape...)}
		t.Shape[axis] = d
		return Const(x.Graph, 0, t)
	}
	parts := []*ir.Node{x, zeros(rest)}
	if start > 0 {
		parts = append([]*ir.Node{zeros(ir.Static(int64(start)))}, parts...)
	}
	return Concat(axis, parts...)
}
