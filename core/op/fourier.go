package op

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Normalisations of Fourier transforms of n numbers.
const (
	NormNone    = "none"    // not scaled: ifft(fft(x)) = n*x
	NormInverse = "inverse" // the inverse transform is scaled by 1/n, as in NumPy by default
	NormOrtho   = "ortho"   // both are scaled by 1/sqrt(n)
)

// fourierDoc ends the documentation of all transforms.
const fourierDoc = "There is no complex element type: n complex numbers are 2n elements of the last axis, all real parts and then all imaginary parts. " +
	"f32 and f64, n any static size from 1. norm says what the transform is multiplied by: \"none\": 1; \"inverse\": 1/n if it is an " +
	"inverse one, else 1; \"ortho\": 1/sqrt(n). If any number of a transform is NaN or infinite, its whole result is NaN."

// checkFourier checks the requirements of all transforms.
func checkFourier(x ir.Type, norm string) error {
	if x.DType != dtype.F32 && x.DType != dtype.F64 {
		return fmt.Errorf("x is %v; want f32 or f64", x)
	}
	if x.Rank() == 0 {
		return fmt.Errorf("x is %v; want rank 1 or more", x)
	}
	if last := x.Shape[x.Rank()-1]; !last.IsStatic() {
		return fmt.Errorf(
			"the last axis of x, %v, is not a static size; tables for a transform are made when it is loaded", x)
	} else if last.Const < 1 {
		return fmt.Errorf("the last axis of x, %v, is empty; want a transform of 1 number or more", x)
	}
	if norm != NormNone && norm != NormInverse && norm != NormOrtho {
		return fmt.Errorf("norm is %q; want %q, %q or %q", norm, NormNone, NormInverse, NormOrtho)
	}
	return nil
}

// FourierScale returns the factor by which a transform of n numbers is scaled.
func FourierScale(norm string, n int, inverse bool) float64 {
	switch {
	case norm == NormOrtho:
		return 1 / math.Sqrt(float64(n))
	case norm == NormInverse && inverse:
		return 1 / float64(n)
	}
	return 1
}

// rowsAndLast splits the size of an array at its last axis.
func rowsAndLast(x *tensor.Array) (rows, n int) {
	n = x.Shape[len(x.Shape)-1]
	return tensor.Numel(x.Shape[:len(x.Shape)-1]), n
}

// lastAxis returns t with n as its last axis.
func lastAxis(t ir.Type, n int64) ir.Type {
	return ir.Type{DType: t.DType, Shape: slices.Concat(t.Shape[:t.Rank()-1], ir.Shape{ir.Static(n)})}
}

// transformRows transforms rows of n numbers. get writes the numbers of a row to z, and put stores a transform in y,
// the row of out.
func transformRows(out *tensor.Array, rows, n int, norm string, inverse bool, get func(row int, z []complex128),
	put func(y []float64, z []complex128)) error {
	room := make([]complex128, 4*n)
	x, z, root, temp := room[:n], room[n:2*n], room[2*n:3*n], room[3*n:]
	for k := range root {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
		if !inverse {
			sin = -sin
		}
		root[k] = complex(cos, sin)
	}
	scale := complex(FourierScale(norm, n, inverse), 0)
	for row := range rows {
		get(row, x)
		y := out.Floats[row*len(out.Floats)/rows : (row+1)*len(out.Floats)/rows]
		if slices.ContainsFunc(x, func(v complex128) bool { return cmplx.IsNaN(v) || cmplx.IsInf(v) }) {
			for i := range y {
				y[i] = math.NaN()
			}
			continue
		}
		fourier(z, x, 1, root, temp)
		for i := range z {
			z[i] *= scale
		}
		put(y, z)
	}
	return nil
}

// fourier computes y_k = sum over j of x_{j step} w^{jk}, where w = root[step] and root has the powers of a root of
// unity. If len(y) is prime, it computes the sum itself. Otherwise it combines transforms of every p-th number, where p
// is the smallest prime factor (Cooley and Tukey, 1965).
func fourier(y, x []complex128, step int, root, temp []complex128) {
	n, p := len(y), 2
	for p < n && n%p != 0 {
		p++
	}
	if n == 1 {
		y[0] = x[0]
		return
	}
	m := n / p
	for r := range p {
		fourier(y[r*m:(r+1)*m], x[r*step:], p*step, root, temp)
	}
	for k := range m {
		for q := range p {
			temp[q] = 0
			for r := range p {
				temp[q] += root[r*(k+q*m)*step%len(root)] * y[r*m+k]
			}
		}
		for q := range p {
			y[k+q*m] = temp[q]
		}
	}
}

// fromBlocks returns a function that reads complex numbers from the real and imaginary parts of a row.
func fromBlocks(x *tensor.Array) func(row int, z []complex128) {
	return func(row int, z []complex128) {
		from := x.Floats[2*row*len(z):]
		for i := range z {
			z[i] = complex(from[i], from[len(z)+i])
		}
	}
}

// toBlocks stores as many complex numbers as fit in y: their real parts, then their imaginary parts.
func toBlocks(y []float64, z []complex128) {
	for i, v := range z[:len(y)/2] {
		y[i], y[len(y)/2+i] = real(v), imag(v)
	}
}

// fourierTol returns the tolerance of a transform of n numbers. Errors grow with log2(n) and with the norm of the
// numbers, for which it assumes a size of 1 each.
func fourierTol(d dtype.DType, n int, norm string, inverse bool) ir.Tolerance {
	size := math.Sqrt(float64(2 * n))
	return forDType(d, 1e-6*math.Log2(float64(2*n))*size*FourierScale(norm, n, inverse), 1e-6)
}

// fourierFLOPs returns the operations of a split-radix algorithm, the usual measure for transforms.
func fourierFLOPs(rows, n int64) int64 { return rows * int64(5*float64(n)*math.Log2(float64(n))) }

// fourierMemory returns what transformRows allocates for rows of n numbers, in bytes.
func fourierMemory(n int64) int64 { return 16 * 4 * n }

// fourierLengths are lengths at which algorithms change: 1, small primes, powers of two, products of small primes,
// primes.
var fourierLengths = []int64{1, 2, 3, 5, 7, 16, 30, 31, 256, 343, 400, 521, 1024, 2187}

// FFTAttrs are the attributes of fft, ifft and rfft.
type FFTAttrs struct {
	Norm string `attr:"norm"`
}

// complexTransform defines fft and ifft.
func complexTransform(name, doc string, inverse bool) *ir.OpDef {
	length := func(t ir.Type) int64 { return t.Shape[t.Rank()-1].Const / 2 }
	return ir.Define(ir.Def[FFTAttrs]{
		Name: name, Doc: doc + " " + fourierDoc, Operands: "x",
		Infer: func(s ir.Sig[FFTAttrs]) (ir.Type, error) {
			x := s.In[0]
			if err := checkFourier(x, s.Attrs.Norm); err != nil {
				return ir.Type{}, err
			}
			if last := x.Shape[x.Rank()-1].Const; last%2 != 0 {
				return ir.Type{},
					fmt.Errorf(
						"the last axis of x, %v, is odd; want as many imaginary parts as real parts, which come first",
						x)
			}
			return x, nil
		},
		Eval: func(a FFTAttrs, in []*tensor.Array, out *tensor.Array) error {
			rows, n := rowsAndLast(out)
			return transformRows(out, rows, n/2, a.Norm, inverse, fromBlocks(in[0]), toBlocks)
		},
		Memory: func(s ir.Sig[FFTAttrs], _ ir.Type) int64 { return fourierMemory(length(s.In[0])) },
		FLOPs: func(_ FFTAttrs, in []ir.Type, _ ir.Type) int64 {
			return fourierFLOPs(numel(in[0])/(2*length(in[0])), length(in[0]))
		},
		Tol: func(a FFTAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
			return fourierTol(out.DType, int(length(in[0])), a.Norm, inverse)
		},
		Cases: func() (cases []ir.Case[FFTAttrs]) {
			norms := []string{NormNone, NormInverse, NormOrtho}
			c := func(norm string, t ir.Type) {
				cases = append(cases, ir.Case[FFTAttrs]{Attrs: FFTAttrs{norm}, In: []ir.Type{t}})
			}
			for i, n := range fourierLengths {
				c(norms[i%3], f32([]int64{1 + int64(i%3), 2 * n}...))
			}
			for _, norm := range norms {
				c(norm, f32(20))
				c(norm, f64(3, 2, 30))
			}
			c(NormNone, f32(35, 24))
			c(NormOrtho, f32(0, 8))
			c(NormNone, f32(2, 17, 20))
			c(NormInverse, f64(2, 34))
			c(NormNone, f64(19, 2*300))
			return cases
		},
	})
}
