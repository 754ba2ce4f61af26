package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Values of the attribute pad of stft: what frames have before the first sample and after the last one.
const (
	PadNone     = "none"     // frames do not extend beyond the samples
	PadReflect  = "reflect"  // the samples in reverse, without the first or last one
	PadConstant = "constant" // zeros
)

// STFTAttrs are the attributes of stft.
type STFTAttrs struct {
	Hop  int    `attr:"hop"`
	Pad  string `attr:"pad"`
	Norm string `attr:"norm"`
}

// padding returns the number of samples by which frames extend beyond each end. size is the size of the window.
func (a STFTAttrs) padding(size int64) int64 {
	if a.Pad == PadNone {
		return 0
	}
	return size / 2
}

// STFTDef transforms overlapping frames of a signal.
var STFTDef = ir.Define(ir.Def[STFTAttrs]{
	Name: "stft",
	Doc: "The short-time Fourier transform of signals x [.., t] with a window [n] of x's type: frame f is x[f*hop - p .. f*hop - p + n) times the window, and " +
		"the result its rfft, [.., frames, 2(n/2+1)]. With pad \"none\" p is 0, and no frame reaches past the end: there are (t-n)/hop + 1, rounded down. " +
		"Else frames are centred: p is n/2, rounded down, and there are (t+2p-n)/hop + 1; past the ends x is 0 with pad \"constant\", and with " +
		"\"reflect\" the samples come again in reverse, without the one at the end, for which t must exceed p. This is torch.stft(x, n, hop, n, window, " +
		"center = (pad is not none), pad_mode=pad, return_complex=True), transposed, with normalized for norm \"ortho\".",
	Operands: "x, window",
	Infer: func(s ir.Sig[STFTAttrs]) (ir.Type, error) {
		x, w, a := s.In[0], s.In[1], s.Attrs
		if w.Rank() != 1 || w.DType != x.DType {
			return ir.Type{}, fmt.Errorf("window is %v; want rank 1 and the element type of x, %v", w, x)
		}
		if err := checkFourier(w, a.Norm); err != nil {
			return ir.Type{}, err
		}
		if x.Rank() == 0 {
			return ir.Type{}, fmt.Errorf("x is %v; want a signal of rank 1 or more", x)
		}
		if err := checkSize("hop", a.Hop, 1); err != nil {
			return ir.Type{}, err
		}
		if a.Pad != PadNone && a.Pad != PadReflect && a.Pad != PadConstant {
			return ir.Type{}, fmt.Errorf("pad is %q; want %q, %q or %q", a.Pad, PadNone, PadReflect, PadConstant)
		}
		n, last := w.Shape[0].Const, x.Shape[x.Rank()-1]
		p := a.padding(n)
		least, most := s.Syms.Bounds(last)
		if want := max(1, n-2*p); least < want {
			return ir.Type{},
				fmt.Errorf("the last axis of x, %v, may have %d samples; want %d or more for a window of %d", x, least,
					want, n)
		}
		if a.Pad == PadReflect && least <= p {
			return ir.Type{},
				fmt.Errorf("the last axis of x, %v, may have %d samples; want more than the %d that are reflected", x,
					least, p)
		}
		if most > math.MaxInt32-2*n {
			return ir.Type{}, fmt.Errorf("the last axis of x, %v, may have %d samples; want %d at most", x, most,
				math.MaxInt32-2*n)
		}
		frames, ok := last.Add(ir.Static(2*p - n))
		if ok {
			frames, ok = frames.FloorDiv(int64(a.Hop))
		}
		if ok {
			frames, ok = frames.Add(ir.Static(1))
		}
		if !ok {
			return ir.Type{}, fmt.Errorf("the number of frames of %v is not a size that can be written", x)
		}
		return ir.Type{DType: x.DType,
			Shape: slices.Concat(x.Shape[:x.Rank()-1], ir.Shape{frames, ir.Static(2 * (n/2 + 1))})}, nil
	},
	Eval: func(a STFTAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, w := in[0], in[1].Floats
		t, p := x.Shape[len(x.Shape)-1], int(a.padding(int64(len(w))))
		frames := out.Shape[len(out.Shape)-2]
		return transformRows(out, tensor.Numel(out.Shape[:len(out.Shape)-1]), len(w), a.Norm, false,
			func(row int, z []complex128) {
				for i := range z {
					at := row%frames*a.Hop - p + i
					if a.Pad == PadReflect {
						if at < 0 {
							at = -at
						}
						if at >= t {
							at = 2*(t-1) - at
						}
					}
					v := 0.0
					if at >= 0 && at < t {
						v = x.Floats[row/frames*t+at]
					}
					z[i] = complex(v*w[i], 0)
				}
			}, toBlocks)
	},
	Memory: func(s ir.Sig[STFTAttrs], _ ir.Type) int64 { return fourierMemory(s.In[1].Shape[0].Const) },
	FLOPs: func(_ STFTAttrs, in []ir.Type, out ir.Type) int64 {
		n := in[1].Shape[0].Const
		return fourierFLOPs(numel(out)/(2*(n/2+1)), n)/2 + numel(out)
	},
	Tol: func(a STFTAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return fourierTol(out.DType, int(in[1].Shape[0].Const), a.Norm, false)
	},
	Cases: func() (cases []ir.Case[STFTAttrs]) {
		c := func(hop int, pad, norm string, x, w ir.Type) {
			cases = append(cases, ir.Case[STFTAttrs]{Attrs: STFTAttrs{hop, pad, norm}, In: []ir.Type{x, w}})
		}
		for _, pad := range []string{PadNone, PadReflect, PadConstant} {
			c(4, pad, NormNone, f32(50), f32(16))
			c(3, pad, NormOrtho, f32(2, 41), f32(15))
			c(1, pad, NormNone, f32(3, 2, 9), f32(7))
			c(5, pad, NormInverse, f64(33), f64(12))
			c(160, pad, NormNone, f32(1, 1600), f32(400))
			c(2, pad, NormNone, f32(5), f32(1))
			c(7, pad, NormNone, f32(0, 20), f32(8))
		}
		c(100, PadNone, NormNone, f32(8), f32(8))
		return cases
	},
})

// STFT adds the short-time Fourier transform of x.
func STFT(x, window *ir.Node, a STFTAttrs) *ir.Node { return x.Graph.Add(STFTDef, a, x, window) }

var _ = ir.Lower(STFTDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x, w := n.Attrs.(STFTAttrs), in[0], in[1]
	axis, size := x.Type.Rank()-1, w.Type.Shape[0]
	p := int(a.padding(size.Const))
	index := func(axis int, shape ...ir.Dim) *ir.Node {
		return Iota(g, axis, ir.Type{DType: dtype.I32, Shape: shape})
	}
	at := index(0, n.Type.Shape[axis], ir.Static(1))
	at = Add(Mul(at, number(float64(a.Hop), at)), index(1, ir.Static(1), size))
	switch a.Pad {
	case PadConstant:
		around := make([]int, axis+1)
		around[axis] = p
		x = Pad(x, around, around, 0)
	case PadReflect:
		distance := func(a, b *ir.Node) *ir.Node { return Max(Sub(a, b), Sub(b, a)) }
		last := ReduceMax(index(0, x.Type.Shape[axis]), false, 0)
		at = Sub(last, distance(last, distance(at, number(float64(p), at))))
	}
	return RFFT(Mul(Gather(x, at, axis), w), a.Norm)
})
