package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// IotaAttrs are the attributes of iota.
type IotaAttrs struct {
	Axis int `attr:"axis"`
}

// IotaDef counts along an axis.
var IotaDef = ir.Define(ir.Def[IotaAttrs]{
	Name:     "iota",
	Doc:      "A tensor of the declared type whose elements are their own index on the axis: 0, 1, 2, ... Any number type; integers wrap.",
	Declared: true,
	Infer: func(s ir.Sig[IotaAttrs]) (ir.Type, error) {
		if d := s.Declared.DType; !d.IsFloat() && !d.IsInt() {
			return ir.Type{}, fmt.Errorf("declared type is %v; want a number type", s.Declared)
		}
		return s.Declared, checkAxis(s.Attrs.Axis, s.Declared.Rank())
	},
	Eval: func(a IotaAttrs, _ []*tensor.Array, out *tensor.Array) error {
		inner := tensor.Numel(out.Shape[a.Axis+1:])
		for i := range out.Len() {
			k := i / inner % out.Shape[a.Axis]
			if out.Floats != nil {
				out.Floats[i] = float64(k)
			} else {
				out.Ints[i] = int64(k)
			}
		}
		return nil
	},
	FLOPs: noFLOPs[IotaAttrs],
	Tol:   func(_ IotaAttrs, _ []ir.Type, out ir.Type) ir.Tolerance { return ir.Tolerance{} },
	Cases: func() []ir.Case[IotaAttrs] {
		return []ir.Case[IotaAttrs]{
			{Out: f32(7)}, {Attrs: IotaAttrs{1}, Out: f32(3, 5)}, {Attrs: IotaAttrs{1}, Out: i32(2, 3, 4)},
			{Out: i64(0, 2)},
			{Out: u8(300)}, {Attrs: IotaAttrs{2}, Out: f16(1, 2, 9)}, {Out: ir.TypeOf(dtype.U32, 1)},
		}
	},
})

// Iota adds a tensor of type t that holds each element's index on the axis.
func Iota(g *ir.Graph, axis int, t ir.Type) *ir.Node {
	if axis < 0 {
		axis += t.Rank()
	}
	return g.AddDeclared(IotaDef, IotaAttrs{axis}, t)
}
