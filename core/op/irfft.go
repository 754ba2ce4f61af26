package op

import (
	"fmt"
	"math/cmplx"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// IRFFTAttrs are the attributes of irfft.
type IRFFTAttrs struct {
	N    int    `attr:"n"` // number of real numbers; n/2+1 complex numbers do not determine it
	Norm string `attr:"norm"`
}

// IRFFTDef defines the inverse Fourier transform to real numbers.
var IRFFTDef = ir.Define(ir.Def[IRFFTAttrs]{
	Name: "irfft",
	Doc: "The inverse discrete Fourier transform to n real numbers, [.., 2(n/2+1)] to [.., n]: ifft of X_0 to X_{n/2} and of their conjugates " +
		"X_{n-k}, as numpy.fft.irfft. The imaginary parts of X_0 and, where n is even, of X_{n/2} are ignored. " +
		fourierDoc,
	Operands: "x",
	Infer: func(s ir.Sig[IRFFTAttrs]) (ir.Type, error) {
		x, n := s.In[0], s.Attrs.N
		if err := checkFourier(x, s.Attrs.Norm); err != nil {
			return ir.Type{}, err
		}
		if err := checkSize("n", n, 1); err != nil {
			return ir.Type{}, err
		}
		if bins := int64(n/2 + 1); x.Shape[x.Rank()-1].Const != 2*bins {
			return ir.Type{},
				fmt.Errorf(
					"the last axis of x, %v, does not hold the n/2+1 = %d complex numbers of n = %d real ones; want %d elements",
					x, bins, n, 2*bins)
		}
		return lastAxis(x, int64(n)), nil
	},
	Eval: func(a IRFFTAttrs, in []*tensor.Array, out *tensor.Array) error {
		x := in[0]
		rows, n := rowsAndLast(out)
		half := n/2 + 1
		return transformRows(out, rows, n, a.Norm, true, func(row int, z []complex128) {
			for k := range half {
				v := complex(x.Floats[2*row*half+k], x.Floats[2*row*half+half+k])
				if 2*k%n == 0 {
					v = complex(real(v), 0)
				}
				z[(n-k)%n] = cmplx.Conj(v)
				z[k] = v
			}
		}, func(y []float64, z []complex128) {
			for i, v := range z {
				y[i] = real(v)
			}
		})
	},
	Memory: func(s ir.Sig[IRFFTAttrs], _ ir.Type) int64 { return fourierMemory(int64(s.Attrs.N)) },
	FLOPs: func(a IRFFTAttrs, _ []ir.Type, out ir.Type) int64 {
		return fourierFLOPs(numel(out)/int64(a.N), int64(a.N)) / 2
	},
	Tol: func(a IRFFTAttrs, _ []ir.Type, out ir.Type) ir.Tolerance {
		return fourierTol(out.DType, a.N, a.Norm, true)
	},
	Cases: func() (cases []ir.Case[IRFFTAttrs]) {
		norms := []string{NormNone, NormInverse, NormOrtho}
		c := func(n int, norm string, t ir.Type) {
			cases = append(cases, ir.Case[IRFFTAttrs]{Attrs: IRFFTAttrs{n, norm}, In: []ir.Type{t}})
		}
		for i, n := range fourierLengths {
			c(int(n), norms[i%3], f32(1+int64(i%3), 2*(n/2+1)))
		}
		for _, norm := range norms {
			c(10, norm, f32(12))
			c(15, norm, f64(3, 2, 16))
		}
		c(400, NormInverse, f32(35, 402))
		c(8, NormNone, f32(0, 10))
		c(300, NormInverse, f64(19, 302))
		return cases
	},
})

// IRFFT adds the inverse Fourier transform of n/2+1 complex numbers to n real ones.
func IRFFT(x *ir.Node, n int, norm string) *ir.Node {
	return x.Graph.Add(IRFFTDef, IRFFTAttrs{n, norm}, x)
}
