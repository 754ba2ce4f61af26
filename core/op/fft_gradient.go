package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// The gradient of a transform is the transposed map of the real and imaginary parts. This is the transform in the other
// direction with the same factor as the transform itself: NormOrtho stays, and the others become NormNone.

func transposedNorm(norm string) string {
	if norm == NormOrtho {
		return NormOrtho
	}
	return NormNone
}

var _ = gradient(FFTDef, func(_ *ir.Node, a FFTAttrs, dy *ir.Node) []*ir.Node {
	return []*ir.Node{IFFT(dy, transposedNorm(a.Norm))}
})

var _ = gradient(IFFTDef, func(_ *ir.Node, a FFTAttrs, dy *ir.Node) []*ir.Node {
	dx := FFT(dy, transposedNorm(a.Norm))
	if n := dy.Type.Shape[dy.Type.Rank()-1].Const / 2; a.Norm == NormInverse {
		dx = timesConst(dx, 1/float64(n))
	}
	return []*ir.Node{dx}
})

// perBin multiplies the half transforms of n real numbers: re and im of the bins that equal their own mirror image by
// (edge, edgeImag), the others by inner.
func perBin(x *ir.Node, n int, edge, edgeImag, inner float64) *ir.Node {
	bins := n/2 + 1
	k := Iota(x.Graph, 0, ir.TypeOf(dtype.I32, int64(2*bins)))
	whole := func(v int) *ir.Node { return number(float64(v), k) }
	imag := Ge(k, whole(bins))
	twice := Mul(Mod(k, whole(bins)), whole(2))
	atEdge := Or(Eq(twice, whole(0)), Eq(twice, whole(n)))
	return Mul(x, Where(atEdge, Where(imag, number(edgeImag, x), number(edge, x)), number(inner, x)))
}

// irfft counts all bins twice, except those that equal their mirror image. It ignores the imaginary parts of these.
var _ = gradient(RFFTDef, func(n *ir.Node, a FFTAttrs, dy *ir.Node) []*ir.Node {
	size := int(n.In[0].Type.Shape[n.In[0].Type.Rank()-1].Const)
	return []*ir.Node{IRFFT(perBin(dy, size, 1, 1, 0.5), size, transposedNorm(a.Norm))}
})

var _ = gradient(IRFFTDef, func(_ *ir.Node, a IRFFTAttrs, dy *ir.Node) []*ir.Node {
	scale := 1.0
	if a.Norm == NormInverse {
		scale = 1 / float64(a.N)
	}
	return []*ir.Node{perBin(RFFT(dy, transposedNorm(a.Norm)), a.N, scale, 0, 2*scale)}
})
