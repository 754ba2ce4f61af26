package op

import "github.com/rlx-go/rlx/core/ir"

// FFTDef defines the Fourier transform of complex numbers.
var FFTDef = complexTransform(
	"fft", "The discrete Fourier transform of the last axis: X_k = sum over j of x_j e^(-2 pi i j k / n), k from 0 to n-1.",
	false)

// FFT adds the Fourier transform of the last axis, whose first half has the real parts. norm is NormNone, NormInverse
// or NormOrtho.
func FFT(x *ir.Node, norm string) *ir.Node { return x.Graph.Add(FFTDef, FFTAttrs{norm}, x) }
