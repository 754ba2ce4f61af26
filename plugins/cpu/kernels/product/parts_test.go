package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// setsWithParts returns the sets that compute products in parts.
func setsWithParts() (out []*isa.Set) {
	for _, s := range append(isa.Available(), EmulatedTiles()...) {
		if On(s).parts != nil {
			out = append(out, s)
		}
	}
	return out
}

// partsOperands returns a matrix of n rows of k values as it is stored, and its values.
func partsOperands(rng *rand.Rand, d dtype.DType, n, k int) (stored.Values, []float32) {
	values := make([]float32, n*k)
	for i := range values {
		values[i] = (rng.Float32()*4 - 2) * float32(math.Ldexp(1, rng.IntN(12)-6))
	}
	switch {
	case d == dtype.BF16 || d == dtype.F16:
		h, widen := make([]uint16, n*k), dtype.BF16ToF32
		for i, v := range values {
			h[i] = dtype.F32ToBF16(v)
			if d == dtype.F16 {
				h[i], widen = dtype.F32ToF16(v), dtype.F16ToF32
			}
			values[i] = widen(h[i])
		}
		if d == dtype.F16 {
			return stored.F16(h), values
		}
		return stored.BF16(h), values
	case d.IsPacked():
		w := make([]byte, n*k/d.Values()*d.Size())
		quant.Random(w, d, rng.Uint32)
		quant.Decode(values, d, w)
		return stored.Packed(d, w), values
	}
	return stored.F32(values), values
}

// partsOfAllSizes makes small products by matrices of several parts be computed in parts.
func partsOfAllSizes(t *testing.T) {
	kept := partsFloatsEach
	partsFloatsEach = 0
	t.Cleanup(func() { partsFloatsEach = kept })
}

// TestParts compares products in parts with float64: all ways to store the operands, sizes that fill no block, biases,
// activations and residuals, one of them in the place of the result. The bits do not depend on the number of threads.
func TestParts(t *testing.T) {
	partsOfAllSizes(t)
	rng := rand.New(rand.NewPCG(21, 22))
	sizes := [][3]int{{257, 96, 64}, {300, 256, 288}, {530, 512, 96}, {259, 101, 75}, {256, 64, 800}}
	for _, s := range setsWithParts() {
		emulated := slices.Contains(EmulatedTiles(), s) // which takes 50 times as long
		for j, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16, dtype.Q8_0, dtype.Q4_K} {
			for i, size := range sizes[:kerneltest.Some(len(sizes))] {
				for way := range 4 {
					if emulated && way != (i+j)%4 {
						continue
					}
					transA, transB := way&1 > 0, way&2 > 0
					m, n, k := size[0], size[1], size[2]
					if last := n; d.IsPacked() {
						if transB {
							last = k
						}
						if last%d.Values() != 0 {
							continue
						}
					}
					g := GemmArgs{M: m, N: n, K: k, TransA: transA, TransB: transB, LDA: k, LDB: n, LDC: n}
					rows, columns := m, k
					if transA {
						g.LDA, rows, columns = m, k, m
					}
					_, a := partsOperands(rng, dtype.F32, rows, columns)
					g.A = a
					var b []float32
					if transB {
						g.LDB = k
						g.B, b = partsOperands(rng, d, n, k)
					} else {
						g.B, b = partsOperands(rng, d, k, n)
					}
					if i%2 == 1 {
						_, g.Bias = partsOperands(rng, dtype.F32, 1, n)
						g.Act = elementwise.Relu
					}
					_, residual := partsOperands(rng, dtype.F32, m, n)
					if !g.inParts(s, 1) {
						t.Fatalf("%s, %v, %v: not in parts", s.Name, d, size)
					}
					comparePart(t, s, g, b, residual, fmt.Sprintf("%s, %v, %v, trans %v %v", s.Name, d, size, transA,
						transB))
				}
			}
		}
	}
}

// comparePart computes a product with one thread and with three, in the place of the residual.
func comparePart(t *testing.T, s *isa.Set, g GemmArgs, b, residual []float32, name string) {
	t.Helper()
	var results [2][]float32
	for i, threads := range []int{1, 3} {
		c := slices.Clone(residual)
		g.C, g.Residual, g.LDR = c, c, g.LDC
		p := kerneltest.PoolOn(t, threads, s)
		need := g.ScratchSize(p)
		kerneltest.Reserve(t, p, need)
		Gemm(p, &g)
		kerneltest.Fits(t, p, need, 0, name)
		results[i] = c
	}
	if !slices.Equal(results[0], results[1]) {
		t.Fatalf("%s: three threads give other bits than one", name)
	}
	for i := range g.M {
		for j := range g.N {
			var sum, most float64
			for l := range g.K {
				atA, atB := i*g.LDA+l, l*g.LDB+j
				if g.TransA {
					atA = l*g.LDA + i
				}
				if g.TransB {
					atB = j*g.LDB + l
				}
				v := float64(g.A[atA]) * float64(b[atB])
				sum, most = sum+v, most+math.Abs(v)
			}
			if g.Bias != nil {
				sum += float64(g.Bias[j])
			}
			if g.Act == elementwise.Relu {
				sum = max(sum, 0)
			}
			r := float64(residual[i*g.LDC+j])
			if e := math.Abs(float64(results[0][i*g.LDC+j]) - sum - r); e > 1e-6*most+1e-6*math.Abs(r) {
				t.Fatalf("%s: element %d,%d is %v; want %v", name, i, j, results[0][i*g.LDC+j], sum+r)
			}
		}
	}
}

// TestPartsSpecial checks that values for which parts do not suffice are multiplied in another way.
func TestPartsSpecial(t *testing.T) {
	partsOfAllSizes(t)
	const m, n, k = 256, 64, 96
	inf := float32(math.Inf(1))
	for _, s := range setsWithParts() {
		for _, in := range []string{"a", "b"} {
			for _, special := range []float32{inf, -inf, float32(math.NaN()), math.MaxFloat32, 0x1p61, 0x1p-149, 0} {
				rng := rand.New(rand.NewPCG(23, 24))
				_, a := partsOperands(rng, dtype.F32, m, k)
				_, b := partsOperands(rng, dtype.F32, k, n)
				for i := range a {
					a[i] *= 0x1p-20
				}
				if in == "a" {
					a[17*k+33] = special
				} else {
					b[33*n+17] = special
				}
				c, want := make([]float32, m*n), make([]float32, m*n)
				g := GemmArgs{M: m, N: n, K: k, A: a, LDA: k, B: stored.F32(b), LDB: n, C: c, LDC: n}
				Gemm(kerneltest.PoolOn(t, 2, s), &g)
				g.C = want
				Gemm(kerneltest.NewPool(t, 2, isa.Generic.Name), &g)
				for i, v := range c {
					x, y := float64(v), float64(want[i])
					if (x != x) != (y != y) || math.IsInf(x, 0) != math.IsInf(y, 0) || x-x == 0 && y-y == 0 &&
						math.Abs(x-y) > 1e-5*max(0x1p-10, math.Abs(y)) {
						t.Fatalf("%s, %v in %s: element %d is %v; want %v", s.Name, special, in, i, v, want[i])
					}
				}
			}
		}
		// operands that are small everywhere keep their bits
		a, b := make([]float32, m*k), make([]float32, k*n)
		rng := rand.New(rand.NewPCG(25, 26))
		for i := range a {
			a[i] = rng.Float32() * 0x1p-110
		}
		for i := range b {
			b[i] = rng.Float32()
		}
		c := make([]float32, m*n)
		Gemm(kerneltest.PoolOn(t, 2, s), &GemmArgs{M: m, N: n, K: k, A: a, LDA: k, B: stored.F32(b), LDB: n, C: c,
			LDC: n})
		for i, v := range c {
			sum := 0.0
			for l := range k {
				sum += float64(a[i/n*k+l]) * float64(b[l*n+i%n])
			}
			if math.Abs(float64(v)-sum) > 1e-5*sum {
				t.Fatalf("%s: element %d of a small product is %v; want %v", s.Name, i, v, sum)
			}
		}
	}
}
