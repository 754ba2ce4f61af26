package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// exact is the Tol of ops that move or compare values.
func exact[A any](A, []ir.Type, ir.Type) ir.Tolerance { return ir.Tolerance{} }

// exactAll is like exact for ops with several results.
func exactAll[A any](_ A, _, out []ir.Type) []ir.Tolerance { return make([]ir.Tolerance, len(out)) }

// rounded is the Tol of elementwise arithmetic, norms and softmax: 1e-6 + 1e-5*|want| in f32.
func rounded[A any](_ A, _ []ir.Type, out ir.Type) ir.Tolerance {
	return forDType(out.DType, 1e-6, 1e-5)
}

// forDType adapts a tolerance for f32 to the type of the result. Kernels compute f16 and bf16 in f32 and round once,
// which may add an error of one unit in the last place. They compute f64 in f64. Integers are exact.
func forDType(d dtype.DType, abs, rel float64) ir.Tolerance {
	switch d {
	case dtype.F32:
		return ir.Tolerance{Abs: abs, Rel: rel}
	case dtype.F16:
		return ir.Tolerance{Abs: abs + 0x1p-24, Rel: rel + 0x1p-10}
	case dtype.BF16:
		return ir.Tolerance{Abs: abs, Rel: rel + 0x1p-7}
	case dtype.F64:
		return ir.Tolerance{Abs: abs * 1e-7, Rel: rel * 1e-7}
	}
	return ir.Tolerance{}
}

// summed returns the tolerance of a sum of k products: 1e-6*sqrt(k) + 1e-5*|want| in f32.
func summed(out dtype.DType, k int64) ir.Tolerance {
	return forDType(out, 1e-6*math.Sqrt(float64(max(k, 1))), 1e-5)
}
