package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/fft"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

func init() {
	for name, kind := range map[string]fft.Kind{
		"fft": fft.Forward, "ifft": fft.Inverse, "rfft": fft.Real, "irfft": fft.RealInverse,
	} {
		register(kernel{op: name, takes: "(f32|f64)", prepare: func(n *ir.Node) func(*call) error {
			if n.Type.DType == dtype.F64 {
				return transform[float64](fftSpec(n, kind))
			}
			return transform[float32](fftSpec(n, kind))
		}, scratch: func(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			if n.Type.DType == dtype.F64 {
				return fft.Scratch[float64](p, fftSpec(n, kind))
			}
			return fft.Scratch[float32](p, fftSpec(n, kind))
		}})
	}
}

func transform[T interface {
	tensor.Element
	float32 | float64
}](s fft.Spec) func(*call) error {
	return func(c *call) error {
		rows, _ := rowsOf(c.out)
		fft.Transform(c.pool, s, view[T](c.out), view[T](c.in[0]), rows)
		return nil
	}
}

func fftSpec(n *ir.Node, kind fft.Kind) fft.Spec {
	a, inverse := n.Attrs, kind == fft.Inverse || kind == fft.RealInverse
	if r, ok := a.(op.IRFFTAttrs); ok {
		return fft.Spec{Kind: kind, N: r.N, Scale: op.FourierScale(r.Norm, r.N, inverse)}
	}
	x := n.In[0].Type
	size := int(x.Shape[x.Rank()-1].Const)
	if kind != fft.Real {
		size /= 2
	}
	return fft.Spec{Kind: kind, N: size, Scale: op.FourierScale(a.(op.FFTAttrs).Norm, size, inverse)}
}
