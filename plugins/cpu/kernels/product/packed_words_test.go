package product

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestIntegerExtremes multiplies the largest integers that formats and activations have. Some products add up in 16
// bits, which overflows if the integers exceed these bounds. It also compares small integers. Results are exact.
func TestIntegerExtremes(t *testing.T) {
	bounds := map[dtype.DType][2]int{
		dtype.Q4_0: {-8, 7}, dtype.Q4_1: {0, 15}, dtype.Q5_0: {-16, 15}, dtype.Q5_1: {0, 31}, dtype.Q8_0: {-128, 127},
		dtype.Q2_K: {0, 3}, dtype.Q3_K: {-4, 3},
		dtype.Q4_K: {0, 15}, dtype.Q5_K: {0, 31}, dtype.Q6_K: {-32, 31}, dtype.Q8_K: {-128, 127},
		dtype.IQ4_NL: {-127, 113}, dtype.IQ4_XS: {-127, 113}, dtype.MXFP4: {-12, 12},
	}
	rng := rand.New(rand.NewPCG(17, 18))
	const side, groups = integerSide, 3
	for _, s := range isa.Available() {
		for d, f := range On(s).integerFormats {
			if f.multiply == nil {
				continue
			}
			if bounds[d] == [2]int{} {
				t.Fatalf("%v has no bounds", d)
			}
			for round := range 6 {
				for _, rows := range []int{1, 4, 7, 12, 16} {
					a, b := make([]int, groups*f.group*side), make([]int, groups*f.group*side) // [groups][group][16]
					for i := range a {
						a[i], b[i] = 127-254*(round&1), bounds[d][round>>1&1]
						if round > 3 {
							a[i], b[i] = rng.IntN(255)-127, bounds[d][0]+rng.IntN(bounds[d][1]-bounds[d][0]+1)
						}
					}
					r := groupProduct{rows: rows, groups: groups, group: f.group, a: make([]int8, len(a)),
						b: make([]int8, len(b)*f.width()), ldc: side,
						sums: make([]int32, groups*side), dx: make([]float32, groups*side),
						dw: make([]float32, groups*side), c: make([]float32, side*side),
						room: make([]float32, 2*side*side)}
					if f.lows {
						r.xs, r.low = make([]float32, groups*side), make([]float32, groups*side)
					}
					for g := range groups {
						for m := range side {
							own := r.a[(g*side+m)*f.group:][:f.group]
							sum := int32(0)
							for i := range own {
								own[i] = int8(a[(g*f.group+i)*side+m])
								sum += int32(own[i])
							}
							r.dx[g*side+m], r.dw[g*side+m], r.sums[g*side+m] = 1, 1, -128*sum
							if f.excess != 0 {
								r.sums[g*side+m] = quadExcess(own, f.excess)
							}
						}
						for n := range side {
							for i := range f.group {
								v := b[(g*f.group+i)*side+n]
								at := g*f.group*f.width()*side + i/4*64 + n*4 + i%4
								if f.nibbles {
									r.b[at], r.b[at+32*side] = int8(v&15), int8(v>>4+f.excess)
								} else {
									r.b[at] = int8(v + f.excess)
								}
							}
						}
					}
					f.multiply(r)
					for m := range rows {
						for n := range side {
							want := 0
							for i := range groups * f.group {
								want += a[i*side+m] * b[i*side+n]
							}
							if got := r.c[m*side+n]; got != float32(want) {
								t.Fatalf("%s, %v, round %d, %d rows: element %d,%d is %v; want %d", s.Name, d, round,
									rows, m, n, got, want)
							}
						}
					}
				}
			}
		}
	}
}

// TestIntegerSets checks that all sets that multiply blocks of integers give the same bits: sums of integers are exact,
// and scales are applied in the same order.
func TestIntegerSets(t *testing.T) {
	for _, size := range [][3]int{ // rows, columns, k
		{21, 40, 512}, {mostDotRows + 1, 37, 4352}, {fewRows + 1, 16, 256},
	} {
		for _, d := range dtype.Packed() {
			var want []float32
			first := ""
			for _, s := range isa.Available() {
				if !multipliesPacked(s, d) || size[0] <= On(s).integerFormats[d].dots { // those add in another order
					continue
				}
				got := roundedProduct(t, s, d, size[0], size[1], size[2])
				if first == "" {
					want, first = got, s.Name
				}
				for i, v := range got {
					if v != want[i] {
						t.Fatalf("%v, %v: element %d is %v with %s, %v with %s", size, d, i, v, s.Name, want[i], first)
					}
				}
			}
		}
	}
}

// TestIntegerThreads checks that products of rounded activations do not depend on the number of threads.
func TestIntegerThreads(t *testing.T) {
	for _, s := range isa.Available() {
		for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
			for _, m := range []int{1, 2, 9} {
				want := roundedProduct(t, s, d, m, 300, 512)
				for _, threads := range []int{2, 3} {
					for i, v := range roundedProductOn(t, kerneltest.PoolOn(t, threads, s), d, m, 300, 512) {
						if v != want[i] {
							t.Fatalf("%s, %v, %d rows: element %d is %v with %d threads, %v with one", s.Name, d, m, i,
								v, threads, want[i])
						}
					}
				}
			}
		}
	}
}

func roundedProduct(t *testing.T, s *isa.Set, d dtype.DType, m, n, k int) []float32 {
	return roundedProductOn(t, kerneltest.PoolOn(t, 1, s), d, m, n, k)
}

// roundedProductOn multiplies the same numbers in every call. It checks PackedScratch.
func roundedProductOn(t *testing.T, p *pool.Pool, d dtype.DType, m, n, k int) []float32 {
	rng := rand.New(rand.NewPCG(19, 20))
	x, c, w := make([]float32, m*k), make([]float32, m*n), make([]byte, n*k/d.Values()*d.Size())
	for i := range x {
		x[i] = rng.Float32()*4 - 2
	}
	quant.Random(w, d, rng.Uint32)
	g := GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true, C: c, LDC: n}
	need := PackedScratch(p, d, m, k).With(g.ScratchSize(p))
	kerneltest.Reserve(t, p, need)
	GemmRounded(p, &g)
	kerneltest.Fits(t, p, need, keptPanels(p), fmt.Sprintf("%s, %v, %d rows", p.Set.Name, d, m))
	return c
}

// TestDotsTogether checks that products of several rows that are multiplied together with weights have the bits of the
// products of each row alone, for numbers of rows and columns of all kinds.
func TestDotsTogether(t *testing.T) {
	for _, s := range isa.Available() {
		for d, dot := range On(s).dotBytes {
			if dot.together == nil {
				continue
			}
			for _, size := range [][2]int{{1, 32}, {2, 64}, {31, 96}, {77, 544}} { // columns, k
				n, k := size[0], size[1]
				for m := 2; m <= On(s).integerFormats[d].dots; m++ {
					rng := rand.New(rand.NewPCG(uint64(m), uint64(k)))
					x, w := make([]float32, m*k), make([]byte, n*k/d.Values()*d.Size())
					for i := range x {
						x[i] = rng.Float32()*4 - 2
					}
					for i := range 32 { // a group of zeros, and one with a large element
						x[i] = 0
					}
					x[len(x)-1] = 1e30
					quant.Random(w, d, rng.Uint32)
					for i := range d.Size() - 2 { // the most negative integers
						w[2+i] = 0x80
					}
					p := kerneltest.NewPool(t, 1, s.Name)
					multiply := func(m int, x []float32) []float32 {
						c := make([]float32, m*(n+3))
						g := GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true,
							C: c, LDC: n + 3}
						kerneltest.Reserve(t, p, PackedScratch(p, d, m, k).With(g.ScratchSize(p)))
						GemmRounded(p, &g)
						return c
					}
					got := multiply(m, x)
					for i := range m {
						want := multiply(1, x[i*k:][:k])
						for j, v := range want {
							if got[i*(n+3)+j] != v && (v == v || got[i*(n+3)+j] == got[i*(n+3)+j]) {
								t.Fatalf("%s, %v, %dx%dx%d: element %d,%d is %v; alone %v", s.Name, d, m, n, k, i, j,
									got[i*(n+3)+j], v)
							}
						}
					}
				}
			}
		}
	}
}
