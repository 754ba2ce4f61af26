//go:build amd64

package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// bf16At returns the i-th bfloat16 of a row of pairs.
func bf16At(x []float32, i int) float64 {
	u := math.Float32bits(x[i/2])
	if i%2 == 0 {
		u <<= 16
	}
	return float64(math.Float32frombits(u &^ 0xffff))
}

// attendByDefinition is routines.attend in plain Go, with the largest score as m.
func attendByDefinition(a *attendPanel) {
	d := a.steps * product.TileSide
	for query := range 2 * groupSize {
		half, col := query/groupSize, query%groupSize
		q, o := a.q[half*a.steps*tileFloats:], a.o[half*2*a.steps*tileFloats:]
		var s []float64
		top := float64(a.m[query])
		for key := range a.blocks * 2 * groupSize {
			group, row := key/groupSize, key%groupSize
			sum := float64(a.init[int(a.table[2*group])/4+half*a.initHalf+row*groupSize+col])
			for e := range d {
				x := bf16At(q[e/2*groupSize+col:], e%2)
				sum += x * bf16At(a.k[(group*a.steps+e/product.TileSide)*tileFloats+row*groupSize:], e%product.TileSide)
			}
			sum = sum*float64(a.scale) + float64(a.row[int(a.table[2*group+1])/4+half*a.rowHalf+col])
			s = append(s, sum)
			top = max(top, sum)
		}
		base := top
		if math.IsInf(top, -1) {
			base = 0
		}
		old := math.Exp2(float64(a.m[query]) - base)
		out := make([]float64, d)
		for e := range out {
			out[e] = old * float64(o[e*groupSize+col])
		}
		l := old * float64(a.l[query])
		for key, x := range s {
			w := float64(product.RoundBF16(float32(math.Exp2(x - base))))
			l += w
			for e := range out {
				out[e] += w * bf16At(a.v[(key/product.TileSide*d+e)*groupSize:], key%product.TileSide)
			}
		}
		for e, x := range out {
			o[e*groupSize+col] = float32(x)
		}
		a.m[query], a.l[query] = float32(top), float32(l)
	}
}

// tileTermsByDefinition is routines.tileTerms in plain Go.
func tileTermsByDefinition(t *termTiles) {
	for i := 0; i < len(t.items); i += 3 {
		a, b, c := int(t.items[i])/4, int(t.items[i+1])/4, int(t.items[i+2])/4
		for row := range groupSize {
			for col := range groupSize {
				sum := 0.0
				for k := range t.steps * product.TileSide {
					at := a + k/product.TileSide*tileFloats + row*t.aStride
					x, xLow := bf16At(t.a[at:], k%product.TileSide), bf16At(t.aLow[at:], k%product.TileSide)
					at = b + k/2*t.bStride + col
					y, yLow := bf16At(t.b[at:], k%2), bf16At(t.bLow[at:], k%2)
					sum += x*y + x*yLow + xLow*y
				}
				t.c[c+row*groupSize+col] = float32(sum)
			}
		}
	}
}

// withPanels is product.eachTiled, also with emulated panels if the processor has no tiles but can pack for them.
func withPanels(t *testing.T, f func(t *testing.T, p *pool.Pool)) {
	sets := product.EmulatedTiles()
	for range sets {
		sets = append(sets, emulatePanels(isa.AVX512BF16))
	}
	kerneltest.EachPool(t, f, sets...)
}

// emulatePanels extends a set with attention in plain Go.
func emulatePanels(base *isa.Set) *isa.Set {
	s := isa.Extend(base, base.Name+" with panels by definition")
	setTable.Add(s, func() *routines {
		r := amx()
		r.attend, r.tileTerms = attendByDefinition, tileTermsByDefinition
		return r
	})
	return s
}

// TestAttend compares the assembly with attendByDefinition.
func TestAttend(t *testing.T) {
	if !slices.Contains(isa.Features(), "amx") {
		t.Skip("no AMX on this processor")
	}
	r := kerneltest.RNG(1)
	for steps := 1; steps <= attendMost; steps++ {
		for _, blocks := range []int{1, 2, 3, 4, 5, 9, 40} {
			for _, kind := range []string{"", "large", "rising", "resumed", "masked", "NaN"} {
				what := fmt.Sprintf("steps %d blocks %d %s", steps, blocks, kind)
				area := steps * tileFloats
				a := randomPanel(r, steps, blocks)
				a.fresh = kind != "resumed" && blocks != 3
				switch kind {
				case "large":
					a.scale = 300
				case "rising":
					for i := range a.k {
						a.k[i] = pair(bf16At(a.k[i:], 0)*float64(i*40/len(a.k)),
							bf16At(a.k[i:], 1)*float64(i*40/len(a.k)))
					}
				case "resumed":
					a.m, a.l, a.o = kerneltest.Randoms(r, 32), kerneltest.Randoms(r, 32), kerneltest.Randoms(r, 4*area)
					for i := range a.l {
						a.l[i] += 2
					}
				case "masked":
					for i := range tileFloats {
						if i%3 != 0 {
							a.init[4*tileFloats+i] = float32(math.Inf(-1))
						}
					}
					for i := range a.init {
						if i%groupSize == 5 {
							a.init[i] = float32(math.Inf(-1)) // a query without keys
						}
					}
				case "NaN":
					a.init[4*tileFloats+7] = float32(math.NaN())
				}
				b := a
				b.m, b.l = slices.Clone(a.m), slices.Clone(a.l)
				b.o = slices.Clone(a.o)
				o, check := kerneltest.Guarded(len(a.o))
				copy(o, a.o)
				a.o = o
				attendAMX(&a)
				check(t, what)
				attendByDefinition(&b)
				for i := range a.o {
					query := i/(2*area)*groupSize + i%groupSize
					want := float64(b.o[i]) / float64(b.l[query])
					if !kerneltest.Near(a.o[i]/a.l[query], want, 8e-3, 1e-4) {
						t.Fatalf("%s: %v, want %v for query %d", what, a.o[i]/a.l[query], want, query)
					}
				}
			}
		}
	}
}

// randomPanel returns a panel with random operands and cleared results. The first group of keys has other init and row
// terms than the rest.
func randomPanel(r *rand.Rand, steps, blocks int) attendPanel {
	area := steps * tileFloats
	a := attendPanel{steps: steps, blocks: blocks, q: kerneltest.RandomPairs(r, 2*area),
		k:    kerneltest.RandomPairs(r, 2*blocks*area),
		v:    kerneltest.RandomPairs(r, 2*blocks*area),
		init: kerneltest.Randoms(r, 10*tileFloats), initHalf: 5 * tileFloats, row: kerneltest.Randoms(r, 6*groupSize),
		rowHalf: 3 * groupSize,
		m:       make([]float32, 32), l: make([]float32, 32), o: make([]float32, 4*area), scale: 1.5,
		work: make([]float32, attendWork)}
	a.clear()
	for range 2 * blocks {
		a.table = append(a.table, int32(r.IntN(4)*tileFloats*4), int32(r.IntN(3)*groupSize*4))
	}
	a.table[0] = 4 * tileFloats * 4
	return a
}

// BenchmarkAttend runs attend on panels like those of windows of 14 by 14 and of a grid of 64 by 64, with the maximum
// of the first block and with that of all blocks.
func BenchmarkAttend(b *testing.B) {
	if !slices.Contains(isa.Features(), "amx") {
		b.Skip("no AMX on this processor")
	}
	for steps := 1; steps <= attendMost; steps++ {
		for _, blocks := range []int{7, 128} {
			for _, fresh := range []bool{true, false} {
				b.Run(fmt.Sprintf("dim%d/keys%d/fresh%v", steps*product.TileSide, blocks*product.TileSide, fresh),
					func(b *testing.B) {
						a := randomPanel(kerneltest.RNG(1), steps, blocks)
						a.scale = 0.1
						for b.Loop() {
							a.clear()
							a.fresh = fresh
							attendAMX(&a)
						}
						keys, dim := blocks*product.TileSide, steps*product.TileSide
						b.ReportMetric(float64(b.N)*float64(4*product.TileSide*keys*dim)/b.Elapsed().Seconds()/1e9,
							"GFLOP/s")
					})
			}
		}
	}
}

func pair(low, high float64) float32 {
	return math.Float32frombits(
		math.Float32bits(product.RoundBF16(float32(low)))>>16 | math.Float32bits(product.RoundBF16(float32(high))))
}

// TestTileTerms compares the assembly with tileTermsByDefinition.
func TestTileTerms(t *testing.T) {
	if !slices.Contains(isa.Features(), "amx") {
		t.Skip("no AMX on this processor")
	}
	r := kerneltest.RNG(2)
	for steps := 1; steps <= attendMost; steps++ {
		for _, n := range []int{1, 2, 5} {
			const stride = 24
			a := termTiles{steps: steps, a: kerneltest.RandomPairs(r, 3*steps*tileFloats),
				aLow: kerneltest.RandomPairs(r, 3*steps*tileFloats), aStride: groupSize,
				b: kerneltest.RandomPairs(r, steps*groupSize*stride), bLow: kerneltest.RandomPairs(r,
					steps*groupSize*stride),
				bStride: stride}
			for i := range n {
				a.items = append(a.items, int32(r.IntN(3)*steps*tileFloats*4), int32(r.IntN(stride-groupSize)*4),
					int32(i*tileFloats*4))
			}
			b := a
			c, check := kerneltest.Guarded(n * tileFloats)
			a.c, b.c = c, make([]float32, n*tileFloats)
			tileTermsAMX(&a)
			check(t, "terms")
			tileTermsByDefinition(&b)
			exact := make([]float64, len(b.c))
			for i, x := range b.c {
				exact[i] = float64(x)
			}
			kerneltest.Compare(t, fmt.Sprintf("steps %d n %d", steps, n), a.c, exact, 1e-4, 1e-5)
		}
	}
}

// TestTilePacking tests packing for tiles and the transposition of their results.
func TestTilePacking(t *testing.T) {
	if !slices.Contains(isa.Features(), "avx512bf16") {
		t.Skip("no bfloat16 on this processor")
	}
	panels := amx()
	r := kerneltest.RNG(3)
	for steps := 1; steps <= attendMost; steps++ {
		for _, n := range []int{1, 3, 8, 14, 16} {
			what := fmt.Sprintf("steps %d rows %d", steps, n)
			ld := steps*product.TileSide + 5
			src := kerneltest.Randoms(r, (n-1)*ld+steps*product.TileSide)
			src[3] = float32(math.NaN())
			tiles, check := kerneltest.Guarded((steps-1)*tileFloats + n*groupSize)
			low, checkLow := kerneltest.Guarded(len(tiles))
			fill := func(x []float32) { // the gaps between rows
				for step := range steps - 1 {
					clear(x[step*tileFloats+n*groupSize : (step+1)*tileFloats])
				}
			}
			fill(tiles)
			fill(low)
			panels.tileRowsSplit(tiles, low, src, ld, n, steps, ld)
			check(t, what)
			checkLow(t, what)
			plain := make([]float32, len(tiles))
			panels.tileRows(plain, src, ld, n, steps)
			for i := range n {
				for e := range steps * product.TileSide {
					at := e/product.TileSide*tileFloats + i*groupSize
					x := src[i*ld+e]
					high := product.RoundBF16(x)
					left := product.RoundBF16(x - high)
					if got := bf16At(tiles[at:], e%product.TileSide); !kerneltest.Near(float32(got), float64(high), 0,
						0) ||
						!kerneltest.Near(float32(bf16At(plain[at:], e%product.TileSide)), float64(high), 0, 0) {
						t.Fatalf("%s: high part of %v is %v", what, x, got)
					}
					if got := bf16At(low[at:], e%product.TileSide); !kerneltest.Near(float32(got), float64(left), 0,
						0) {
						t.Fatalf("%s: low part of %v is %v, want %v", what, x, got, left)
					}
				}
			}
			if n%2 == 0 {
				pairs, checkPairs := kerneltest.Guarded(n / 2 * steps * product.TileSide)
				panels.tilePairs(pairs, src, ld, n/2, 2*steps)
				checkPairs(t, what)
				for i := range n {
					for e := range steps * product.TileSide {
						if got, want := bf16At(pairs[i/2*steps*product.TileSide+e:], i%2),
							product.RoundBF16(src[i*ld+e]); !kerneltest.Near(float32(got), float64(want), 0, 0) {
							t.Fatalf("%s: pair is %v, want %v", what, got, want)
						}
					}
				}
			}
			o, l := kerneltest.Randoms(r, 2*steps*tileFloats), kerneltest.Randoms(r, groupSize)
			l[0] = 0
			ldd := 2*steps*groupSize + 3
			out, check := kerneltest.Guarded((n-1)*ldd + 2*steps*groupSize)
			for i := range n - 1 {
				clear(out[i*ldd+2*steps*groupSize : (i+1)*ldd])
			}
			panels.tileOut(out, ldd, o, l, n, 2*steps)
			check(t, what)
			for i := range n {
				for e := range 2 * steps * groupSize {
					want := float64(o[e*groupSize+i]) / float64(l[i])
					if l[i] == 0 {
						want = 0
					}
					if !kerneltest.Near(out[i*ldd+e], want, 0, 1e-6) {
						t.Fatalf("%s: element %d of query %d is %v, want %v", what, e, i, out[i*ldd+e], want)
					}
				}
			}
		}
	}
}
