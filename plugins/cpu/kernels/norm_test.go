package kernels

import (
	"fmt"
	"math"
	"testing"
)

func norm64(x, residual, gamma, beta []float32, n int, eps float64, center bool) []float64 {
	out := make([]float64, len(x))
	for r := 0; r < len(x); r += n {
		row := out[r : r+n]
		mean, variance := 0.0, 0.0
		for i := range row {
			row[i] = float64(x[r+i])
			if residual != nil {
				row[i] = float64(x[r+i] + residual[r+i]) // rounded, as the op defines
			}
			mean += row[i] / float64(n)
		}
		if !center {
			mean = 0
		}
		for _, v := range row {
			variance += (v - mean) * (v - mean) / float64(n)
		}
		for i, v := range row {
			row[i] = (v-mean)/math.Sqrt(variance+eps)*float64(gamma[i]) + float64(beta[i])
		}
	}
	return out
}

func TestNorms(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(1)
		for _, n := range []int{1, 2, 7, 8, 15, 16, 17, 64, 100, 257, 768} {
			rows := 1 + r.IntN(40)
			x, residual, gamma, beta := randoms(r, rows*n), randoms(r, rows*n), randoms(r, n), randoms(r, n)
			run := func(name string, want []float64, f func(dst []float32)) {
				dst, check := guarded(rows * n)
				f(dst)
				check(t, name)
				compare(t, fmt.Sprint(name, " of ", n), dst, want, 4e-6, 1e-5)
			}
			const eps = 1e-6
			run("layer norm", norm64(x, nil, gamma, beta, n, eps, true), func(d []float32) {
				Norm(
					p, NormArgs{Dst: F32(d), X: F32(x), Gamma: F32(gamma), Beta: F32(beta), N: n, Eps: eps,
						Center: true}, rows)
			})
			run("rms norm", norm64(x, nil, gamma, beta, n, eps, false), func(d []float32) {
				Norm(p, NormArgs{Dst: F32(d), X: F32(x), Gamma: F32(gamma), Beta: F32(beta), N: n, Eps: eps}, rows)
			})
			run("residual", norm64(x, residual, gamma, beta, n, eps, true), func(d []float32) {
				Norm(
					p, NormArgs{Dst: F32(d), X: F32(x), Residual: F32(residual), Gamma: F32(gamma), Beta: F32(beta),
						N: n, Eps: eps, Center: true}, rows)
			})
			run("residual rms", norm64(x, residual, gamma, beta, n, eps, false), func(d []float32) {
				Norm(
					p, NormArgs{Dst: F32(d), X: F32(x), Residual: F32(residual), Gamma: F32(gamma), Beta: F32(beta),
						N: n, Eps: eps}, rows)
			})
			in := append([]float32(nil), x...)
			Norm(
				p, NormArgs{Dst: F32(in), X: F32(in), Gamma: F32(gamma), Beta: F32(beta), N: n, Eps: eps, Center: true},
				rows)
			compare(t, "in place", in, norm64(x, nil, gamma, beta, n, eps, true), 4e-6, 1e-5)
		}
	})
}

// TestNormsFarFromZero normalises rows whose elements are near each other but far from 0. The variance as E[x^2]-mean^2
// would lose all digits, and a mean that is rounded to single precision three of them.
func TestNormsFarFromZero(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(2)
		for _, n := range []int{2, 3, 8, 31, 64, 100, 768, 5000, 70000} {
			for _, mean := range []float32{1e3, -1e4, 3e5} {
				const rows = 3
				x, one, zero := make([]float32, rows*n), make([]float32, n), make([]float32, n)
				for i := range x {
					x[i] = mean + float32(r.NormFloat64())
				}
				for i := range one {
					one[i] = 1
				}
				dst := make([]float32, len(x))
				want := norm64(x, nil, one, zero, n, 1e-6, true)
				Norm(
					p, NormArgs{Dst: F32(dst), X: F32(x), Gamma: F32(one), Beta: F32(zero), N: n, Eps: 1e-6,
						Center: true}, rows)
				compare(t, fmt.Sprintf("%d elements near %v", n, mean), dst, want, 3e-7, 3e-7)
				Norm(
					p, NormArgs{Dst: F32(dst), X: F32(x), Gamma: F32(one), Beta: F32(zero), N: n, Groups: 1, Area: n,
						Eps: 1e-6, Center: true}, rows)
				compare(t, fmt.Sprintf("a group of %d elements near %v", n, mean), dst, want, 3e-7, 3e-7)
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(2)
		for _, c := range [][3]int{{1, 1, 1}, {5, 7, 1}, {3, 1000, 1}, {2, 9, 5}, {3, 4, 130}, {1, 600, 3}} {
			outer, n, inner := c[0], c[1], c[2]
			x := randoms(r, outer*n*inner)
			for i := range x {
				x[i] *= 90
			}
			want := make([]float64, len(x))
			for o := range outer {
				for i := range inner {
					top, sum := math.Inf(-1), 0.0
					for j := range n {
						top = max(top, float64(x[(o*n+j)*inner+i]))
					}
					for j := range n {
						sum += math.Exp(float64(x[(o*n+j)*inner+i]) - top)
					}
					for j := range n {
						want[(o*n+j)*inner+i] = math.Exp(float64(x[(o*n+j)*inner+i])-top) / sum
					}
				}
			}
			dst, check := guarded(len(x))
			Softmax(p, SoftmaxArgs{Dst: F32(dst), X: F32(x), Outer: outer, N: n, Inner: inner})
			check(t, "softmax")
			compare(t, fmt.Sprint("softmax of ", c), dst, want, 1e-6, 1e-5)
		}
		inf := float32(math.Inf(-1))
		for _, inner := range []int{1, 2} {
			x := []float32{inf, inf, inf, inf}
			Softmax(p, SoftmaxArgs{Dst: F32(x), X: F32(x), Outer: 1, N: 4 / inner, Inner: inner})
			if x[0] == x[0] {
				t.Errorf("softmax of a row of -Inf is %v, want NaN", x[0])
			}
		}
	})
}

func TestNormThreads(t *testing.T) {
	sameForAnyThreads(t, func(p *Pool) []float32 {
		r := rng(3)
		x, g, b := randoms(r, 200*331), randoms(r, 331), randoms(r, 331)
		out := make([]float32, 3*len(x))
		Norm(p, NormArgs{Dst: F32(out), X: F32(x), Gamma: F32(g), Beta: F32(b), N: 331, Eps: 1e-5, Center: true}, 200)
		Softmax(p, SoftmaxArgs{Dst: F32(out[len(x):]), X: F32(x), Outer: 200, N: 331, Inner: 1})
		ReduceFloats(p, Sum, F32(out[2*len(x):]), F32(x), []int{200, 331}, []int{0})
		return out
	})
}

// TestLongSoftmax compares rows that threads share with rows of one thread, also with a NaN, and with the definition.
func TestLongSoftmax(t *testing.T) {
	const n = 9*softmaxChunk + reduceBlock + 77
	for _, log := range []bool{false, true} {
		sameForAnyThreads(t, func(p *Pool) []float32 {
			x := randoms(rng(4), 2*n)
			x[n+3*softmaxChunk] = float32(math.NaN())
			out := make([]float32, 2*n)
			for r := range 2 {
				Softmax(
					p, SoftmaxArgs{Dst: F32(out[r*n:]), X: F32(x[r*n : (r+1)*n]), Outer: 1, N: n, Inner: 1, Log: log})
			}
			if out[n] == out[n] {
				t.Error("a row with a NaN has a result")
			}
			clear(out[n:]) // NaN never equals NaN
			var sum float64
			for _, v := range x[:n] {
				sum += math.Exp(float64(v))
			}
			want := make([]float64, n)
			for i, v := range x[:n] {
				if want[i] = math.Exp(float64(v)) / sum; log {
					want[i] = float64(v) - math.Log(sum)
				}
			}
			compare(t, fmt.Sprintf("softmax of %d, log %v", n, log), out[:n], want, 1e-6, 1e-5)
			return out
		})
	}
}
