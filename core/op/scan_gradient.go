package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// suffixRecurrence returns s of s_k = b_k + a_k*s_{k+1} along an axis, with s = 0 after the last element. Each round
// doubles the number of elements that are combined, so the number of rounds is the number of bits of the axis's size.
// It neither divides nor subtracts.
func suffixRecurrence(a, b *ir.Node, axis int) *ir.Node {
	most := int64(math.MaxInt64)
	if _, n := a.Graph.Syms.Bounds(a.Type.Shape[axis]); n < most {
		most = n
	}
	for by := int64(1); by < most; by *= 2 {
		next := ahead(b, axis, by)
		b = Add(b, Mul(a, next))
		if 2*by < most {
			a = Mul(a, ahead(a, axis, by))
		}
	}
	return b
}

// ahead returns the elements of x that lie by places later on an axis, and 0 beyond its end.
func ahead(x *ir.Node, axis int, by int64) *ir.Node {
	g, n := x.Graph, x.Type.Shape[axis]
	if n.IsStatic() {
		if by >= n.Const {
			return Const(g, 0, x.Type)
		}
		before, after := make([]int, x.Type.Rank()), make([]int, x.Type.Rank())
		after[axis] = int(by)
		return Pad(Narrow(x, axis, int(by), int(n.Const-by)), before, after, 0)
	}
	at := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{n}})
	last := ReduceMax(at, false, 0)
	at = Add(at, number(float64(by), at))
	wide := make(ir.Shape, x.Type.Rank())
	for i := range wide {
		wide[i] = ir.Static(1)
	}
	wide[axis] = n
	return Where(Reshape(Le(at, last), wide), Gather(x, Min(at, last), axis), number(0, x))
}

// forwards calls f with values that are scanned from the first element on, and turns its result back.
func (a ScanAttrs) forwards(x, dy *ir.Node, f func(x, dy *ir.Node) *ir.Node) *ir.Node {
	if !a.Reverse {
		return f(x, dy)
	}
	return Flip(f(Flip(x, a.Axis), Flip(dy, a.Axis)), a.Axis)
}

// The gradient of x_k is the product of the elements before it times s_k, the sum over i from k on of dy_i times the
// elements between k and i: s_k = dy_k + x_{k+1} s_{k+1}. That holds for elements of 0, too.
var _ = gradientUnary(CumprodDef, func(x, _ *ir.Node, a ScanAttrs, dy *ir.Node) *ir.Node {
	return a.forwards(x, dy, func(x, dy *ir.Node) *ir.Node {
		if a.Exclusive {
			dy = ahead(dy, a.Axis, 1)
		}
		before := Cumprod(x, ScanAttrs{Axis: a.Axis, Exclusive: true})
		return Mul(before, suffixRecurrence(ahead(x, a.Axis, 1), dy, a.Axis))
	})
})

// An element that is at least as large as those before it is the maximum up to the next such element. It gets the
// gradients in between. Of equal elements the last one gets them, as in PyTorch.
var _ = gradientUnary(CummaxDef, func(x, _ *ir.Node, a ScanAttrs, dy *ir.Node) *ir.Node {
	return a.forwards(x, dy, func(x, dy *ir.Node) *ir.Node {
		if a.Exclusive {
			dy = ahead(dy, a.Axis, 1)
		}
		largest := Or(Ge(x, Cummax(x, ScanAttrs{Axis: a.Axis, Exclusive: true})), Ne(x, x))
		zero, one := number(0, dy), number(1, dy)
		// ahead also gives 0 for the element after the last one, where it does not matter
		more := ahead(Where(largest, zero, one), a.Axis, 1)
		return Where(largest, suffixRecurrence(more, dy, a.Axis), zero)
	})
})
