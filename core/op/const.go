package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ConstAttrs are the attributes of const.
type ConstAttrs struct {
	Value float64 `attr:"value"`
}

// ConstDef fills a tensor with one number.
var ConstDef = ir.Define(ir.Def[ConstAttrs]{
	Name: "const",
	Doc: "A tensor of the declared type whose elements are all value, rounded to the element type. Integer types need an " +
		"integral value in range, bool needs 0 or 1.",
	Declared: true,
	Infer: func(s ir.Sig[ConstAttrs]) (ir.Type, error) {
		return s.Declared, checkValue(s.Attrs.Value, s.Declared.DType)
	},
	Eval: func(a ConstAttrs, _ []*tensor.Array, out *tensor.Array) error {
		out.Fill(a.Value)
		return nil
	},
	FLOPs: noFLOPs[ConstAttrs],
	Tol:   exact[ConstAttrs],
	Cases: func() []ir.Case[ConstAttrs] {
		return []ir.Case[ConstAttrs]{
			{Attrs: ConstAttrs{0.1}, Out: f32(3, 5)}, {Attrs: ConstAttrs{-2}, Out: f32()}, {Out: f32(0)},
			{Attrs: ConstAttrs{math.Inf(-1)}, Out: f32(4)}, {Attrs: ConstAttrs{1. / 3}, Out: f16(7)},
			{Attrs: ConstAttrs{-7}, Out: i32(2, 2)},
			{Attrs: ConstAttrs{1}, Out: bools(3)}, {Attrs: ConstAttrs{255}, Out: u8(5)},
		}
	},
})

// Const adds a tensor of type t filled with value.
func Const(g *ir.Graph, value float64, t ir.Type) *ir.Node {
	return g.AddDeclared(ConstDef, ConstAttrs{value}, t)
}

// checkValue returns an error if d cannot hold v.
func checkValue(v float64, d dtype.DType) error {
	if d == dtype.Invalid {
		return fmt.Errorf("has no declared type")
	}
	if d.IsFloat() {
		return nil
	}
	// Compare the limits as floats, because 2^63 does not fit an int64.
	lo, hi := d.IntRange()
	if v != math.Trunc(v) || v < float64(lo) || v > float64(hi) || v == 0x1p63 {
		return fmt.Errorf("value %v does not fit %v; want an integer from %d to %d", v, d, lo, hi)
	}
	return nil
}
