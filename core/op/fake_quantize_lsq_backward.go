package op

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FakeQuantizeLSQBackwardDef defines the gradients of fake_quantize_lsq.
var FakeQuantizeLSQBackwardDef = ir.DefineTuple(ir.TupleDef[LSQAttrs]{
	Name: "fake_quantize_lsq_backward",
	Doc: "The gradients of fake_quantize_lsq (see there), given x, f32 or f64, the scale and the gradient dy of its result. With u = x/scale: dx = dy where |u| <= q, else 0; " +
		"dscale is the sum over the elements with that scale of dy*(round(u) - u) where |u| <= q, else of dy*q or -dy*q for positive and negative u, times factor.",
	Results:  "dx, dscale",
	Operands: "x, scale, dy",
	Infer: func(s ir.Sig[LSQAttrs]) ([]ir.Type, error) {
		x, scale, dy := s.In[0], s.In[1], s.In[2]
		if err := singleOrDouble("x", x); err != nil {
			return nil, err
		}
		if err := s.Attrs.infer(x, scale); err != nil {
			return nil, err
		}
		if !dy.Equal(x) {
			return nil, ir.TypesDiffer(dy, x, "dy is %v; want %v, the type of x", dy, x)
		}
		return []ir.Type{x, scale}, nil
	},
	Eval: func(a LSQAttrs, in, out []*tensor.Array) error {
		x, scale, dx, ds := in[0], in[1], out[0], out[1]
		inner, q := channelSize(x, scale, a.Axis), mostOf(a.Bits)
		for i, dy := range in[2].Floats {
			k := i / inner % len(scale.Floats)
			u := ratio(x.Floats[i], scale.Floats[k], scale.DType)
			switch {
			case math.Abs(u) <= q:
				dx.Floats[i] = dy
				ds.Floats[k] += dy * (math.RoundToEven(u) - x.Floats[i]/scale.Floats[k])
			case math.IsNaN(u):
				ds.Floats[k] += u
			default:
				ds.Floats[k] += dy * math.Copysign(q, u)
			}
		}
		for k := range ds.Floats {
			f := a.Factor
			if f == 0 {
				f = 1 / math.Sqrt(q*float64(max(1, len(x.Floats)/len(ds.Floats))))
			}
			ds.Floats[k] *= f
		}
		return nil
	},
	FLOPs: func(_ LSQAttrs, in, _ []ir.Type) int64 { return 8 * numel(in[0]) },
	// u is up to a few times q, and its rounding error counts.
	Tol: func(a LSQAttrs, in, out []ir.Type) []ir.Tolerance {
		terms := math.Sqrt(float64(4 * numel(in[0]) / max(1, numel(in[1]))))
		return []ir.Tolerance{{}, forDType(out[1].DType, (1e-6+1e-7*mostOf(a.Bits))*max(1, terms), 1e-5)}
	},
	Cases: lsqCases,
})

// FakeQuantizeLSQBackward adds the gradients of x and the scale of FakeQuantizeLSQ, given that of its result.
func FakeQuantizeLSQBackward(x, scale, dy *ir.Node, a LSQAttrs) []*ir.Node {
	return x.Graph.AddResults(2, FakeQuantizeLSQBackwardDef, a, x, scale, dy)
}

var _ = ir.LowerTuple(FakeQuantizeLSQBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, x, dy := n.Attrs.(LSQAttrs), in[0], in[2]
	steps, u := roundSteps(x, along(in[1], a.Axis, x.Type), a.Bits)
	inside := Le(Abs(u), number(mostOf(a.Bits), u))
	zero := number(0, dy)
	ds := Mul(dy, Where(inside, Sub(steps, u), steps))
	var axes []int
	elements := ir.Static(1)
	for i, d := range x.Type.Shape {
		if in[1].Type.Rank() == 0 || i != a.Axis {
			axes = append(axes, i)
			elements, _ = elements.Mul(d)
		}
	}
	if len(axes) > 0 {
		ds = ReduceSum(ds, false, axes...)
	}
	q := mostOf(a.Bits)
	switch {
	case a.Factor != 0:
		ds = timesConst(ds, a.Factor)
	case elements.IsStatic():
		ds = timesConst(ds, 1/math.Sqrt(q*float64(max(1, elements.Const))))
	default:
		count := Cast(sizeOf(g, elements), x.Type.DType)
		ds = Mul(ds, Rsqrt(timesConst(Max(count, number(1, count)), q)))
	}
	return []*ir.Node{Where(inside, dy, zero), ds}
})
