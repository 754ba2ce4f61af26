package op

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// WelchPeaksAttrs are the attributes of welch_peaks.
type WelchPeaksAttrs struct {
	K        int  `attr:"k"`
	Segments int  `attr:"segments"`
	OneSided bool `attr:"one_sided"` // the spectrum comes from rfft, not fft
}

// bins returns the number of bins of a power spectrum.
func (a WelchPeaksAttrs) bins(x ir.Type) int64 {
	half := x.Shape[1].Const / 2
	if a.OneSided {
		return half
	}
	return half/2 + 1
}

// WelchPeaksDef finds the largest bins of an averaged spectrum.
var WelchPeaksDef = ir.Define(ir.Def[WelchPeaksAttrs]{
	Name: "welch_peaks",
	Doc: "The k largest bins of power spectra that are averaged over segments (Welch, 1967): of [rows, 2n], fft's of rows of n samples, or with one_sided " +
		"[rows, 2 bins], rfft's, each run of segments rows is one signal. The power of bin b is the mean of re^2 + im^2 over the segments, doubled but " +
		"for bin 0 and the last of the n/2+1; it is not scaled by a window or a sampling rate. The result is [rows/segments, 2k]: k pairs of a bin, as a " +
		"float, and its power, the largest first and equal ones by their bin. These are the largest bins, not local maxima. k is 1 to the number of bins. " +
		"NaN comes last.",
	Operands: "spectra",
	Infer: func(s ir.Sig[WelchPeaksAttrs]) (ir.Type, error) {
		x, a := s.In[0], s.Attrs
		if x.DType != dtype.F32 && x.DType != dtype.F64 {
			return ir.Type{}, fmt.Errorf("spectra is %v; want f32 or f64", x)
		}
		if x.Rank() != 2 || !x.Shape[1].IsStatic() || x.Shape[1].Const < 2 || x.Shape[1].Const%2 != 0 {
			return ir.Type{},
				fmt.Errorf("spectra is %v; want rank 2 and a last axis of static and even size, 2 or more", x)
		}
		if err := checkSize("segments", a.Segments, 1); err != nil {
			return ir.Type{}, err
		}
		bins := a.bins(x)
		if a.K < 1 || int64(a.K) > bins {
			return ir.Type{}, fmt.Errorf("k is %d; want 1 to %d, the bins of spectra, %v", a.K, bins, x)
		}
		if limit := maxIndex[dtype.F32]; bins > limit {
			return ir.Type{}, fmt.Errorf("spectra, %v, has %d bins; want %d at most, which f32 tells apart", x, bins,
				limit)
		}
		signals, ok := x.Shape[0].Div(ir.Static(int64(a.Segments)))
		if !ok {
			return ir.Type{}, fmt.Errorf("spectra, %v, has a number of rows that is not a multiple of segments, %d", x,
				a.Segments)
		}
		return ir.Type{DType: x.DType, Shape: ir.Shape{signals, ir.Static(int64(2 * a.K))}}, nil
	},
	Eval: func(a WelchPeaksAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, n := in[0], in[0].Shape[1]
		bins := int(a.bins(ir.TypeOf(x.DType, int64(x.Shape[0]), int64(n))))
		power, order := tensor.NewArray(x.DType, bins), make([]int, bins)
		for signal := range out.Shape[0] {
			clear(power.Floats)
			for b := range bins {
				order[b] = b
				for s := range a.Segments {
					row := x.Floats[(signal*a.Segments+s)*n:]
					power.Floats[b] += row[b]*row[b] + row[n/2+b]*row[n/2+b]
				}
				power.Floats[b] /= float64(a.Segments)
				if b != 0 && b != bins-1 {
					power.Floats[b] *= 2
				}
			}
			slices.SortStableFunc(order, func(i, j int) int { return descending(power, i, j) })
			for j, b := range order[:a.K] {
				out.Floats[signal*2*a.K+2*j], out.Floats[signal*2*a.K+2*j+1] = float64(b), power.Floats[b]
			}
		}
		return nil
	},
	Memory: func(s ir.Sig[WelchPeaksAttrs], _ ir.Type) int64 { return 16 * s.Attrs.bins(s.In[0]) },
	FLOPs:  func(_ WelchPeaksAttrs, in []ir.Type, _ ir.Type) int64 { return 2 * numel(in[0]) },
	Tol:    rounded[WelchPeaksAttrs],
	Cases: func() (cases []ir.Case[WelchPeaksAttrs]) {
		c := func(k, segments int, oneSided bool, x ir.Type) {
			cases = append(
				cases, ir.Case[WelchPeaksAttrs]{Attrs: WelchPeaksAttrs{k, segments, oneSided}, In: []ir.Type{x}})
		}
		c(1, 1, false, f32(1, 2))
		c(3, 2, false, f32(6, 16))
		c(5, 3, false, f32(3, 16))
		c(4, 1, false, f32(5, 14))
		c(4, 4, true, f32(8, 34))
		c(2, 3, false, f64(6, 20))
		c(2, 3, false, f32(0, 20))
		return cases
	},
})

// WelchPeaks adds the largest bins of power spectra, averaged over segments, as pairs of a bin and its power.
func WelchPeaks(x *ir.Node, a WelchPeaksAttrs) *ir.Node { return x.Graph.Add(WelchPeaksDef, a, x) }

var _ = ir.Lower(WelchPeaksDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, signals := n.Attrs.(WelchPeaksAttrs), n.Type.Shape[0]
	bins := ir.Static(a.bins(in[0].Type))
	shape := func(d ...ir.Dim) ir.Shape { return d }
	p := Reshape(powers(in[0], int(bins.Const)), shape(signals, ir.Static(int64(a.Segments)), bins))
	p = ReduceMean(p, false, 1)
	b := Iota(g, 0, ir.Type{DType: p.Type.DType, Shape: shape(bins)})
	// min(b, last - b, 1) is 0 at both ends and 1 in between.
	inside := Min(Min(b, Sub(number(float64(bins.Const-1), b), b)), number(1, b))
	values, indices := TopK(Mul(p, Add(inside, number(1, b))), a.K)
	pairs := shape(signals, ir.Static(int64(a.K)), ir.Static(1))
	return Reshape(Concat(2, Reshape(Cast(indices, p.Type.DType), pairs), Reshape(values, pairs)), n.Type.Shape)
})
