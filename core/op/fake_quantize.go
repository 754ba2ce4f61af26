package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FakeQuantizeScale is the index of the optional operand of fake_quantize.
const FakeQuantizeScale = 1

// Values of the attribute scale of fake_quantize: where the scale comes from.
const (
	ScaleBatch = "batch" // the largest absolute value of x
	ScaleEMA   = "ema"   // that, averaged with the operand scale
	ScaleFixed = "fixed" // the operand scale
)

// Straight-through estimators of fake_quantize: what counts as the derivative of the result.
const (
	STEIdentity = "identity"
	STEClipped  = "clipped"
	STETanh     = "tanh"
	STEHardTanh = "hardtanh"
)

// FakeQuantizeAttrs are the attributes of fake_quantize.
type FakeQuantizeAttrs struct {
	Bits     int     `attr:"bits"`     // 8, 4 or 2
	Scale    string  `attr:"scale"`    // batch, ema or fixed
	Decay    float64 `attr:"decay"`    // with ema: the share of the operand scale
	Channels bool    `attr:"channels"` // a scale for each element of axis, not one for all
	Axis     int     `attr:"axis"`
	STE      string  `attr:"ste"` // identity, clipped, tanh or hardtanh
}

// checkBits checks the number of bits of integers that floats are rounded to.
func checkBits(bits int) error {
	if bits != 8 && bits != 4 && bits != 2 {
		return fmt.Errorf("bits is %d; want 8, 4 or 2", bits)
	}
	return nil
}

// mostOf returns the largest integer of this many bits whose negative also fits: 127, 7 or 1.
func mostOf(bits int) float64 { return float64(int(1)<<(bits-1) - 1) }

func checkSTE(ste string) error {
	if ste != STEIdentity && ste != STEClipped && ste != STETanh && ste != STEHardTanh {
		return fmt.Errorf("ste is %q; want %q, %q, %q or %q", ste, STEIdentity, STEClipped, STETanh, STEHardTanh)
	}
	return nil
}

// checkStep checks a scale against x. The scale has one number, or one for each element of an axis, and is f32 unless x
// is f64.
func checkStep(x, scale ir.Type, axis int) error {
	if err := isFloat("x", x); err != nil {
		return err
	}
	if scale.DType != stateType(x.DType) || scale.Rank() > 1 {
		return fmt.Errorf("scale is %v; want %v[] or %v[n]", scale, stateType(x.DType), stateType(x.DType))
	}
	if scale.Rank() == 0 {
		if axis != 0 {
			return fmt.Errorf("axis is %d and scale %v; want axis 0 with one scale", axis, scale)
		}
		return nil
	}
	if err := checkAxis(axis, x.Rank()); err != nil {
		return err
	}
	if d, e := scale.Shape[0], x.Shape[axis]; d != e {
		return ir.Differ(d, e, "scale is %v; want one for each of the %v elements of axis %d", scale, e, axis)
	}
	return nil
}

func (a FakeQuantizeAttrs) infer(in []ir.Type) ([]ir.Type, error) {
	x := in[0]
	if err := checkBits(a.Bits); err != nil {
		return nil, err
	}
	if err := checkSTE(a.STE); err != nil {
		return nil, err
	}
	if err := isFloat("x", x); err != nil {
		return nil, err
	}
	switch {
	case a.Scale != ScaleBatch && a.Scale != ScaleEMA && a.Scale != ScaleFixed:
		return nil, fmt.Errorf("scale is %q; want %q, %q or %q", a.Scale, ScaleBatch, ScaleEMA, ScaleFixed)
	case a.Scale == ScaleEMA && !(a.Decay >= 0 && a.Decay <= 1) || a.Scale != ScaleEMA && a.Decay != 0:
		return nil, fmt.Errorf("decay is %v with scale %q; want 0 to 1 with %q, and 0 otherwise", a.Decay, a.Scale,
			ScaleEMA)
	case (a.Scale == ScaleBatch) == in[FakeQuantizeScale].Present():
		return nil, fmt.Errorf("scale is %q; want the operand scale with %q and %q, and none with %q", a.Scale,
			ScaleEMA, ScaleFixed, ScaleBatch)
	}
	scale := ir.Type{DType: stateType(x.DType), Shape: ir.Shape{}}
	if a.Channels {
		if err := checkAxis(a.Axis, x.Rank()); err != nil {
			return nil, err
		}
		scale.Shape = ir.Shape{x.Shape[a.Axis]}
	}
	if in[FakeQuantizeScale].Present() && !in[FakeQuantizeScale].Equal(scale) {
		return nil, ir.TypesDiffer(in[FakeQuantizeScale], scale, "scale is %v; want %v", in[FakeQuantizeScale], scale)
	}
	return []ir.Type{x, scale}, checkStep(x, scale, a.Axis)
}

// FakeQuantizeDef rounds to integers of few bits and back, for training that is aware of it.
var FakeQuantizeDef = ir.DefineTuple(ir.TupleDef[FakeQuantizeAttrs]{
	Name: "fake_quantize",
	Doc: "x as it would be after quantization to integers of 8, 4 or 2 bits and back: y = s*clamp(round(x/s), " +
		"-q, q), halves to even, with q = 127, 7 or 1, and 0 where s is 0. s, the second result, is one " +
		"number, or with channels one for each element of axis. It is f32 unless x is f64. With scale \"batch\" " +
		"s = max|x|/q; with \"ema\" it is decay times the operand scale plus 1-decay times max|x|/q, or " +
		"max|x|/q alone where the operand is 0; with \"fixed\" it is the operand. ste selects the derivative " +
		"that is used, because that of round is 0 (a straight-through estimator): \"identity\": 1; \"clipped\": 1 " +
		"where |x| <= q*s, else 0; \"tanh\": 1 - tanh(x/s)^2; \"hardtanh\": max(0, 1 - |x|/(q*s)). s counts as a " +
		"constant.",
	Results:  "y, s",
	Operands: "x, scale?",
	Infer:    func(s ir.Sig[FakeQuantizeAttrs]) ([]ir.Type, error) { return s.Attrs.infer(s.In) },
	Eval: func(a FakeQuantizeAttrs, in, out []*tensor.Array) error {
		x, y, s := in[0], out[0], out[1]
		inner, q := channelSize(x, s, a.Axis), mostOf(a.Bits)
		most := make([]float64, len(s.Floats))
		for i, v := range x.Floats {
			k := i / inner % len(most)
			most[k] = max(most[k], math.Abs(v))
		}
		for k := range s.Floats {
			v := most[k] / q
			switch {
			case a.Scale == ScaleFixed:
				v = in[FakeQuantizeScale].Floats[k]
			case a.Scale == ScaleEMA && in[FakeQuantizeScale].Floats[k] != 0:
				v = a.Decay*in[FakeQuantizeScale].Floats[k] + (1-a.Decay)*v
			}
			if s.DType == dtype.F32 {
				v = float64(float32(v))
			}
			s.Floats[k] = v
		}
		for i, v := range x.Floats {
			if step := s.Floats[i/inner%len(most)]; step != 0 {
				y.Floats[i] = step * min(max(math.RoundToEven(ratio(v, step, s.DType)), -q), q)
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[FakeQuantizeAttrs], out []ir.Type) int64 { return 8 * s.Syms.MaxElems(out[1]) },
	FLOPs:  func(_ FakeQuantizeAttrs, in, _ []ir.Type) int64 { return 6 * numel(in[0]) },
	Tol: func(_ FakeQuantizeAttrs, _, out []ir.Type) []ir.Tolerance {
		return []ir.Tolerance{forDType(out[0].DType, 1e-6, 1e-5), forDType(out[1].DType, 1e-6, 1e-5)}
	},
	Cases: fakeQuantizeCases,
})

// channelSize returns the number of elements that have the same scale one after the other.
func channelSize(x, scale *tensor.Array, axis int) int {
	if len(scale.Shape) == 0 {
		return max(1, len(x.Floats))
	}
	return max(1, tensor.Numel(x.Shape[axis+1:]))
}

// ratio returns x/s as f32 or f64 has it, so that all round it in the same way.
func ratio(x, s float64, d dtype.DType) float64 {
	if d == dtype.F64 {
		return x / s
	}
	return float64(float32(x) / float32(s))
}

func fakeQuantizeCases() (cases []ir.Case[FakeQuantizeAttrs]) {
	c := func(a FakeQuantizeAttrs, x ir.Type) {
		one := ir.Case[FakeQuantizeAttrs]{Attrs: a, In: []ir.Type{x, {}},
			Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0.1, Hi: 0.3}}}
		if a.Scale != ScaleBatch {
			one.In[FakeQuantizeScale] = ir.Type{DType: stateType(x.DType), Shape: ir.Shape{}}
			if a.Channels {
				one.In[FakeQuantizeScale].Shape = ir.Shape{x.Shape[a.Axis]}
			}
		}
		cases = append(cases, one)
	}
	stes := []string{STEIdentity, STEClipped, STETanh, STEHardTanh}
	for i, ste := range stes {
		bits := []int{8, 4, 2, 4}[i]
		c(FakeQuantizeAttrs{Bits: bits, Scale: ScaleBatch, STE: ste}, f32(3, 17))
		c(FakeQuantizeAttrs{Bits: bits, Scale: ScaleFixed, STE: ste, Channels: true, Axis: 1}, f32(3, 5, 7))
		c(FakeQuantizeAttrs{Bits: bits, Scale: ScaleEMA, Decay: 0.9, STE: ste, Channels: true}, f32(4, 9))
	}
	c(FakeQuantizeAttrs{Bits: 8, Scale: ScaleBatch, STE: STEIdentity}, f32())
	c(FakeQuantizeAttrs{Bits: 8, Scale: ScaleBatch, STE: STEIdentity}, f32(0, 3))
	c(FakeQuantizeAttrs{Bits: 4, Scale: ScaleFixed, STE: STEClipped, Channels: true, Axis: 1}, f32(0, 3))
	c(FakeQuantizeAttrs{Bits: 4, Scale: ScaleEMA, Decay: 0.5, STE: STEClipped}, f32(1030))
	c(FakeQuantizeAttrs{Bits: 4, Scale: ScaleFixed, STE: STEClipped}, f16(3, 9))
	c(FakeQuantizeAttrs{Bits: 2, Scale: ScaleFixed, STE: STEHardTanh, Channels: true, Axis: 1}, bf16(2, 5))
	c(FakeQuantizeAttrs{Bits: 8, Scale: ScaleBatch, STE: STETanh, Channels: true, Axis: 1}, f64(3, 4))
	return cases
}

// FakeQuantize adds x as it would be after quantization, and the scale. scale is nil with ScaleBatch.
func FakeQuantize(x, scale *ir.Node, a FakeQuantizeAttrs) (y, s *ir.Node) {
	r := x.Graph.AddResults(2, FakeQuantizeDef, a, x, scale)
	return r[0], r[1]
}

// roundSteps returns clamp(round(x/s), -q, q) and x/s. s broadcasts to x.
func roundSteps(x, s *ir.Node, bits int) (steps, u *ir.Node) {
	u = Div(x, s)
	q := mostOf(bits)
	return Min(Max(Round(u), number(-q, u)), number(q, u)), u
}

var _ = ir.LowerTuple(FakeQuantizeDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, x, s := n.Attrs.(FakeQuantizeAttrs), widened(in[0]), in[FakeQuantizeScale]
	if a.Scale != ScaleFixed {
		var axes []int
		for i := range x.Type.Rank() {
			if !a.Channels || i != a.Axis {
				axes = append(axes, i)
			}
		}
		most := Abs(x)
		if len(axes) > 0 {
			most = Max(ReduceMax(most, false, axes...), number(0, most)) // the maximum over nothing is -Inf
		}
		batch := Div(most, number(mostOf(a.Bits), x))
		if a.Scale == ScaleEMA {
			mean := Add(timesConst(s, a.Decay), timesConst(batch, 1-a.Decay))
			batch = Where(Eq(s, number(0, s)), batch, mean)
		}
		s = batch
	}
	wide := along(s, a.Axis, x.Type)
	steps, _ := roundSteps(x, wide, a.Bits)
	y := Where(Eq(wide, number(0, wide)), number(0, x), Mul(steps, wide))
	return []*ir.Node{castTo(y, n.Results[0].DType), s}
})

var _ = ir.Gradient(FakeQuantizeDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	a := n.Attrs.(FakeQuantizeAttrs)
	if dy[1] != nil {
		return nil, fmt.Errorf("the gradient of its scale is wanted, which counts as a constant")
	}
	in := allWidened(n.In[0], dy[0])
	scale := n.Values()[1]
	dx := FakeQuantizeBackward(in[0], scale, in[1], FakeQuantizeBackwardAttrs{Bits: a.Bits, Axis: a.Axis, STE: a.STE})
	return []*ir.Node{castTo(dx, n.In[0].Type.DType), ir.NoGradient}, nil
})
