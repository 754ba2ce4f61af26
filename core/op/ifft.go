package op

import "github.com/rlx-go/rlx/core/ir"

// IFFTDef defines the inverse Fourier transform of complex numbers.
var IFFTDef = complexTransform(
	"ifft", "The inverse discrete Fourier transform of the last axis: x_j = sum over k of X_k e^(2 pi i j k / n), j from 0 to n-1.",
	true)

// IFFT adds the inverse Fourier transform of the last axis; see FFT.
func IFFT(x *ir.Node, norm string) *ir.Node { return x.Graph.Add(IFFTDef, FFTAttrs{norm}, x) }
