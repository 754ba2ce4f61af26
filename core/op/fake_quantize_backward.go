package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FakeQuantizeBackwardAttrs are the attributes of fake_quantize_backward.
type FakeQuantizeBackwardAttrs struct {
	Bits int    `attr:"bits"` // 8, 4 or 2
	Axis int    `attr:"axis"` // of a scale that is a vector
	STE  string `attr:"ste"`  // identity, clipped, tanh or hardtanh
}

// FakeQuantizeBackwardDef defines the gradient of fake_quantize.
var FakeQuantizeBackwardDef = ir.Define(ir.Def[FakeQuantizeBackwardAttrs]{
	Name: "fake_quantize_backward",
	Doc: "The gradient of fake_quantize (see there) with respect to x, given x, f32 or f64, the scale that it " +
		"used, and the gradient dy of its first result: dy times the derivative that ste selects. The scale " +
		"is one number, or one for each element of an axis.",
	Operands: "x, scale, dy",
	Infer: func(s ir.Sig[FakeQuantizeBackwardAttrs]) (ir.Type, error) {
		a, x := s.Attrs, s.In[0]
		err := checkBits(a.Bits)
		if err == nil {
			err = checkSTE(a.STE)
		}
		if err == nil {
			err = singleOrDouble("x", x)
		}
		if err == nil {
			err = checkStep(x, s.In[1], a.Axis)
		}
		if err == nil && !s.In[2].Equal(x) {
			err = ir.TypesDiffer(s.In[2], x, "dy is %v; want %v, the type of x", s.In[2], x)
		}
		return x, err
	},
	Eval: func(a FakeQuantizeBackwardAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, scale := in[0], in[1]
		inner, q := channelSize(x, scale, a.Axis), mostOf(a.Bits)
		for i, dy := range in[2].Floats {
			s, v, by := scale.Floats[i/inner%len(scale.Floats)], x.Floats[i], 1.0
			switch a.STE {
			case STEClipped:
				if !(math.Abs(v) <= q*s) {
					by = 0
				}
			case STETanh:
				t := math.Tanh(v / s)
				by = 1 - t*t
			case STEHardTanh:
				by = max(0, 1-math.Abs(v)/(q*s))
			}
			out.Floats[i] = dy * by
		}
		return nil
	},
	Discontinuous: func(a FakeQuantizeBackwardAttrs, _ ir.Type) bool { return a.STE == STEClipped },
	FLOPs:         perElement[FakeQuantizeBackwardAttrs](6),
	Tol:           rounded[FakeQuantizeBackwardAttrs],
	Cases: func() (cases []ir.Case[FakeQuantizeBackwardAttrs]) {
		c := func(bits, axis int, ste string, x, scale ir.Type) {
			cases = append(cases, ir.Case[FakeQuantizeBackwardAttrs]{Attrs: FakeQuantizeBackwardAttrs{bits, axis, ste},
				In: []ir.Type{x, scale, x}, Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0.1, Hi: 0.3}, {Lo: -2, Hi: 2}}})
		}
		for i, ste := range []string{STEIdentity, STEClipped, STETanh, STEHardTanh} {
			bits := []int{8, 4, 2, 4}[i]
			c(bits, 0, ste, f32(3, 17), f32())
			c(bits, 1, ste, f32(3, 5, 7), f32(5))
			c(bits, 0, ste, f64(4, 3), f64(4))
			c(bits, 1, ste, f32(0, 3), f32(3))
			c(bits, 1, ste, f32(2, 1030), f32(1030))
		}
		return cases
	},
})

// FakeQuantizeBackward adds the gradient of x of FakeQuantize, given that of its result.
func FakeQuantizeBackward(x, scale, dy *ir.Node, a FakeQuantizeBackwardAttrs) *ir.Node {
	return x.Graph.Add(FakeQuantizeBackwardDef, a, x, scale, dy)
}

var _ = ir.Lower(FakeQuantizeBackwardDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x, dy := n.Attrs.(FakeQuantizeBackwardAttrs), in[0], in[2]
	s := along(in[1], a.Axis, x.Type)
	most := timesConst(s, mostOf(a.Bits))
	switch a.STE {
	case STEClipped:
		return Mul(dy, Cast(Le(Abs(x), most), x.Type.DType))
	case STETanh:
		t := Tanh(Div(x, s))
		return Mul(dy, constMinus(1, Mul(t, t)))
	case STEHardTanh:
		by := constMinus(1, Div(Abs(x), most))
		return Mul(dy, Max(by, number(0, by)))
	}
	return Copy(dy)
})
