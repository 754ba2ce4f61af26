package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// A backward op has the operands of its forward op that it needs, and the gradient dy of the result. It takes f32 and
// f64 only. The gradient rules cast f16 and bf16 to f32 and the gradients back, so that they round once.

// singleOrDouble returns an error unless a backward op's operand is f32 or f64.
func singleOrDouble(name string, t ir.Type) error {
	if t.DType != dtype.F32 && t.DType != dtype.F64 {
		return fmt.Errorf("%s is %v; want f32 or f64", name, t)
	}
	return nil
}

// normalized has what the backward ops of norms compute for a row of x: xhat = (x-mean)*scale, with mean 0 unless the
// norm centers.
type normalized struct {
	mean, scale float64
	center      bool
}

func normalizedRow(eps float64, x []float64, center bool) normalized {
	if center {
		mean, scale := moments(eps, x)
		return normalized{mean, scale, true}
	}
	var square float64
	for _, v := range x {
		square += v * v / float64(len(x))
	}
	return normalized{0, 1 / math.Sqrt(square+eps), false}
}

// back writes dx of a row. g is dy*gamma, which it overwrites.
func (s normalized) back(x, g, dx []float64) {
	n := float64(len(x))
	var mean, slope float64
	for i, v := range x {
		if s.center {
			mean += g[i] / n
		}
		slope += g[i] * (v - s.mean) * s.scale / n
	}
	for i, v := range x {
		dx[i] = s.scale * (g[i] - mean - (v-s.mean)*s.scale*slope)
	}
}

// normBackward defines NAME_backward for a norm over the last axis.
func normBackward[A any](name, doc string, center bool, eps func(A) float64, attrs func(eps float64) A) *ir.OpDef {
	return ir.DefineTuple(ir.TupleDef[A]{
		Name:     name + "_backward",
		Doc:      doc,
		Results:  "dx, dgamma, dbeta",
		Operands: "x, gamma, dy",
		Infer: func(s ir.Sig[A]) ([]ir.Type, error) {
			x, gamma, dy := s.In[0], s.In[1], s.In[2]
			if err := singleOrDouble("x", x); err != nil {
				return nil, err
			}
			if _, err := inferNorm(eps(s.Attrs), []ir.Type{x, gamma, gamma}, false); err != nil {
				return nil, err
			}
			if !dy.Equal(x) {
				return nil, ir.TypesDiffer(dy, x, "dy is %v; want %v, the type of x", dy, x)
			}
			return []ir.Type{x, gamma, gamma}, nil
		},
		Eval: func(a A, in, out []*tensor.Array) error {
			x, gamma, dy := in[0].Floats, in[1].Floats, in[2].Floats
			h := len(gamma)
			g := make([]float64, h)
			for r := 0; r < len(x); r += h {
				row := x[r : r+h]
				s := normalizedRow(eps(a), row, center)
				for i, v := range dy[r : r+h] {
					g[i] = v * gamma[i]
					out[1].Floats[i] += v * (row[i] - s.mean) * s.scale
					out[2].Floats[i] += v
				}
				s.back(row, g, out[0].Floats[r:r+h])
			}
			return nil
		},
		Memory: func(s ir.Sig[A], _ []ir.Type) int64 { return 8 * 3 * s.Syms.MaxElems(s.In[1]) },
		FLOPs:  func(_ A, in, _ []ir.Type) int64 { return 15 * numel(in[0]) },
		Tol: func(_ A, in, out []ir.Type) []ir.Tolerance {
			sum := summed(out[1].DType, numel(in[0])/max(numel(in[1]), 1))
			return []ir.Tolerance{forDType(out[0].DType, 1e-6, 1e-5), sum, sum}
		},
		Cases: func() (cases []ir.Case[A]) {
			types := append(normTypes(), f32(513, 24), f32(3, 1030), f32(70, 64))
			for _, x := range types {
				if x.DType == dtype.F32 || x.DType == dtype.F64 {
					v := ir.Type{DType: x.DType, Shape: x.Shape[x.Rank()-1:]}
					cases = append(cases, ir.Case[A]{Attrs: attrs(1e-2), In: []ir.Type{x, v, x}})
				}
			}
			return cases
		},
	})
}

// lowerNormBackward adds the gradients of x, gamma and beta for a norm over the given axes of d: x, less its mean
// if the norm centers. gamma broadcasts to x. sum sums a value of x's shape over the axes on which gamma is repeated.
func lowerNormBackward(d, gamma, dy *ir.Node, eps float64, center bool, axes []int,
	sum func(*ir.Node) *ir.Node) []*ir.Node {
	scale := Rsqrt(Add(ReduceMean(Mul(d, d), true, axes...), number(eps, d)))
	xhat, g := Mul(d, scale), Mul(dy, gamma)
	dx := Sub(g, Mul(xhat, ReduceMean(Mul(g, xhat), true, axes...)))
	if center {
		dx = Sub(dx, ReduceMean(g, true, axes...))
	}
	return []*ir.Node{Mul(dx, scale), sum(Mul(dy, xhat)), sum(dy)}
}

// lowerRowsBackward is lowerNormBackward over the last axis.
func lowerRowsBackward(in []*ir.Node, eps float64, center bool) []*ir.Node {
	d, last := in[0], in[0].Type.Rank()-1
	if center {
		d = Sub(d, ReduceMean(d, true, last))
	}
	lead := make([]int, last)
	for i := range lead {
		lead[i] = i
	}
	return lowerNormBackward(d, in[1], in[2], eps, center, []int{last}, func(v *ir.Node) *ir.Node {
		return ReduceSum(v, false, lead...)
	})
}
