package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Values of the floor's scope in log_mel: the elements whose maximum determines the floor.
const (
	FloorFrame = "frame" // the elements of a frame
	FloorClip  = "clip"  // all frames of a clip, as in Whisper
)

// LogMelAttrs are the attributes of log_mel.
type LogMelAttrs struct {
	FloorScope string `attr:"floor_scope"`
}

// LogMelDef computes the features of speech models from a spectrum.
var LogMelDef = ir.Define(ir.Def[LogMelAttrs]{
	Name: "log_mel",
	Doc: "Log-mel features of a spectrum by filters [mels, bins], to [.., mels]. The spectrum is rfft's, [.., 2 bins], or fft's of bins = n/2+1, [.., 2n]; " +
		"of it the first bins count: p = re^2 + im^2, m = log10(max(filters p, 1e-10)), y = (max(m, top - 8) + 4)/4, where top is the largest m of " +
		"the frame with floor_scope \"frame\", and with \"clip\" of the last two axes, [frames, mels], as in Whisper (audio.py, log_mel_spectrogram).",
	Operands: "spectrum, filters",
	Infer: func(s ir.Sig[LogMelAttrs]) (ir.Type, error) {
		x, f, least := s.In[0], s.In[1], 1
		switch s.Attrs.FloorScope {
		case FloorFrame:
		case FloorClip:
			least = 2
		default:
			return ir.Type{}, fmt.Errorf("floor_scope is %q; want %q or %q", s.Attrs.FloorScope, FloorFrame, FloorClip)
		}
		if err := sameFloats(x, f); err != nil {
			return ir.Type{}, err
		}
		if x.Rank() < least || f.Rank() != 2 || !f.Shape.IsStatic() || f.Shape[0].Const < 1 || f.Shape[1].Const < 1 {
			return ir.Type{},
				fmt.Errorf(
					"operands are %v and %v; want a spectrum of rank %d or more and filters [mels, bins] of static size",
					x, f, least)
		}
		bins, last := f.Shape[1].Const, x.Shape[x.Rank()-1]
		if !last.Is(2*bins) && !(bins > 1 && last.Is(2*(2*bins-2))) && !last.Is(2*(2*bins-1)) {
			return ir.Type{},
				fmt.Errorf(
					"the last axis of spectrum, %v, is not a spectrum of %d bins; want %d elements of rfft, or %d or %d of fft",
					x, bins, 2*bins, 4*bins-4, 4*bins-2)
		}
		return lastAxis(x, f.Shape[0].Const), nil
	},
	Eval: func(a LogMelAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, f := in[0], in[1]
		mels, bins, n := f.Shape[0], f.Shape[1], x.Shape[len(x.Shape)-1]
		group := mels // number of elements with the same maximum
		if a.FloorScope == FloorClip {
			group *= out.Shape[len(out.Shape)-2]
		}
		for i := range out.Floats {
			row, sum := x.Floats[i/mels*n:][:n], 0.0
			for b := range bins {
				re, im := row[b], row[n/2+b]
				sum += f.Floats[i%mels*bins+b] * (re*re + im*im)
			}
			out.Floats[i] = math.Log10(max(sum, 1e-10))
		}
		for i := 0; i < len(out.Floats); i += group {
			top := slices.Max(out.Floats[i : i+group])
			for k := i; k < i+group; k++ {
				out.Floats[k] = (max(out.Floats[k], top-8) + 4) / 4
			}
		}
		return nil
	},
	FLOPs: func(_ LogMelAttrs, in []ir.Type, out ir.Type) int64 {
		return 2*numel(out)*in[1].Shape[1].Const + 2*numel(in[0])
	},
	Tol: rounded[LogMelAttrs],
	Cases: func() (cases []ir.Case[LogMelAttrs]) {
		c := func(scope string, x, f ir.Type) {
			cases = append(
				cases, ir.Case[LogMelAttrs]{Attrs: LogMelAttrs{scope}, In: []ir.Type{x, f},
					Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0.01, Hi: 1}}})
		}
		for _, scope := range []string{FloorFrame, FloorClip} {
			c(scope, f32(3, 10), f32(4, 5))
			c(scope, f32(2, 3, 16), f32(4, 5))
			c(scope, f32(7, 18), f32(2, 5))
			c(scope, f32(2, 9, 402), f32(80, 201))
			c(scope, f32(0, 2, 10), f32(4, 5))
			c(scope, f64(3, 2), f64(1, 1))
			c(scope, f16(3, 10), f16(4, 5))
		}
		return append(
			cases, ir.Case[LogMelAttrs]{Attrs: LogMelAttrs{FloorFrame}, In: []ir.Type{f32(8), f32(3, 4)},
				Fill: []ir.Range{{Lo: -2, Hi: 2}, {Lo: 0.01, Hi: 1}}})
	},
})

// sameFloats checks that operands are floats of one type.
func sameFloats(in ...ir.Type) error {
	if err := isFloat("spectrum", in[0]); err != nil {
		return err
	}
	return sameDType(in)
}

// LogMel adds the log-mel features of a spectrum. floorScope is FloorFrame or FloorClip.
func LogMel(spectrum, filters *ir.Node, floorScope string) *ir.Node {
	return spectrum.Graph.Add(LogMelDef, LogMelAttrs{floorScope}, spectrum, filters)
}

// powers returns re^2 + im^2 of the first bins of a spectrum. The last axis of x has n real and then n imaginary parts.
func powers(x *ir.Node, bins int) *ir.Node {
	axis := x.Type.Rank() - 1
	re, im := Narrow(x, axis, 0, bins), Narrow(x, axis, int(x.Type.Shape[axis].Const/2), bins)
	return Add(Mul(re, re), Mul(im, im))
}

var _ = ir.Lower(LogMelDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	f, axes := in[1], []int{n.Type.Rank() - 1}
	if n.Attrs.(LogMelAttrs).FloorScope == FloorClip {
		axes = append(axes, n.Type.Rank()-2)
	}
	p := powers(in[0], int(f.Type.Shape[1].Const))
	row := p.Type.Rank() == 1
	if row {
		p = Reshape(p, append(ir.Shape{ir.Static(1)}, p.Type.Shape...))
	}
	m := MatMul(p, f, MatMulAttrs{TransB: true})
	if row {
		m = Reshape(m, n.Type.Shape)
	}
	m = Mul(Log(Max(m, number(1e-10, m))), number(1/math.Ln10, m))
	m = Max(m, Sub(ReduceMax(m, true, axes...), number(8, m)))
	return Mul(Add(m, number(4, m)), number(0.25, m))
})
