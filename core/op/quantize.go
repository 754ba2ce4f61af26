package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// QuantizeAttrs are the attributes of quantize and dequantize.
type QuantizeAttrs struct {
	Axis  int         `attr:"axis"`  // axis of a scale that is a vector
	Zero  int         `attr:"zero"`  // the integer that stands for 0
	DType dtype.DType `attr:"dtype"` // type of the integers: i8 (the default) or u8
}

// Integer returns the element type of the integers.
func (a QuantizeAttrs) Integer() dtype.DType {
	if a.DType == dtype.Invalid {
		return dtype.I8
	}
	return a.DType
}

// check checks the attributes against x and scale.
func (a QuantizeAttrs) check(x, scale ir.Type) error {
	d := a.Integer()
	if d != dtype.I8 && d != dtype.U8 {
		return fmt.Errorf("dtype is %v; want i8 or u8", d)
	}
	if err := checkZero("zero", a.Zero, d); err != nil {
		return err
	}
	if scale.DType != dtype.F32 || scale.Rank() > 1 {
		return fmt.Errorf("scale is %v; want f32[] or f32[n]", scale)
	}
	if scale.Rank() == 0 {
		if a.Axis != 0 {
			return fmt.Errorf("axis is %d and scale %v; want axis 0 with one scale", a.Axis, scale)
		}
		return nil
	}
	if err := checkAxis(a.Axis, x.Rank()); err != nil {
		return err
	}
	if d, e := scale.Shape[0], x.Shape[a.Axis]; d != e {
		return ir.Differ(d, e, "scale is %v; want one for each of the %v elements of axis %d", scale, e, a.Axis)
	}
	return nil
}

// checkZero checks that an attribute is a value of type d.
func checkZero(name string, v int, d dtype.DType) error {
	if lo, hi := d.IntRange(); int64(v) < lo || int64(v) > hi {
		return fmt.Errorf("%s is %d; want %d to %d, the range of %v", name, v, lo, hi, d)
	}
	return nil
}

// scaleOf returns the scale of element i.
func (a QuantizeAttrs) scaleOf(scale *tensor.Array, shape []int, i int) float64 {
	if len(scale.Shape) == 0 {
		return scale.Floats[0]
	}
	return scale.Floats[i/tensor.Numel(shape[a.Axis+1:])%shape[a.Axis]]
}

// QuantizeDef converts floats to 8-bit integers. It is a block.
var QuantizeDef = ir.Define(ir.Def[QuantizeAttrs]{
	Name: "quantize",
	Doc: "Takes x (f32) and scale (f32, one or one for each element of an axis). The result is round(x / scale) + zero, half to even, limited to the range of the integer type. " +
		"NaN gives the least that NaN can: 0.",
	Block:    true,
	Operands: "x, scale",
	Infer: func(s ir.Sig[QuantizeAttrs]) (ir.Type, error) {
		x := s.In[0]
		if x.DType != dtype.F32 {
			return ir.Type{}, fmt.Errorf("x is %v; want f32", x)
		}
		return ir.Type{DType: s.Attrs.Integer(), Shape: x.Shape}, s.Attrs.check(x, s.In[1])
	},
	Eval: func(a QuantizeAttrs, in []*tensor.Array, out *tensor.Array) error {
		for i, v := range in[0].Floats {
			q := float32(v) / float32(a.scaleOf(in[1], out.Shape, i))
			out.Ints[i] = saturate(math.RoundToEven(float64(q))+float64(a.Zero), out.DType)
		}
		return nil
	},
	FLOPs: perElement[QuantizeAttrs](3),
	Tol:   exact[QuantizeAttrs],
	Cases: func() []ir.Case[QuantizeAttrs] {
		c := func(a QuantizeAttrs, x, scale ir.Type) ir.Case[QuantizeAttrs] {
			return ir.Case[QuantizeAttrs]{Attrs: a, In: []ir.Type{x, scale},
				Fill: []ir.Range{{Lo: -4, Hi: 4}, {Lo: 0.01, Hi: 0.05}}}
		}
		return []ir.Case[QuantizeAttrs]{
			c(QuantizeAttrs{}, f32(), f32()), c(QuantizeAttrs{Zero: -3}, f32(7), f32()),
			c(QuantizeAttrs{Zero: 128, DType: dtype.U8}, f32(3, 5), f32()),
			c(QuantizeAttrs{Axis: 1}, f32(3, 5), f32(5)), c(QuantizeAttrs{Zero: 5}, f32(3, 5, 2), f32(3)),
			c(QuantizeAttrs{}, f32(0, 4), f32()),
		}
	},
})

// along reshapes a vector so that it broadcasts along an axis of x. A scalar stays as it is.
func along(v *ir.Node, axis int, x ir.Type) *ir.Node {
	if v.Type.Rank() == 0 {
		return v
	}
	shape := ir.Shape{v.Type.Shape[0]}
	for range x.Rank() - 1 - axis {
		shape = append(shape, ir.Static(1))
	}
	return Reshape(v, shape)
}

// The cast saturates.
var _ = ir.Lower(QuantizeDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x := n.Attrs.(QuantizeAttrs), in[0]
	q := Round(Div(x, along(in[1], a.Axis, x.Type)))
	if a.Zero != 0 {
		q = Add(q, number(float64(a.Zero), x))
	}
	return Cast(q, a.Integer())
})

// Quantize adds x as 8-bit integers. scale is one number, or one for each element of an axis.
func Quantize(x, scale *ir.Node, a QuantizeAttrs) *ir.Node {
	return x.Graph.Add(QuantizeDef, a, x, scale)
}

// DequantizeDef converts 8-bit integers to floats. It is a block.
var DequantizeDef = ir.Define(ir.Def[QuantizeAttrs]{
	Name:     "dequantize",
	Doc:      "Takes x (i8 or u8, as dtype says) and scale (f32, one or one for each element of an axis). The result is (x - zero) * scale.",
	Block:    true,
	Operands: "x, scale",
	Infer: func(s ir.Sig[QuantizeAttrs]) (ir.Type, error) {
		x := s.In[0]
		if d := s.Attrs.Integer(); x.DType != d {
			return ir.Type{}, fmt.Errorf("x is %v; want %v, as dtype says", x, d)
		}
		return ir.Type{DType: dtype.F32, Shape: x.Shape}, s.Attrs.check(x, s.In[1])
	},
	Eval: func(a QuantizeAttrs, in []*tensor.Array, out *tensor.Array) error {
		for i, q := range in[0].Ints {
			out.Floats[i] = float64(q-int64(a.Zero)) * a.scaleOf(in[1], out.Shape, i)
		}
		return nil
	},
	FLOPs: perElement[QuantizeAttrs](2),
	Tol:   rounded[QuantizeAttrs],
	Cases: func() []ir.Case[QuantizeAttrs] {
		c := func(a QuantizeAttrs, x, scale ir.Type) ir.Case[QuantizeAttrs] {
			lo, hi := x.DType.IntRange()
			return ir.Case[QuantizeAttrs]{Attrs: a, In: []ir.Type{x, scale},
				Fill: []ir.Range{{Lo: float64(lo), Hi: float64(hi)}, {Lo: 0.01, Hi: 0.05}}}
		}
		return []ir.Case[QuantizeAttrs]{
			c(QuantizeAttrs{}, i8(), f32()), c(QuantizeAttrs{Zero: -3}, i8(7), f32()),
			c(QuantizeAttrs{Zero: 128, DType: dtype.U8}, u8(3, 5), f32()),
			c(QuantizeAttrs{Axis: 1}, i8(3, 5), f32(5)), c(QuantizeAttrs{Zero: 5}, i8(3, 5, 2), f32(3)),
			c(QuantizeAttrs{}, i8(0, 4), f32()),
		}
	},
})

var _ = ir.Lower(DequantizeDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x := n.Attrs.(QuantizeAttrs), Cast(in[0], dtype.F32)
	if a.Zero != 0 {
		x = Sub(x, number(float64(a.Zero), x))
	}
	return Mul(x, along(in[1], a.Axis, x.Type))
})

// Dequantize adds the floats that the 8-bit integers x represent.
func Dequantize(x, scale *ir.Node, a QuantizeAttrs) *ir.Node {
	return x.Graph.Add(DequantizeDef, a, x, scale)
}
