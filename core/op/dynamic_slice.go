package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// DynamicSliceAttrs are the attributes of dynamic_slice.
type DynamicSliceAttrs struct {
	Axis int `attr:"axis"`
	Len  int `attr:"len"`
}

// DynamicSliceDef cuts a range from one axis. The start is an operand, known only at run time.
var DynamicSliceDef = ir.Define(ir.Def[DynamicSliceAttrs]{
	Name: "dynamic_slice",
	Doc: "Takes x and start (one i32 or i64). The result is elements start to start+len-1 of an axis. A range outside the axis is a run error. " +
		"narrow is the op for a start that the compiler knows.",
	Operands: "x, start",
	Checked:  []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[DynamicSliceAttrs]) (ir.Type, error) {
		a, x, start := s.Attrs, s.In[0], s.In[1]
		if err := checkAxis(a.Axis, x.Rank()); err != nil {
			return ir.Type{}, err
		}
		if start.DType != dtype.I32 && start.DType != dtype.I64 || start.Rank() != 0 {
			return ir.Type{}, fmt.Errorf("start is %v; want i32[] or i64[]", start)
		}
		if lo, _ := s.Syms.Bounds(x.Shape[a.Axis]); a.Len < 0 || int64(a.Len) > lo {
			return ir.Type{}, fmt.Errorf("len is %d; want 0 to %d, the least size of axis %d of %v", a.Len, lo, a.Axis,
				x)
		}
		out := append(ir.Shape{}, x.Shape...)
		out[a.Axis] = ir.Static(int64(a.Len))
		return ir.Type{DType: x.DType, Shape: out}, nil
	},
	Eval: func(a DynamicSliceAttrs, in []*tensor.Array, out *tensor.Array) error {
		start, most := in[1].Ints[0], int64(in[0].Shape[a.Axis]-a.Len)
		if start < 0 || start > most {
			return fmt.Errorf("start is %d; want 0 to %d, so that %d elements lie in axis %d", start, most, a.Len,
				a.Axis)
		}
		narrow(in[0], out, a.Axis, int(start), a.Len)
		return nil
	},
	FLOPs: noFLOPs[DynamicSliceAttrs],
	Tol:   exact[DynamicSliceAttrs],
	Cases: func() []ir.Case[DynamicSliceAttrs] {
		c := func(axis, n int, x, start ir.Type) ir.Case[DynamicSliceAttrs] {
			fill := []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0, Hi: float64(int(x.Shape[axis].Const) - n)}}
			if !x.DType.IsFloat() {
				fill[0] = ir.Range{Lo: 0, Hi: 3}
			}
			return ir.Case[DynamicSliceAttrs]{Attrs: DynamicSliceAttrs{axis, n}, In: []ir.Type{x, start}, Fill: fill}
		}
		cases := []ir.Case[DynamicSliceAttrs]{
			c(0, 3, f32(7), i32()), c(0, 0, f32(7), i64()), c(0, 7, f32(7), i32()), c(1, 2, f32(3, 9), i64()),
			c(1, 1, f32(4, 3, 5), i32()), c(1, 4, f32(0, 6), i32()),
			c(2, 4, f32(2, 3, 12), i32()), c(1, 3, f32(1, 8, 64), i32()),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(1, 3, ir.TypeOf(d, 3, 7), i32()))
		}
		return cases
	},
})

// DynamicSlice adds n elements of an axis of x, beginning at start.
func DynamicSlice(x, start *ir.Node, axis, n int) *ir.Node {
	return x.Graph.Add(DynamicSliceDef, DynamicSliceAttrs{fromEnd(axis, x), n}, x, start)
}

// Element i of the axis gets element i - start of dy, if dy has that element.
var _ = gradient(DynamicSliceDef, func(n *ir.Node, a DynamicSliceAttrs, dy *ir.Node) []*ir.Node {
	x, g := n.In[0].Type, n.Graph
	if a.Len == 0 {
		return nil
	}
	t := ir.Type{DType: n.In[1].Type.DType, Shape: x.Shape[a.Axis : a.Axis+1]}
	at := Sub(Iota(g, 0, t), n.In[1])
	first, last := number(0, at), number(float64(a.Len-1), at)
	taken := Gather(dy, Max(Min(at, last), first), a.Axis)
	across := make(ir.Shape, x.Rank()) // the axis alone
	for i := range across {
		across[i] = ir.Static(1)
	}
	across[a.Axis] = x.Shape[a.Axis]
	return []*ir.Node{Where(Reshape(And(Ge(at, first), Le(at, last)), across), taken, number(0, dy))}
})
