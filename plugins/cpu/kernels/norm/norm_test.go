package norm

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
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
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(1)
		for _, n := range []int{1, 2, 7, 8, 15, 16, 17, 64, 100, 257, 768} {
			rows := 1 + r.IntN(40)
			x, residual, gamma, beta := kerneltest.Randoms(r, rows*n), kerneltest.Randoms(r, rows*n),
				kerneltest.Randoms(r, n), kerneltest.Randoms(r, n)
			run := func(name string, want []float64, f func(dst []float32)) {
				dst, check := kerneltest.Guarded(rows * n)
				f(dst)
				check(t, name)
				kerneltest.Compare(t, fmt.Sprint(name, " of ", n), dst, want, 4e-6, 1e-5)
			}
			const eps = 1e-6
			run("layer norm", norm64(x, nil, gamma, beta, n, eps, true), func(d []float32) {
				Normalize(
					p, Args{Dst: stored.F32(d), X: stored.F32(x), Gamma: stored.F32(gamma), Beta: stored.F32(beta),
						N: n, Eps: eps,
						Center: true}, rows)
			})
			run("rms norm", norm64(x, nil, gamma, beta, n, eps, false), func(d []float32) {
				Normalize(p, Args{Dst: stored.F32(d), X: stored.F32(x), Gamma: stored.F32(gamma),
					Beta: stored.F32(beta), N: n, Eps: eps}, rows)
			})
			run("residual", norm64(x, residual, gamma, beta, n, eps, true), func(d []float32) {
				Normalize(
					p, Args{Dst: stored.F32(d), X: stored.F32(x), Residual: stored.F32(residual),
						Gamma: stored.F32(gamma), Beta: stored.F32(beta),
						N: n, Eps: eps, Center: true}, rows)
			})
			run("residual rms", norm64(x, residual, gamma, beta, n, eps, false), func(d []float32) {
				Normalize(
					p, Args{Dst: stored.F32(d), X: stored.F32(x), Residual: stored.F32(residual),
						Gamma: stored.F32(gamma), Beta: stored.F32(beta),
						N: n, Eps: eps}, rows)
			})
			in := append([]float32(nil), x...)
			Normalize(
				p, Args{Dst: stored.F32(in), X: stored.F32(in), Gamma: stored.F32(gamma), Beta: stored.F32(beta), N: n,
					Eps: eps, Center: true},
				rows)
			kerneltest.Compare(t, "in place", in, norm64(x, nil, gamma, beta, n, eps, true), 4e-6, 1e-5)
		}
	})
}

// TestNormsFarFromZero normalises rows whose elements are near each other but far from 0. The variance as E[x^2]-mean^2
// would lose all digits, and a mean that is rounded to single precision three of them.
func TestNormsFarFromZero(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(2)
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
				Normalize(
					p, Args{Dst: stored.F32(dst), X: stored.F32(x), Gamma: stored.F32(one), Beta: stored.F32(zero),
						N: n, Eps: 1e-6,
						Center: true}, rows)
				kerneltest.Compare(t, fmt.Sprintf("%d elements near %v", n, mean), dst, want, 3e-7, 3e-7)
				Normalize(
					p, Args{Dst: stored.F32(dst), X: stored.F32(x), Gamma: stored.F32(one), Beta: stored.F32(zero),
						N: n, Groups: 1, Area: n,
						Eps: 1e-6, Center: true}, rows)
				kerneltest.Compare(t, fmt.Sprintf("a group of %d elements near %v", n, mean), dst, want, 3e-7, 3e-7)
			}
		}
	})
}

func TestSoftmax(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(2)
		for _, c := range [][3]int{{1, 1, 1}, {5, 7, 1}, {3, 1000, 1}, {2, 9, 5}, {3, 4, 130}, {1, 600, 3},
			{400, 1, 1}, {129, 2, 1}, {260, 5, 1}, {16, 21, 1}, {301, 31, 1}, {131, 40, 1}, {40, 41, 1}} {
			outer, n, inner := c[0], c[1], c[2]
			x := kerneltest.Randoms(r, outer*n*inner)
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
			dst, check := kerneltest.Guarded(len(x))
			Softmax(p, SoftmaxArgs{Dst: stored.F32(dst), X: stored.F32(x), Outer: outer, N: n, Inner: inner})
			check(t, "softmax")
			kerneltest.Compare(t, fmt.Sprint("softmax of ", c), dst, want, 1e-6, 1e-5)
		}
		inf := float32(math.Inf(-1))
		for _, inner := range []int{1, 2} {
			x := []float32{inf, inf, inf, inf}
			Softmax(p, SoftmaxArgs{Dst: stored.F32(x), X: stored.F32(x), Outer: 1, N: 4 / inner, Inner: inner})
			if x[0] == x[0] {
				t.Errorf("softmax of a row of -Inf is %v, want NaN", x[0])
			}
		}
	})
}

func TestNormThreads(t *testing.T) {
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		r := kerneltest.RNG(3)
		x, g, b := kerneltest.Randoms(r, 200*331), kerneltest.Randoms(r, 331), kerneltest.Randoms(r, 331)
		out := make([]float32, 3*len(x))
		Normalize(p, Args{Dst: stored.F32(out), X: stored.F32(x), Gamma: stored.F32(g), Beta: stored.F32(b), N: 331,
			Eps: 1e-5, Center: true}, 200)
		Softmax(p, SoftmaxArgs{Dst: stored.F32(out[len(x):]), X: stored.F32(x), Outer: 200, N: 331, Inner: 1})
		reduce.Floats(p, reduce.Sum, stored.F32(out[2*len(x):]), stored.F32(x), []int{200, 331}, []int{0})
		for n := 1; n <= shortSoftmax; n += 6 {
			short := make([]float32, len(x)/n*n)
			Softmax(p, SoftmaxArgs{Dst: stored.F32(short), X: stored.F32(x), Outer: len(x) / n, N: n, Inner: 1})
			out = append(out, short...)
		}
		return out
	})
}

// TestLongSoftmax compares rows that threads share with rows of one thread, also with a NaN, and with the definition.
func TestLongSoftmax(t *testing.T) {
	const n = 9*softmaxChunk + reduce.Block + 77
	for _, log := range []bool{false, true} {
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			x := kerneltest.Randoms(kerneltest.RNG(4), 2*n)
			x[n+3*softmaxChunk] = float32(math.NaN())
			out := make([]float32, 2*n)
			for r := range 2 {
				Softmax(
					p, SoftmaxArgs{Dst: stored.F32(out[r*n:]), X: stored.F32(x[r*n : (r+1)*n]), Outer: 1, N: n,
						Inner: 1, Log: log})
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
				want[i] = math.Exp(float64(v)) / sum
				if log {
					want[i] = float64(v) - math.Log(sum)
				}
			}
			kerneltest.Compare(t, fmt.Sprintf("softmax of %d, log %v", n, log), out[:n], want, 1e-6, 1e-5)
			return out
		})
	}
}

// TestBatchNorm compares batch norms with the formula in float64, also in place, with means near and far and with
// values that are not finite.
func TestBatchNorm(t *testing.T) {
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(61)
		for i := range kerneltest.Some(60) {
			batch, channels, area := 1+r.IntN(3), 1+r.IntN(20), 1+r.IntN([]int{5, 70, 1500}[i%3])
			x := kerneltest.Randoms(r, batch*channels*area)
			gamma, beta := kerneltest.Randoms(r, channels), kerneltest.Randoms(r, channels)
			mean, variance := kerneltest.Randoms(r, channels), kerneltest.Randoms(r, channels)
			for c := range variance {
				variance[c] = variance[c]*variance[c] + 0.01
				if r.IntN(3) == 0 {
					mean[c] *= 500
				}
			}
			if r.IntN(4) == 0 {
				x[r.IntN(len(x))], gamma[r.IntN(channels)] = float32(math.Inf(1)), 0
				variance[r.IntN(channels)] = float32(math.NaN())
			}
			want := make([]float64, len(x))
			for j, v := range x {
				c := j / area % channels
				scale := float64(gamma[c]) / math.Sqrt(float64(variance[c])+1e-5)
				want[j] = (float64(v)-float64(mean[c]))*scale + float64(beta[c])
			}
			what := fmt.Sprint("batch norm of ", batch, channels, area)
			dst, check := kerneltest.Guarded(len(x))
			g := BatchNormArgs{Dst: dst, X: x, Gamma: gamma, Beta: beta, Mean: mean, Variance: variance, Batch: batch,
				Channels: channels, Area: area, Eps: 1e-5}
			for _, g.Kept = range []*BatchNormKept{nil, {}} {
				for range 2 { // the second call finds what the first one has kept
					clear(dst)
					BatchNorm(p, &g)
					check(t, what)
					kerneltest.Compare(t, what, dst, want, 1e-5, 1e-5)
				}
			}
			if batch > 1 && area > 1 { // an image of another size
				g.Area = area / 2
				half := make([]float64, batch*channels*g.Area)
				for j := range half {
					c := j / g.Area % channels
					scale := float64(gamma[c]) / math.Sqrt(float64(variance[c])+1e-5)
					half[j] = (float64(x[j])-float64(mean[c]))*scale + float64(beta[c])
				}
				BatchNorm(p, &g)
				kerneltest.Compare(t, what+" and half the pixels", dst[:len(half)], half, 1e-5, 1e-5)
				g.Area = area
			}
			g.Dst = x
			BatchNorm(p, &g)
			kerneltest.Compare(t, what+" in place", x, want, 1e-5, 1e-5)
		}
	})
}
