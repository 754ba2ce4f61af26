package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Windows for short-time Fourier transforms.
const (
	Hann    = "hann"
	Hamming = "hamming"
)

// windowFloor has the smallest value of each window: w = floor + (1 - floor) sin^2.
var windowFloor = map[string]float64{Hann: 0, Hamming: 0.08}

// WindowAttrs are the attributes of window.
type WindowAttrs struct {
	Kind     string `attr:"kind"`
	Periodic bool   `attr:"periodic"`
}

// angle returns the factor of index k in the argument of the sine. A window is one half wave of a sine, squared.
func (a WindowAttrs) angle(n int64) float64 {
	if !a.Periodic {
		n--
	}
	return math.Pi / float64(n)
}

// WindowDef defines a window for Fourier transforms.
var WindowDef = ir.Define(ir.Def[WindowAttrs]{
	Name: "window",
	Doc: "A window of the declared type, floats [n], n static: \"hann\" is 0.5 - 0.5 cos(2 pi k/d), \"hamming\" is 0.54 - 0.46 cos(2 pi k/d), where d is n " +
		"of a periodic window, for transforms, and n-1 of a symmetric one, for filters. The only element of a window of size 1 is 1. The same as " +
		"scipy.signal.windows.hann and hamming with sym=False, and torch.hann_window and hamming_window with periodic=True.",
	Declared: true,
	Infer: func(s ir.Sig[WindowAttrs]) (ir.Type, error) {
		t := s.Declared
		if _, ok := windowFloor[s.Attrs.Kind]; !ok {
			return ir.Type{}, fmt.Errorf("kind is %q; want %q or %q", s.Attrs.Kind, Hann, Hamming)
		}
		if !t.DType.IsFloat() || t.Rank() != 1 || !t.Shape.IsStatic() {
			return ir.Type{}, fmt.Errorf("declared type is %v; want floats of rank 1 and static size", t)
		}
		return t, nil
	},
	Eval: func(a WindowAttrs, _ []*tensor.Array, out *tensor.Array) error {
		floor, step := windowFloor[a.Kind], a.angle(int64(len(out.Floats)))
		for k := range out.Floats {
			sin := math.Sin(step * float64(k))
			out.Floats[k] = floor + (1-floor)*sin*sin
		}
		if len(out.Floats) == 1 {
			out.Floats[0] = 1
		}
		return nil
	},
	FLOPs: perElement[WindowAttrs](8),
	Tol:   rounded[WindowAttrs],
	Cases: func() (cases []ir.Case[WindowAttrs]) {
		for _, kind := range []string{Hann, Hamming} {
			for _, periodic := range []bool{true, false} {
				for _, t := range []ir.Type{f32(0), f32(1), f32(2), f32(7), f32(400), f64(33), f16(16), bf16(5)} {
					cases = append(cases, ir.Case[WindowAttrs]{Attrs: WindowAttrs{kind, periodic}, Out: t})
				}
			}
		}
		return cases
	},
})

// Window adds a window of type t. kind is Hann or Hamming.
func Window(g *ir.Graph, kind string, periodic bool, t ir.Type) *ir.Node {
	return g.AddDeclared(WindowDef, WindowAttrs{kind, periodic}, t)
}

var _ = ir.Lower(WindowDef, func(g *ir.Graph, n *ir.Node, _ []*ir.Node) *ir.Node {
	a, size := n.Attrs.(WindowAttrs), n.Type.Shape[0].Const
	wide := n.Type
	if wide.DType != dtype.F64 {
		wide.DType = dtype.F32
	}
	if size <= 1 {
		return Const(g, 1, n.Type)
	}
	k := Iota(g, 0, wide)
	sin := Sin(Mul(k, number(a.angle(size), k)))
	y := Mul(sin, sin)
	if floor := windowFloor[a.Kind]; floor != 0 {
		y = Add(Mul(y, number(1-floor, k)), number(floor, k))
	}
	if wide.DType != n.Type.DType {
		y = Cast(y, n.Type.DType)
	}
	return y
})
