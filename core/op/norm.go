package op

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// inferNorm checks x, an optional residual of the same type, and gamma and beta, which must have the size of the last
// axis.
func inferNorm(eps float64, in []ir.Type, residual bool) (ir.Type, error) {
	x := in[0]
	if err := isFloat("operand", x); err != nil {
		return ir.Type{}, err
	}
	if x.Rank() == 0 {
		return ir.Type{}, fmt.Errorf("x is %v; want rank 1 or more", x)
	}
	if err := checkEps(eps); err != nil {
		return ir.Type{}, err
	}
	affine := in[1:]
	if residual {
		if !in[1].Equal(x) {
			return ir.Type{}, ir.TypesDiffer(in[1], x, "residual is %v; want %v, the type of x", in[1], x)
		}
		affine = in[2:]
	}
	for i, name := range []string{"gamma", "beta"} {
		if err := vectorOf(name, affine[i], x.DType, x.Shape[x.Rank()-1]); err != nil {
			return ir.Type{}, err
		}
	}
	return x, nil
}

func checkEps(eps float64) error {
	if !(eps >= 0) || math.IsInf(eps, 1) {
		return fmt.Errorf("eps is %v; want a finite number, not negative", eps)
	}
	return nil
}

// inferChannelNorm checks x of shape [N, C, ...] and the operands called names, which must have shape [C].
func inferChannelNorm(eps float64, in []ir.Type, names ...string) (ir.Type, error) {
	x := in[0]
	if err := isFloat("operand", x); err != nil {
		return ir.Type{}, err
	}
	if x.Rank() < 2 || !x.Shape[1].IsStatic() {
		return ir.Type{}, fmt.Errorf("x is %v; want rank 2 or more and a static number of channels on axis 1", x)
	}
	for i, name := range names {
		if err := vectorOf(name, in[1+i], x.DType, x.Shape[1]); err != nil {
			return ir.Type{}, err
		}
	}
	return x, checkEps(eps)
}

// channelNormIn returns the operands of a norm over the channels of x, with the given number of vectors [C].
func channelNormIn(x ir.Type, vectors int) []ir.Type {
	return append([]ir.Type{x}, slices.Repeat([]ir.Type{{DType: x.DType, Shape: x.Shape[1:2]}}, vectors)...)
}

// gain drops leading axes of size 1 of a gamma or beta, which checkpoints may store as [1,H].
func gain(v *ir.Node) *ir.Node {
	shape := v.Type.Shape
	for len(shape) > 1 && shape[0].Is(1) {
		shape = shape[1:]
	}
	if len(shape) == v.Type.Rank() {
		return v
	}
	return Reshape(v, shape)
}

// perChannel reshapes v [C] so that it broadcasts to x of shape [N, C, ...].
func perChannel(v, x *ir.Node) *ir.Node {
	shape := slices.Repeat(ir.ShapeOf(1), x.Type.Rank()-1)
	shape[0] = v.Type.Shape[0]
	return Reshape(v, shape)
}

// moments returns the mean of x and 1/sqrt(var + eps).
func moments(eps float64, x []float64) (mean, scale float64) {
	var variance float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, 1 / math.Sqrt(variance+eps)
}

// layerNorm normalises the rows of x into y, which may be x.
func layerNorm(eps float64, x, gamma, beta, y []float64) {
	h := len(gamma)
	for r := 0; r < len(x); r += h {
		mean, s := moments(eps, x[r:r+h])
		for i, v := range x[r : r+h] {
			y[r+i] = (v-mean)*s*gamma[i] + beta[i]
		}
	}
}

// rmsNorm scales the rows of x into y, which may be x.
func rmsNorm(eps float64, x, gamma, beta, y []float64) {
	h := len(gamma)
	for r := 0; r < len(x); r += h {
		var square float64
		for _, v := range x[r : r+h] {
			square += v * v / float64(h)
		}
		s := 1 / math.Sqrt(square+eps)
		for i, v := range x[r : r+h] {
			y[r+i] = v*s*gamma[i] + beta[i]
		}
	}
}

// normTypes returns the types of x in the cases.
func normTypes() []ir.Type {
	return []ir.Type{f32(1), f32(7), f32(3, 5), f32(2, 3, 33), f32(0, 4), f32(4, 0), f32(5, 300), f16(3, 9), bf16(3, 9),
		f64(3, 5)}
}

// normIn returns the operands of a norm of x.
func normIn(x ir.Type, residual bool) []ir.Type {
	v := ir.Type{DType: x.DType, Shape: x.Shape[x.Rank()-1:]}
	if residual {
		return []ir.Type{x, x, v, v}
	}
	return []ir.Type{x, v, v}
}

// plus returns the sum of x and res, rounded to single precision unless it is f64.
func plus(x, res *tensor.Array) []float64 {
	sum := make([]float64, len(x.Floats))
	for i := range sum {
		sum[i] = x.Floats[i] + res.Floats[i]
		if x.DType != dtype.F64 {
			sum[i] = float64(float32(sum[i]))
		}
	}
	return sum
}

// plusMemory returns what plus allocates, in bytes.
func plusMemory[A any](s ir.Sig[A], _ ir.Type) int64 { return 8 * s.Syms.MaxElems(s.In[0]) }

// addNorm defines the op fused_add_NAME, of a sum and its norm.
func addNorm[A any](name string, eps func(A) float64, norm func(eps float64, x, gamma, beta, y []float64),
	attrs func(eps float64) A) *ir.OpDef {
	return ir.DefineTuple(ir.TupleDef[A]{
		Name: "fused_add_" + name,
		Doc: "sum = x + res and y = " + name + "(sum, gamma, beta), see there; x and res have equal types, f32 or f64. " +
			"One step writes both, for sums that have other readers than the norm.",
		Results:  "sum, y",
		Operands: "x, res, gamma, beta",
		InPlace:  [][]int{{0, 1}, {0, 1}},
		Infer: func(s ir.Sig[A]) ([]ir.Type, error) {
			if x := s.In[0]; x.DType != dtype.F32 && x.DType != dtype.F64 {
				return nil, fmt.Errorf("x is %v; want f32 or f64", x)
			}
			x, err := inferNorm(eps(s.Attrs), s.In, true)
			return []ir.Type{x, x}, err
		},
		Eval: func(a A, in, out []*tensor.Array) error {
			copy(out[0].Floats, plus(in[0], in[1]))
			norm(eps(a), out[0].Floats, in[2].Floats, in[3].Floats, out[1].Floats)
			return nil
		},
		Memory: func(s ir.Sig[A], _ []ir.Type) int64 { return 8 * s.Syms.MaxElems(s.In[0]) },
		FLOPs:  func(_ A, _, out []ir.Type) int64 { return 9 * numel(out[0]) },
		Tol: func(_ A, _, out []ir.Type) []ir.Tolerance {
			tol := forDType(out[0].DType, 1e-6, 1e-5) // as add and the norm
			return []ir.Tolerance{tol, tol}
		},
		Cases: func() (cases []ir.Case[A]) {
			for _, x := range normTypes() {
				if x.DType == dtype.F32 || x.DType == dtype.F64 {
					cases = append(cases, ir.Case[A]{Attrs: attrs(1e-6), In: normIn(x, true)})
				}
			}
			return cases
		},
	})
}

// scaled adds x / sqrt(square + eps) * gamma + beta.
func scaled(x, square *ir.Node, eps float64, gamma, beta *ir.Node) *ir.Node {
	return Add(Mul(Mul(x, Rsqrt(Add(square, number(eps, x)))), gamma), beta)
}
