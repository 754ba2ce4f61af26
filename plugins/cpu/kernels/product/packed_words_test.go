package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// integerBounds are the smallest and the largest integers of formats.
var integerBounds = map[dtype.DType][2]int{
	dtype.Q4_0: {-8, 7}, dtype.Q4_1: {0, 15}, dtype.Q5_0: {-16, 15}, dtype.Q5_1: {0, 31}, dtype.Q8_0: {-128, 127},
	dtype.Q2_K: {0, 3}, dtype.Q3_K: {-4, 3},
	dtype.Q4_K: {0, 15}, dtype.Q5_K: {0, 31}, dtype.Q6_K: {-32, 31}, dtype.Q8_K: {-128, 127},
	dtype.IQ4_NL: {-127, 113}, dtype.IQ4_XS: {-127, 113}, dtype.MXFP4: {-12, 12},
}

// extremes returns integers of activations and of weights, [k][rows] and [k][columns]: in the first rounds the largest
// that they have, then random ones.
func extremes(rng *rand.Rand, d dtype.DType, round, k, rows, columns int) (a, b []int) {
	bounds := integerBounds[d]
	fill := func(n int, least, most int, largest bool) []int {
		x := make([]int, n)
		for i := range x {
			x[i] = least
			if largest {
				x[i] = most
			}
			if round > 3 {
				x[i] = least + rng.IntN(most-least+1)
			}
		}
		return x
	}
	return fill(k*rows, -127, 127, round&1 == 0), fill(k*columns, bounds[0], bounds[1], round>>1&1 == 1)
}

// TestIntegerExtremes multiplies the largest integers that formats and activations have. Some products add up in 16
// bits, which overflows if the integers exceed these bounds. It also compares small integers. Results are exact.
func TestIntegerExtremes(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for _, s := range isa.Available() {
		for d, f := range On(s).integerFormats {
			if integerBounds[d] == [2]int{} {
				t.Fatalf("%v has no bounds", d)
			}
			const groups = 3
			for round := range 6 {
				k := groups * f.group
				a, b := extremes(rng, d, round, k, integerSide, integerSide)
				for _, rows := range []int{1, 4, 7, 8, 12, 16} {
					var c []float32 // [rows][16]
					switch {
					case f.eights.multiply != nil:
						c = eightsOf(f, a, b, groups, min(rows, eightsRows))
					case f.multiply != nil:
						c = tileOf(f, a, b, groups, rows)
					}
					for i, got := range c {
						want := 0
						for l := range k {
							want += a[l*integerSide+i/integerSide] * b[l*integerSide+i%integerSide]
						}
						if got != float32(want) {
							t.Fatalf("%s, %v, round %d, %d rows: element %d is %v; want %d", s.Name, d, round, rows, i,
								got, want)
						}
					}
				}
			}
		}
	}
}

// tileOf multiplies by integerFormat.multiply. a and b are [groups*group][16]. All scales are 1.
func tileOf(f integerFormat, a, b []int, groups, rows int) []float32 {
	const side = integerSide
	ones := func() []float32 { return slices.Repeat([]float32{1}, groups*side) }
	r := groupProduct{rows: rows, groups: groups, group: f.group, a: make([]int8, len(a)), b: make([]int8, len(b)),
		ldc: side, dx: ones(), dw: ones(), c: make([]float32, side*side),
		room: make([]float32, 2*side*side)}
	if f.lows {
		r.xs, r.low = make([]float32, groups*side), make([]float32, groups*side)
	}
	for i, v := range a {
		g, l, m := i/side/f.group, i/side%f.group, i%side
		r.a[(g*side+m)*f.group+l] = int8(v)
	}
	for i, v := range b {
		l, n := i/side, i%side
		r.b[l/4*64+n*4+l%4] = int8(v)
	}
	f.multiply(r)
	return r.c[:rows*side]
}

// eightsOf is tileOf for integerFormat.eights.
func eightsOf(f integerFormat, a, b []int, groups, rows int) []float32 {
	const side = integerSide
	record, column := f.eightsRecord(), f.eightsColumn()
	x, q := make([]float32, groups*record), make([]int8, side*column)
	scales, c := make([]float32, 2*side*eightsScales), make([]float32, side*eightsRows)
	for g := range groups {
		at := bitsOf(x[g*record:][:record])
		for m := range rows {
			own := make([]int8, f.group)
			sum := 0
			for l := range own {
				v := a[(g*f.group+l)*side+m]
				own[l], sum = int8(v), sum+v
			}
			for j, quad := range quadsOf(own) {
				at[j*eightsRows+m] = uint32(quad)
			}
			at[2*f.group+m] = math.Float32bits(1)
			if f.eights.pairs && f.excess > 0 {
				at[2*f.group+eightsRows+m] = uint32(quadExcess(own, f.excess))
			} else if !f.lows {
				at[2*f.group+eightsRows+m] = uint32(-f.excess * sum)
			}
		}
		for n := range side {
			scales[n*eightsScales+g] = 1
			for l := range f.group {
				v := b[(g*f.group+l)*side+n]
				if own := q[n*column+g*f.group*f.width():]; f.nibbles {
					own[l], own[l+32] = int8(v&15), int8(v>>4+f.excess)
				} else {
					own[l] = int8(v + f.excess)
				}
			}
		}
	}
	f.eights.multiply(&x[0], &q[0], &scales[0], &c[0], groups, side/f.eights.set, nil, 0, 0, 0)
	rowsOf := make([]float32, rows*side)
	for i := range rowsOf {
		rowsOf[i] = c[i%side*eightsRows+i/side]
	}
	return rowsOf
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
