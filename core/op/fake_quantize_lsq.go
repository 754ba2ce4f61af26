package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// LSQAttrs are the attributes of fake_quantize_lsq and of its gradient.
type LSQAttrs struct {
	Bits int `attr:"bits"` // 8, 4 or 2
	Axis int `attr:"axis"` // of a scale that is a vector
	// factor of the gradient of a scale; 0 means the factor of the paper, 1/sqrt(n*q) for n elements with the scale
	Factor float64 `attr:"factor"`
}

func (a LSQAttrs) infer(x, scale ir.Type) error {
	if err := checkBits(a.Bits); err != nil {
		return err
	}
	if !(a.Factor >= 0 && a.Factor <= math.MaxFloat32) {
		return fmt.Errorf("factor is %v; want a finite number of 0 or more", a.Factor)
	}
	return checkStep(x, scale, a.Axis)
}

// FakeQuantizeLSQDef is fake_quantize with a scale that is trained.
var FakeQuantizeLSQDef = ir.Define(ir.Def[LSQAttrs]{
	Name: "fake_quantize_lsq",
	Doc: "x as it would be after quantization with the step scale: y = scale*clamp(round(x/scale), -q, q), halves to even, with q = 127, 7 or 1 for 8, 4 or 2 bits. " +
		"The scale is learned (LSQ: S. K. Esser et al., Learned step size quantization, 2020); it is one positive number, or one for each element of axis, f32 unless x is f64. " +
		"fake_quantize_lsq_backward defines the gradients.",
	Operands:      "x, scale",
	Infer:         func(s ir.Sig[LSQAttrs]) (ir.Type, error) { return s.In[0], s.Attrs.infer(s.In[0], s.In[1]) },
	Discontinuous: func(LSQAttrs, ir.Type) bool { return true },
	Eval: func(a LSQAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, scale := in[0], in[1]
		inner, q := channelSize(x, scale, a.Axis), mostOf(a.Bits)
		for i, v := range x.Floats {
			s := scale.Floats[i/inner%len(scale.Floats)]
			out.Floats[i] = s * min(max(math.RoundToEven(ratio(v, s, scale.DType)), -q), q)
		}
		return nil
	},
	FLOPs: perElement[LSQAttrs](5),
	Tol:   rounded[LSQAttrs],
	Cases: func() (cases []ir.Case[LSQAttrs]) {
		for _, c := range lsqCases() {
			cases = append(cases, ir.Case[LSQAttrs]{Attrs: c.Attrs, In: c.In[:2], Fill: c.Fill[:2]})
		}
		c := cases[0]
		c.In = []ir.Type{f16(3, 9), f32()}
		return append(cases, c)
	},
})

// lsqCases are those of fake_quantize_lsq_backward.
func lsqCases() (cases []ir.Case[LSQAttrs]) {
	c := func(bits, axis int, factor float64, x, scale ir.Type) {
		cases = append(cases, ir.Case[LSQAttrs]{Attrs: LSQAttrs{bits, axis, factor}, In: []ir.Type{x, scale, x},
			Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0.1, Hi: 0.3}, {Lo: -2, Hi: 2}}})
	}
	for _, bits := range []int{8, 4, 2} {
		c(bits, 0, 1, f32(3, 17), f32())
		c(bits, 1, 0, f32(3, 5, 7), f32(5))
	}
	c(4, 0, 0.5, f32(), f32())
	c(4, 0, 0, f32(0, 3), f32())
	c(4, 1, 1, f32(0, 3), f32(3))
	c(4, 0, 1, f32(4, 2050), f32(4))
	c(2, 1, 0, f64(4, 3), f64(3))
	return cases
}

// FakeQuantizeLSQ adds x as it would be after quantization with a scale that can be trained.
func FakeQuantizeLSQ(x, scale *ir.Node, a LSQAttrs) *ir.Node {
	return x.Graph.Add(FakeQuantizeLSQDef, a, x, scale)
}

var _ = ir.Lower(FakeQuantizeLSQDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x := n.Attrs.(LSQAttrs), widened(in[0])
	s := along(in[1], a.Axis, x.Type)
	steps, _ := roundSteps(x, s, a.Bits)
	return castTo(Mul(steps, s), n.Type.DType)
})

var _ = ir.Gradient(FakeQuantizeLSQDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	in := allWidened(n.In[0], n.In[1], dy[0])
	return narrowed(FakeQuantizeLSQBackward(in[0], in[1], in[2], n.Attrs.(LSQAttrs)), n.In), nil
})
