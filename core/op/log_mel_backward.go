package op

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// An element of log_mel is at the floor, and has no gradient, if it exceeds the floor by less than this, or if its
// energy is at most melLeast.
const (
	melMargin = 1e-6
	melLeast  = 1e-10
)

// LogMelBackwardDef defines the gradient of log_mel.
var LogMelBackwardDef = ir.Define(ir.Def[LogMelAttrs]{
	Name: "log_mel_backward",
	Doc: "The gradient of log_mel (see there) with respect to the spectrum, given the spectrum, f32 or f64, the filters and the gradient dy of the result. With E = filters p: " +
		"g = dy/4, but 0 where m is at the floor (m - floor <= 1e-6) or E <= 1e-10; dp_b = sum over the filters of g*filter_b/(E ln 10); d re = 2 re dp, d im = 2 im dp, and 0 for bins that do not count. " +
		"The floor counts as a constant: nothing reaches the largest m through it.",
	Operands: "spectrum, filters, dy",
	Infer: func(s ir.Sig[LogMelAttrs]) (ir.Type, error) {
		x := s.In[0]
		y, err := LogMelDef.Infer(s.Attrs, s.In[:2], ir.Type{}, s.Syms)
		if err == nil {
			err = singleOrDouble("spectrum", x)
		}
		if err == nil && !s.In[2].Equal(y) {
			err = ir.TypesDiffer(s.In[2], y, "dy is %v; want %v, the type of the result", s.In[2], y)
		}
		return x, err
	},
	Eval: func(a LogMelAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, f, dy := in[0], in[1], in[2]
		mels, bins, n := f.Shape[0], f.Shape[1], x.Shape[len(x.Shape)-1]
		group := mels
		if a.FloorScope == FloorClip {
			group *= dy.Shape[len(dy.Shape)-2]
		}
		if len(dy.Floats) == 0 {
			return nil
		}
		energy, m := make([]float64, group), make([]float64, group)
		for from := 0; from < len(dy.Floats); from += group {
			for i := range group {
				row, sum := x.Floats[(from+i)/mels*n:][:n], 0.0
				for b := range bins {
					sum += f.Floats[i%mels*bins+b] * (row[b]*row[b] + row[n/2+b]*row[n/2+b])
				}
				energy[i], m[i] = sum, math.Log10(max(sum, melLeast))
			}
			floor := slices.Max(m) - 8
			for i := range group {
				if m[i]-floor <= melMargin || energy[i] <= melLeast {
					continue
				}
				g := dy.Floats[from+i] / 4 / (energy[i] * math.Ln10)
				row, d := x.Floats[(from+i)/mels*n:][:n], out.Floats[(from+i)/mels*n:][:n]
				for b := range bins {
					dp := g * f.Floats[i%mels*bins+b]
					d[b] += 2 * row[b] * dp
					d[n/2+b] += 2 * row[n/2+b] * dp
				}
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[LogMelAttrs], _ ir.Type) int64 { return 16 * s.Syms.MaxElems(s.In[2]) },
	FLOPs: func(_ LogMelAttrs, in []ir.Type, _ ir.Type) int64 {
		return 6*numel(in[2])*in[1].Shape[1].Const + 4*numel(in[0])
	},
	Tol: func(_ LogMelAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return summed(out.DType, in[1].Shape[0].Const)
	},
	Cases: func() (cases []ir.Case[LogMelAttrs]) {
		for _, c := range LogMelDef.Cases() {
			y, err := LogMelDef.Infer(c.Attrs, c.In, ir.Type{}, nil)
			if err != nil {
				panic("BUG: op: " + err.Error())
			}
			if singleOrDouble("", c.In[0]) == nil {
				// Energies of 0.1 and more: the derivative of the logarithm is steep before that.
				cases = append(cases, ir.Case[LogMelAttrs]{Attrs: c.Attrs.(LogMelAttrs), In: append(c.In[:2:2], y),
					Fill: []ir.Range{{Lo: 0.5, Hi: 2}, {Lo: 0.2, Hi: 1}, {Lo: -2, Hi: 2}}})
			}
		}
		return cases
	},
})

// melGradient returns the energies' gradients, and the spectrum's powers, as [rows,mels] and [rows,bins].
func melGradient(spectrum, f, dy *ir.Node, a LogMelAttrs) (de, p *ir.Node) {
	y := dy.Type
	p = powers(spectrum, int(f.Type.Shape[1].Const))
	rowShape := func(x *ir.Node) ir.Shape {
		s := x.Type.Shape
		count, _ := product(s[:len(s)-1])
		return ir.Shape{count, s[len(s)-1]}
	}
	p = Reshape(p, rowShape(p))
	e := MatMul(p, f, MatMulAttrs{TransB: true})
	m := Reshape(timesConst(Log(Max(e, number(melLeast, e))), 1/math.Ln10), y.Shape)
	axes := []int{y.Rank() - 1}
	if a.FloorScope == FloorClip {
		axes = append(axes, y.Rank()-2)
	}
	above := Gt(Sub(m, plusConst(ReduceMax(m, true, axes...), -8)), number(melMargin, m))
	keep := And(Reshape(above, e.Type.Shape), Gt(e, number(melLeast, e)))
	g := Div(timesConst(Reshape(dy, e.Type.Shape), 0.25/math.Ln10), Max(e, number(melLeast, e)))
	return Where(keep, g, number(0, g)), p
}

var _ = ir.Lower(LogMelBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x, f := in[0], in[1]
	axis := x.Type.Rank() - 1
	bins, half := int(f.Type.Shape[1].Const), int(x.Type.Shape[axis].Const/2)
	de, _ := melGradient(x, f, in[2], n.Attrs.(LogMelAttrs))
	part := lastAxis(x.Type, int64(bins)).Shape
	dp := Reshape(timesConst(MatMul(de, f, MatMulAttrs{}), 2), part)
	parts := []*ir.Node{Mul(Narrow(x, axis, 0, bins), dp), nil, Mul(Narrow(x, axis, half, bins), dp), nil}
	if half == bins {
		return Concat(axis, parts[0], parts[2])
	}
	parts[1] = Const(g, 0, lastAxis(x.Type, int64(half-bins)))
	parts[3] = parts[1]
	return Concat(axis, parts...)
})

var _ = ir.Gradient(LogMelDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	in, a := allWidened(n.In[0], n.In[1], dy[0]), n.Attrs.(LogMelAttrs)
	de, p := melGradient(in[0], in[1], in[2], a)
	dx := n.Graph.Add(LogMelBackwardDef, a, in[0], in[1], in[2])
	return narrowed([]*ir.Node{dx, MatMul(de, p, MatMulAttrs{TransA: true})}, n.In), nil
})
