package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ArgAttrs are the attributes of argmax and argmin.
type ArgAttrs struct {
	Axis       int         `attr:"axis"`
	KeepDims   bool        `attr:"keep_dims"`   // the axis stays with size 1
	IndexDType dtype.DType `attr:"index_dtype"` // type of the result: i32 (the default), i64, u32 or f32
}

// arg defines argmax and argmin. better orders elements that are not NaN.
func arg(name, extreme string, better func(x, than float64) bool, betterInt func(x, than int64) bool) *ir.OpDef {
	return ir.Define(ir.Def[ArgAttrs]{
		Name: name,
		Doc: "The index of the " + extreme +
			" element along an axis, which has at least one; the first of equal elements, as 0 and -0 are. As in " +
			"PyTorch and in reduce_max and reduce_min, NaN prevails: the result is the index of the first NaN, if there is one.",
		Operands: "x",
		Infer: func(s ir.Sig[ArgAttrs]) (ir.Type, error) {
			x, axis := s.In[0], s.Attrs.Axis
			if x.DType == dtype.Bool {
				return ir.Type{}, fmt.Errorf("x is %v; want numbers (insert a cast)", x)
			}
			if err := checkAxis(axis, x.Rank()); err != nil {
				return ir.Type{}, err
			}
			err := s.Syms.AtLeast(x.Shape[axis], 1, "axis %d of %v may be empty; want size 1 or more", axis, x)
			if err != nil {
				return ir.Type{}, err
			}
			index := indexType(s.Attrs.IndexDType)
			if err := checkIndex(index, x, axis, s.Syms); err != nil {
				return ir.Type{}, err
			}
			t, err := ReduceAttrs{[]int{axis}, s.Attrs.KeepDims}.infer(x)
			return ir.Type{DType: index, Shape: t.Shape}, err
		},
		Eval: func(a ArgAttrs, in []*tensor.Array, out *tensor.Array) error {
			x := in[0]
			n, inner := x.Shape[a.Axis], tensor.Numel(x.Shape[a.Axis+1:])
			for row := range out.Len() {
				base, best := row/inner*n*inner+row%inner, 0
				for k := range n {
					i, j := base+k*inner, base+best*inner
					if x.Floats == nil && betterInt(x.Ints[i], x.Ints[j]) || x.Floats != nil &&
						!math.IsNaN(x.Floats[j]) &&
						(math.IsNaN(x.Floats[i]) || better(x.Floats[i], x.Floats[j])) {
						best = k
					}
				}
				setIndex(out, row, best)
			}
			return nil
		},
		FLOPs: func(_ ArgAttrs, in []ir.Type, _ ir.Type) int64 { return numel(in[0]) },
		Tol:   exact[ArgAttrs],
		Cases: func() []ir.Case[ArgAttrs] {
			c := func(t ir.Type, axis int) ir.Case[ArgAttrs] {
				return ir.Case[ArgAttrs]{Attrs: ArgAttrs{Axis: axis}, In: []ir.Type{t}}
			}
			ties := func(t ir.Type, axis int) ir.Case[ArgAttrs] {
				c := c(t, axis)
				c.Fill = []ir.Range{{Lo: 0, Hi: 0}}
				return c
			}
			cases := []ir.Case[ArgAttrs]{
				c(f32(1), 0), c(f32(7), 0), c(f32(3, 5), 0), c(f32(2, 7, 3), 1), c(f32(4, 1), 1), c(f32(0, 4), 1),
				c(f32(4, 0), 0), c(f32(5, 300), 1),
				c(f32(300, 5), 0), c(f32(2, 9000), 1), ties(f32(3, 40), 1), ties(i32(40, 3), 0), ties(f16(3, 40), 1),
				{Attrs: ArgAttrs{Axis: 1, KeepDims: true}, In: []ir.Type{f32(2, 3, 4)}},
			}
			for _, d := range dtype.All() {
				if d != dtype.Bool {
					cases = append(cases, c(ir.TypeOf(d, 3, 5), 1), c(ir.TypeOf(d, 3, 65), 0))
				}
			}
			for _, d := range []dtype.DType{dtype.I32, dtype.I64, dtype.U32, dtype.F32} {
				cases = append(
					cases, ir.Case[ArgAttrs]{Attrs: ArgAttrs{Axis: 1, IndexDType: d}, In: []ir.Type{f32(3, 20)}})
			}
			return cases
		},
	})
}
