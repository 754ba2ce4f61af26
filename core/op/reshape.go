package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ReshapeDef gives a tensor another shape with the same elements.
var ReshapeDef = ir.Define(ir.Def[NoAttrs]{
	Name: "reshape",
	Doc: "The elements of x in row-major order, read with the declared shape, which has the same number of " +
		"elements. Always a view. Where the numbers of elements are different expressions of symbols, the " +
		"reshape requires that they are equal: sizes for which they are not are an error before the run.",
	Operands: "x", Declared: true,
	View:       func(NoAttrs, ir.Type, ir.Type) (int64, bool) { return 0, true },
	AlwaysView: true,
	Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
		x, y := s.In[0], s.Declared
		if y.DType != x.DType {
			return ir.Type{}, fmt.Errorf("declared type is %v, x is %v; want equal element types", y, x)
		}
		n, m, ok := counts(x.Shape, y.Shape)
		if !ok {
			return ir.Type{}, fmt.Errorf("%v to %v: the number of elements is beyond the limits of a dim", x, y)
		}
		if n != m && !s.Syms.MayBeEqual(n, m) {
			return ir.Type{}, fmt.Errorf("%v to %v does not keep the number of elements", x, y)
		}
		return y, nil
	},
	Requires: func(_ NoAttrs, in []ir.Type, out ir.Type) []ir.Equality {
		n, m, _ := counts(in[0].Shape, out.Shape)
		e, _ := ir.Equate(n, m)
		if e.A == e.B {
			return nil
		}
		return []ir.Equality{e}
	},
	Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
		copyArray(out, in[0])
		return nil
	},
	FLOPs: noFLOPs[NoAttrs],
	Tol:   exact[NoAttrs],
	Cases: func() []ir.Case[NoAttrs] {
		return []ir.Case[NoAttrs]{
			{In: []ir.Type{f32(6, 4)}, Out: f32(2, 12)}, {In: []ir.Type{f32()}, Out: f32(1, 1)},
			{In: []ir.Type{f32(0, 3)}, Out: f32(5, 0)},
			{In: []ir.Type{f16(3, 5)}, Out: f16(15)}, {In: []ir.Type{i64(4)}, Out: i64(2, 2)},
			{In: []ir.Type{bools(3)}, Out: bools(3, 1)},
		}
	},
})

// counts returns the numbers of elements of two shapes. If they are not the same expression, it leaves out the dims
// that both shapes have: for [N,S] and [M,S], N and M must be equal even if S is 0. ok is false if a number, or their
// difference, exceeds the limits of a dim.
func counts(x, y ir.Shape) (n, m ir.Dim, ok bool) {
	n, ok = x.Numel()
	m, ok2 := y.Numel()
	if ok && ok2 && n == m {
		return n, m, true
	}
	x, y = slices.Clone(x), slices.Clone(y)
	for i := 0; i < len(x); {
		if k := slices.Index(y, x[i]); k >= 0 {
			x, y = slices.Delete(x, i, i+1), slices.Delete(y, k, k+1)
		} else {
			i++
		}
	}
	n, ok = x.Numel()
	m, ok2 = y.Numel()
	_, ok3 := n.Sub(m)
	return n, m, ok && ok2 && ok3
}

// Reshape adds a view of x with another shape and the same number of elements. One dim may be ir.Static(-1), which
// stands for the number of elements divided by the other dims. If that leaves a remainder for some sizes, runs must not
// have these sizes.
func Reshape(x *ir.Node, shape ir.Shape) *ir.Node {
	known, hole := ir.Static(1), -1
	for i, d := range shape {
		if d.Is(-1) && hole < 0 {
			hole = i
		} else {
			known, _ = known.Mul(d)
		}
	}
	if n, ok := x.Type.Shape.Numel(); hole >= 0 && ok {
		d, ok := n.Div(known)
		if !ok && known.IsStatic() {
			d, ok = n.FloorDiv(known.Const)
		}
		if ok {
			shape = slices.Clone(shape)
			shape[hole] = d
		}
	}
	return x.Graph.AddDeclared(ReshapeDef, NoAttrs{}, ir.Type{DType: x.Type.DType, Shape: shape}, x)
}

func copyArray(out, in *tensor.Array) {
	copy(out.Floats, in.Floats)
	copy(out.Ints, in.Ints)
	copy(out.Bytes, in.Bytes)
}

// take sets out[i] = in[j]. It is the inner step of ops that move values.
func take(out *tensor.Array, i int, in *tensor.Array, j int) {
	if out.Floats != nil {
		out.Floats[i] = in.Floats[j]
	} else {
		out.Ints[i] = in.Ints[j]
	}
}

// elementTypes returns one element type of each size. Kernels that move values depend on nothing else.
func elementTypes() []dtype.DType { return []dtype.DType{dtype.F16, dtype.F64, dtype.U8, dtype.I32} }

var _ = gradient(ReshapeDef, func(n *ir.Node, _ NoAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{Reshape(dy, n.In[0].Type.Shape)}
})
