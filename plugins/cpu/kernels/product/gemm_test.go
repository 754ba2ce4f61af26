package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// gemm64 computes the product by its definition, in float64. It decodes each weight once, since most of the time of the
// tests is spent here.
func gemm64(g *GemmArgs) []float64 {
	batch := max(1, g.Batch)
	out, weights := make([]float64, batch*g.M*g.N), make([]float64, g.K*g.N)
	value := func(x float32) float64 {
		if g.Precision == BFloat16 {
			x = RoundBF16(x)
		}
		return float64(x)
	}
	for i := range batch {
		for k := range g.K {
			for n := range g.N {
				at := i*g.StrideB + k*g.LDB + n
				if g.TransB {
					at = i*g.StrideB + n*g.LDB + k
				}
				weights[k*g.N+n] = value(kerneltest.WeightAt(g.B, at))
			}
		}
		for m := range g.M {
			sums := out[(i*g.M+m)*g.N:][:g.N]
			for k := range g.K {
				at := i*g.StrideA + m*g.LDA + k
				if g.TransA {
					at = i*g.StrideA + k*g.LDA + m
				}
				x := value(g.A[at])
				for n, y := range weights[k*g.N:][:g.N] {
					sums[n] += x * y
				}
			}
			for n, s := range sums {
				if g.Bias != nil {
					s += float64(g.Bias[n])
				}
				s = elementwise.Exact(g.Act, s)
				if g.Residual != nil {
					s += float64(g.Residual[i*g.StrideR+m*g.LDR+n])
				}
				sums[n] = s
			}
		}
	}
	return out
}

// randomGemm returns a product of the given size with random layout, storage and epilogue. There are gaps between rows.
func randomGemm(r *rand.Rand, m, n, k, batch int) *GemmArgs {
	g := &GemmArgs{M: m, N: n, K: k, Batch: batch, TransA: r.IntN(4) == 0, TransB: r.IntN(2) == 0,
		Act: []elementwise.UnaryOp{elementwise.Identity, elementwise.Identity, elementwise.Gelu,
			elementwise.Relu}[r.IntN(4)]}
	if (m+2*n+k)%3 == 0 {
		g.Precision = BFloat16
	}
	ar, ac, br, bc := m, k, k, n
	if g.TransA {
		ar, ac = k, m
	}
	if g.TransB {
		br, bc = n, k
	}
	gap := func(n int) int { return n + r.IntN(2)*r.IntN(5) }
	g.LDA, g.LDB, g.LDC, g.LDR = gap(ac), gap(bc), gap(n), gap(n)
	g.StrideA, g.StrideB, g.StrideC, g.StrideR = ar*g.LDA, br*g.LDB, m*g.LDC, m*g.LDR
	if r.IntN(3) == 0 {
		g.StrideB = 0
	}
	if r.IntN(4) == 0 {
		g.StrideA = 0
	}
	g.A = kerneltest.Randoms(r, (batch-1)*g.StrideA+ar*g.LDA)
	g.B = kerneltest.RandomWeights(r, []dtype.DType{dtype.F32, dtype.F16, dtype.BF16}[r.IntN(3)],
		(batch-1)*g.StrideB+br*g.LDB)
	if r.IntN(2) == 0 {
		g.Bias = kerneltest.Randoms(r, n)
	}
	if r.IntN(2) == 0 {
		g.Residual = kerneltest.Randoms(r, batch*g.StrideR)
	}
	return g
}

// runGemm computes g and returns the elements of C without the gaps between rows. It checks that nothing is written in
// gaps or outside C.
func runGemm(t *testing.T, p *pool.Pool, g *GemmArgs, what string) []float32 {
	t.Helper()
	batch := max(1, g.Batch)
	c := make([]float32, batch*g.M*g.LDC+128)
	for i := range c {
		c[i] = math.Float32frombits(kerneltest.GuardBits)
	}
	g.C = c[64 : len(c)-64]
	if g.M > 0 && g.N > 0 {
		g.C = g.C[:(batch-1)*g.StrideC+(g.M-1)*g.LDC+g.N]
	}
	Gemm(p, g)
	var out []float32
	for i, x := range c {
		at := i - 64
		inside := at >= 0 && at < batch*g.M*g.LDC && at%g.LDC < g.N
		if inside == kerneltest.IsGuard(x) {
			t.Fatalf("%s: float %d (inside the matrix: %v) is %v", what, at, inside, x)
		}
		if inside {
			out = append(out, x)
		}
	}
	return out
}

func describe(g *GemmArgs) string {
	return g.Precision.String() + fmt.Sprintf(" M%d N%d K%d batch %d transA %v transB %v %v bias %v act %v residual %v",
		g.M, g.N, g.K, g.Batch, g.TransA,
		g.TransB, g.B.Kind, g.Bias != nil, g.Act, g.Residual != nil)
}

func TestGemm(t *testing.T) {
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(1)
		mr, nr := On(p.Set).MR, On(p.Set).NR
		sizes := []int{0, 1, 2, 3, 5, mr - 1, mr, mr + 1, nr - 1, nr, nr + 1, 2*nr + 3, 5*nr + 1, 4*mr + 1, 100}
		depths := []int{0, 1, 2, 4, 15, 16, 17, 64, 100, KBlock, KBlock + 1}
		check := func(m, n, k, batch int) {
			g := randomGemm(r, m, n, k, batch)
			what := describe(g)
			abs := 1e-6*math.Sqrt(float64(k)) + 2e-6
			kerneltest.Compare(t, what, runGemm(t, p, g, what), gemm64(g), abs, 1e-5)
		}
		for range 200 {
			check(sizes[r.IntN(len(sizes))], sizes[r.IntN(len(sizes))], depths[r.IntN(len(depths))],
				1+r.IntN(2)*r.IntN(4))
		}
		for range 2 {
			check((blockPanels+1)*mr+5, (groupPanels+1)*nr+7, KBlock+33, 1) // several blocks in each direction
		}
		check(1, 1, 3000, 3)
	})
}

// TestGemmChunks limits the packed copy of B to a part of the columns, or of the products of a batch.
func TestGemmChunks(t *testing.T) {
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(2)
		for _, limit := range []int{1, 3 * On(p.Set).NR * 600, 10 * On(p.Set).NR * 600} {
			p.PackedLimit = limit
			g := randomGemm(r, 5*On(p.Set).MR+1, 6*On(p.Set).NR+3, 600, 1)
			kerneltest.Compare(t, "wide", runGemm(t, p, g, "wide"), gemm64(g), 1e-6*math.Sqrt(float64(g.K)), 1e-5)
			g = randomGemm(r, 20, 2*On(p.Set).NR+3, 520, 7)
			kerneltest.Compare(t, "batched", runGemm(t, p, g, "batched"), gemm64(g), 1e-6*math.Sqrt(float64(g.K)), 1e-5)
		}
	})
}

// TestGemmActivations checks that a product with an activation and a residual has the same bits as the plain product,
// followed by the function and the addition.
func TestGemmActivations(t *testing.T) {
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		r, acts := kerneltest.RNG(8), activations()
		for _, d := range [][4]int{{1, 70, 33, 1}, {2, 70, 700, 3}, {9, 45, 1100, 1}, {70, 96, 60, 1}} {
			for range kerneltest.Some(len(acts)) {
				act := acts[0]
				acts = append(acts[1:], act)
				g := randomGemm(r, d[0], d[1], d[2], d[3])
				g.LDR, g.StrideR, g.Residual, g.Act = g.N, g.M*g.N, nil, elementwise.Identity
				want := runGemm(t, p, g, describe(g))
				elementwise.UnaryF32(p, act, want, want)
				g.Act, g.Residual = act, kerneltest.Randoms(r, len(want))
				for i, x := range g.Residual {
					want[i] += x
				}
				for i, x := range runGemm(t, p, g, describe(g)) {
					if math.Float32bits(x) != math.Float32bits(want[i]) {
						t.Fatalf("%s: element %d is %v, want %v", describe(g), i, x, want[i])
					}
				}
			}
		}
	})
}

// TestGemmOverResidual checks that a product gives the same bits whether it overwrites its residual or not.
func TestGemmOverResidual(t *testing.T) {
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		r, acts := kerneltest.RNG(6), append(activations(), elementwise.Identity)
		for _, d := range [][4]int{{1, 70, 33, 1}, {2, 70, 700, 3}, {9, 45, 1100, 1}, {70, 45, 1100, 1},
			{70, 96, 60, 4}} {
			for range kerneltest.Some(len(acts)) {
				act := acts[0]
				acts = append(acts[1:], act)
				g := randomGemm(r, d[0], d[1], d[2], d[3])
				g.Act, g.LDR, g.StrideR = act, g.LDC, g.StrideC
				g.Residual = kerneltest.Randoms(r, d[3]*g.StrideR)
				want := runGemm(t, p, g, describe(g))
				g.Residual = slices.Clone(g.Residual)
				g.C = g.Residual
				Gemm(p, g)
				for i, w := range want {
					row, col := i/d[1], i%d[1]
					if got := g.C[row*g.LDC+col]; math.Float32bits(got) != math.Float32bits(w) {
						t.Fatalf("%s: row %d, column %d is %v over the residual, %v elsewhere", describe(g), row, col,
							got, w)
					}
				}
			}
		}
	})
}

func TestGemmSpecialValues(t *testing.T) {
	eachTiled(t, func(t *testing.T, p *pool.Pool) {
		r := kerneltest.RNG(3)
		specials := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-42, math.MaxFloat32,
			0}
		for range 60 {
			g := randomGemm(r, 1+r.IntN(40), 1+r.IntN(40), 1+r.IntN(40), 1)
			g.B, g.Act = stored.F32(kerneltest.Randoms(r, g.StrideB+g.K*g.N+g.LDB*max(g.N, g.K))), elementwise.Identity
			for range 3 {
				g.A[r.IntN(len(g.A))] = specials[r.IntN(len(specials))]
				g.B.Floats[r.IntN(len(g.B.Floats))] = specials[r.IntN(2)*r.IntN(3)+3-r.IntN(2)*3]
			}
			want := gemm64(g)
			for i, w := range want {
				if math.Abs(w) > math.MaxFloat32/4 { // overflow depends on the order of the sum
					want[i] = math.Inf(int(math.Copysign(1, w)))
				}
			}
			got := runGemm(t, p, g, describe(g))
			for i, w := range want {
				if math.IsInf(w, 0) && !math.IsInf(float64(got[i]), int(w)) &&
					math.Abs(float64(got[i])) > math.MaxFloat32/8 {
					continue
				}
				if !kerneltest.Near(got[i], w, 1e-5, 1e-4) {
					t.Fatalf("%s: element %d is %v, want %v", describe(g), i, got[i], w)
				}
			}
		}
	})
}

func TestGemmThreads(t *testing.T) {
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		r := kerneltest.RNG(4)
		var out []float32
		for _, d := range [][3]int{{150, 200, 700}, {5, 300, 600}, {2, 500, 300}, {300, 40, 64}} {
			out = append(out, runGemm(t, p, randomGemm(r, d[0], d[1], d[2], 1), "")...)
		}
		return append(out, runGemm(t, p, randomGemm(r, 33, 65, 80, 6), "")...)
	})
}

func TestGemmRejectsShortSlices(t *testing.T) {
	p := kerneltest.NewPool(t, 1, "")
	g := randomGemm(kerneltest.RNG(5), 20, 20, 20, 1)
	g.C = make([]float32, 10)
	defer func() {
		if recover() == nil {
			t.Error("a short C was accepted")
		}
	}()
	Gemm(p, g)
}

func BenchmarkPeak(b *testing.B) {
	for _, name := range isa.Features()[1:] {
		for _, n := range []int{1, 0} {
			p := kerneltest.NewPool(b, n, name)
			b.Run(fmt.Sprintf("%s/threads%d", name, p.Threads()), func(b *testing.B) {
				flops := 0.0
				for b.Loop() {
					flops += FMAFlops(p, 100000)
				}
				b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, name := range isa.Features() {
		for _, d := range [][3]int{{4096, 2304, 768}, {4096, 768, 768}, {4096, 3072, 768}, {4096, 768, 3072},
			{1024, 1024, 1024}, {4096, 4096, 4096}, {7, 2048, 256}, {1, 2048, 256}} {
			if name == "generic" && d[0] != 1024 {
				continue
			}
			for _, n := range []int{1, 0} {
				p := kerneltest.NewPool(b, n, name)
				b.Run(fmt.Sprintf("%s/%dx%dx%d/threads%d", name, d[0], d[2], d[1], p.Threads()), func(b *testing.B) {
					r := kerneltest.RNG(1)
					g := &GemmArgs{M: d[0], N: d[1], K: d[2], A: kerneltest.Randoms(r, d[0]*d[2]), LDA: d[2],
						B: stored.F32(kerneltest.Randoms(r, d[1]*d[2])), LDB: d[2], TransB: true,
						C: make([]float32, d[0]*d[1]), LDC: d[1], Bias: kerneltest.Randoms(r, d[1])}
					Gemm(p, g)
					for b.Loop() {
						Gemm(p, g)
					}
					b.ReportMetric(float64(b.N)*2*float64(d[0]*d[1])*float64(d[2])/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

func BenchmarkGemmHalf(b *testing.B) {
	for _, name := range isa.Features()[1:] {
		p := kerneltest.NewPool(b, 0, name)
		for _, d := range [][3]int{{4096, 2304, 768}, {4096, 768, 3072}} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d/threads%d", name, d[0], d[2], d[1], p.Threads()), func(b *testing.B) {
				r := kerneltest.RNG(1)
				g := &GemmArgs{M: d[0], N: d[1], K: d[2], A: kerneltest.Randoms(r, d[0]*d[2]), LDA: d[2],
					B: stored.F32(kerneltest.Randoms(r, d[1]*d[2])), LDB: d[2], TransB: true,
					C: make([]float32, d[0]*d[1]), LDC: d[1], Bias: kerneltest.Randoms(r, d[1]), Precision: BFloat16}
				Gemm(p, g)
				for b.Loop() {
					Gemm(p, g)
				}
				b.ReportMetric(float64(b.N)*2*float64(d[0]*d[1])*float64(d[2])/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// activations returns all activations, with values for parameters.
func activations() (acts []elementwise.UnaryOp) {
	params := map[elementwise.UnaryOp][]float64{elementwise.Elu: {0.3}, elementwise.Celu: {0.25},
		elementwise.LeakyRelu: {-0.5}, elementwise.Clamp: {1, -1}, elementwise.Hardsigmoid: {0.2, 0.5},
		elementwise.Softplus: {3, 20}}
	for _, op := range elementwise.Unaries() {
		acts = append(acts, op.With(params[op]...))
	}
	return acts
}
