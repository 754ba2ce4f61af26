package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

func init() {
	for name, kind := range map[string]kernels.FFTKind{
		"fft": kernels.FFTForward, "ifft": kernels.FFTInverse, "rfft": kernels.FFTReal, "irfft": kernels.FFTRealInverse,
	} {
		register(kernel{op: name, takes: "(f32|f64)", prepare: func(n *ir.Node) func(*call) error {
			if n.Type.DType == dtype.F64 {
				return transform[float64](fftSpec(n, kind))
			}
			return transform[float32](fftSpec(n, kind))
		}, scratch: func(p *kernels.Pool, n *ir.Node, _ kernels.Precision) kernels.ScratchSize {
			if n.Type.DType == dtype.F64 {
				return kernels.FFTScratch[float64](p, fftSpec(n, kind))
			}
			return kernels.FFTScratch[float32](p, fftSpec(n, kind))
		}})
	}
}

func transform[T interface {
	tensor.Element
	float32 | float64
}](s kernels.FFTSpec) func(*call) error {
	return func(c *call) error {
		rows, _ := rowsOf(c.out)
		kernels.FFT(c.pool, s, view[T](c.out), view[T](c.in[0]), rows)
		return nil
	}
}

func fftSpec(n *ir.Node, kind kernels.FFTKind) kernels.FFTSpec {
	a, inverse := n.Attrs, kind == kernels.FFTInverse || kind == kernels.FFTRealInverse
	if r, ok := a.(op.IRFFTAttrs); ok {
		return kernels.FFTSpec{Kind: kind, N: r.N, Scale: op.FourierScale(r.Norm, r.N, inverse)}
	}
	x := n.In[0].Type
	size := int(x.Shape[x.Rank()-1].Const)
	if kind != kernels.FFTReal {
		size /= 2
	}
	return kernels.FFTSpec{Kind: kind, N: size, Scale: op.FourierScale(a.(op.FFTAttrs).Norm, size, inverse)}
}
