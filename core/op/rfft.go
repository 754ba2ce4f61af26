package op

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RFFTDef defines the Fourier transform of real numbers.
var RFFTDef = ir.Define(ir.Def[FFTAttrs]{
	Name: "rfft",
	Doc: "The discrete Fourier transform of real numbers, [.., n] to [.., 2(n/2+1)]: fft's X_0 to X_{n/2}, n/2 rounded down, as numpy.fft.rfft " +
		"gives them. The other X_k are the conjugates of X_{n-k}. " + fourierDoc,
	Operands: "x",
	Infer: func(s ir.Sig[FFTAttrs]) (ir.Type, error) {
		x := s.In[0]
		if err := checkFourier(x, s.Attrs.Norm); err != nil {
			return ir.Type{}, err
		}
		return lastAxis(x, 2*(x.Shape[x.Rank()-1].Const/2+1)), nil
	},
	Eval: func(a FFTAttrs, in []*tensor.Array, out *tensor.Array) error {
		x := in[0]
		rows, n := rowsAndLast(x)
		return transformRows(out, rows, n, a.Norm, false, func(row int, z []complex128) {
			for i := range z {
				z[i] = complex(x.Floats[row*n+i], 0)
			}
		}, toBlocks)
	},
	Memory: func(s ir.Sig[FFTAttrs], _ ir.Type) int64 { return fourierMemory(s.In[0].Shape[s.In[0].Rank()-1].Const) },
	FLOPs: func(_ FFTAttrs, in []ir.Type, _ ir.Type) int64 {
		n := in[0].Shape[in[0].Rank()-1].Const
		return fourierFLOPs(numel(in[0])/n, n) / 2
	},
	Tol: func(a FFTAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		return fourierTol(out.DType, int(in[0].Shape[in[0].Rank()-1].Const), a.Norm, false)
	},
	Cases: func() (cases []ir.Case[FFTAttrs]) {
		norms := []string{NormNone, NormInverse, NormOrtho}
		c := func(norm string, t ir.Type) {
			cases = append(cases, ir.Case[FFTAttrs]{Attrs: FFTAttrs{norm}, In: []ir.Type{t}})
		}
		for i, n := range fourierLengths {
			c(norms[i%3], f32(1+int64(i%3), n))
		}
		for _, norm := range norms {
			c(norm, f32(20))
			c(norm, f64(3, 2, 15))
		}
		c(NormNone, f32(35, 400))
		c(NormNone, f32(0, 8))
		c(NormInverse, f64(19, 300))
		return cases
	},
})

// RFFT adds the Fourier transform of the n real numbers on the last axis, as n/2+1 complex numbers. norm is NormNone,
// NormInverse or NormOrtho.
func RFFT(x *ir.Node, norm string) *ir.Node { return x.Graph.Add(RFFTDef, FFTAttrs{norm}, x) }
