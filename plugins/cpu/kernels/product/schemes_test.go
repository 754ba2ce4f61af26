package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// schemeValue64 computes value i of w by package quant, without our tables and routines.
func schemeValue64(w *SchemeWeights, i int) float64 {
	q := byte(0)
	if w.Values == "int4" || w.Values == "e2m1" {
		q = w.Data[i/2] >> (i % 2 * 4) & 15
	} else {
		q = w.Data[i]
	}
	r, c := 0, i%w.N
	if w.Block > 0 {
		r = i / w.N / w.Block
	}
	var v float64
	switch w.Values {
	case "int8":
		v = float64(int8(q))
	case "int4":
		v = float64(int8(q<<4) >> 4)
	case "e2m1":
		v = float64(quant.E2M1(q))
	case "e4m3":
		v = float64(quant.E4M3(q))
	default:
		v = float64(quant.E5M2(q))
	}
	if w.Zero != nil {
		v -= float64(w.Zero[r*w.N+c])
	}
	switch {
	case w.Scale != nil:
		v *= float64(w.Scale[r*w.N+c])
	case w.Small != nil:
		v *= float64(quant.E4M3(w.Small[r*w.N+c])) * float64(w.Global)
	}
	return v
}

// randomScheme returns random weights of a scheme. Floats are below 4, so that no float is NaN.
func randomScheme(r *rand.Rand, kind string, k, n int) *SchemeWeights {
	w := &SchemeWeights{Values: kind, N: n, Block: []int{1, 8, 16, 32, 40, 100}[r.IntN(6)]}
	size, mask := k*n, byte(0xff)
	switch kind {
	case "int8_asym":
		w.Values = "int8"
	case "int4", "e2m1":
		size = (k*n + 1) / 2
	case "e4m3":
		w.Block, mask = 0, 0xc7
	case "e5m2":
		w.Block, mask = 0, 0xc3
	}
	w.Data = make([]byte, size)
	for i := range w.Data {
		w.Data[i] = byte(r.Uint32()) & mask
	}
	scales := n
	if w.Block > 0 {
		scales = (k + w.Block - 1) / w.Block * n
	}
	switch {
	case kind == "e2m1":
		w.Small, w.Global = make([]byte, scales), 0.1
		for i := range w.Small {
			w.Small[i] = byte(r.IntN(0x60))
		}
	case w.Block > 0 || r.IntN(2) == 0:
		w.Scale = kerneltest.Randoms(r, scales)
	}
	if kind == "int8_asym" {
		w.Zero = kerneltest.Randoms(r, scales)
		for i := range w.Zero {
			w.Zero[i] *= 20
		}
	}
	return w
}

var schemeKinds = []string{"int8", "int8_asym", "int4", "e2m1", "e4m3", "e5m2"}

// TestSchemeProducts compares products of few and of many rows with sums in float64, for all sets.
func TestSchemeProducts(t *testing.T) {
	kerneltest.EachNewPool(t, func(t *testing.T, like *pool.Pool) {
		r := kerneltest.RNG(16)
		for _, kind := range schemeKinds {
			for _, size := range [][3]int{{1, 1, 1}, {1, 70, 96}, {3, 33, 47}, {2, 300, 130}, {4, 64, 64}, {5, 80, 70},
				{6, 290, 33}, {2, 5, 0}} {
				m, n, k := size[0], size[1], size[2]
				p := kerneltest.NewPool(t, like.Threads(), like.Features())
				w := randomScheme(r, kind, k, n)
				g := GemmArgs{M: m, N: n, K: k, A: kerneltest.Randoms(r, m*k), LDA: k, C: make([]float32, m*n), LDC: n}
				need := SchemeScratch(p, m, k, n, Float32)
				kerneltest.Reserve(t, p, need)
				(&SchemeProduct{}).Multiply(p, &g, w)
				what := fmt.Sprintf("%s, %s, %v, block %d", p.Features(), kind, size, w.Block)
				kerneltest.Fits(t, p, need, keptPanels(p), what)
				for i := range m {
					for j := range n {
						var sum, most float64
						for l := range k {
							v := float64(g.A[i*k+l]) * schemeValue64(w, l*n+j)
							sum, most = sum+v, most+math.Abs(v)
						}
						if e := math.Abs(float64(g.C[i*n+j]) - sum); e > 1e-6*most {
							t.Fatalf("%s: element %d,%d is %v; want %v", what, i, j, g.C[i*n+j], sum)
						}
					}
				}
			}
		}
	})
	kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
		r := kerneltest.RNG(17)
		g := GemmArgs{M: 2, N: 1000, K: 100, A: kerneltest.Randoms(r, 200), LDA: 100, C: make([]float32, 2000),
			LDC: 1000}
		(&SchemeProduct{Rounds: true}).Multiply(p, &g, randomScheme(r, "int4", 100, 1000))
		return g.C
	})
}

// TestSchemeRoutines checks that all bit patterns, also NaN and infinities, are decoded as by package quant, and that
// infinite weights and NaN affect a product in the same way as decoded weights.
func TestSchemeRoutines(t *testing.T) {
	const k, n = 16, 32
	for _, s := range isa.Available() {
		p := kerneltest.PoolOn(t, 1, s)
		for _, kind := range schemeKinds {
			w := randomScheme(kerneltest.RNG(18), kind, k, n)
			for i := range w.Data {
				w.Data[i] = byte(i)
			}
			w.Block, w.Small, w.Scale = 0, nil, kerneltest.Randoms(kerneltest.RNG(19), n)
			w.Scale[3], w.Scale[20] = float32(math.Inf(1)), float32(math.Inf(-1))
			if w.Zero != nil {
				w.Zero = kerneltest.Randoms(kerneltest.RNG(20), n)
			}
			got, x := make([]float32, k*n), kerneltest.Randoms(kerneltest.RNG(21), k)
			w.decode(s, got, n, 0, k, 0, n, w.Scale, w.Zero)
			g := GemmArgs{M: 1, N: n, K: k, A: x, LDA: k, C: make([]float32, n), LDC: n}
			(&SchemeProduct{}).Multiply(p, &g, w)
			for j := range n {
				var sum float64
				for l := range k {
					v := w.at(w.values(), l*n+j)
					if w.Zero != nil {
						v -= w.Zero[j]
					}
					want := float64(v * w.Scale[j])
					if e := float64(got[l*n+j]); e != want && !(math.IsNaN(e) && math.IsNaN(want)) {
						t.Fatalf("%s, %s: weight %d,%d is %v; want %v", s.Name, kind, l, j, e, want)
					}
					if v64 := schemeValue64(w, l*n+j); math.IsNaN(v64) != math.IsNaN(want) ||
						math.Abs(v64-want) > 1e-6*math.Abs(want) {
						t.Fatalf("%s, %s: the table has %v for weight %d,%d; want %v", s.Name, kind, want, l, j, v64)
					}
					sum += float64(x[l]) * want
				}
				if c := float64(g.C[j]); math.IsNaN(c) != math.IsNaN(sum) || math.IsInf(sum, 0) && c != sum {
					t.Errorf("%s, %s: column %d is %v; want %v", s.Name, kind, j, c, sum)
				}
			}
		}
	}
}

// BenchmarkSchemes runs a layer as in a model of 1e9 weights, so that these come from memory. MB/s counts weights and
// scales.
func BenchmarkSchemes(b *testing.B) {
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	const k, n, copies = 2048, 8192, 6
	for _, kind := range schemeKinds {
		for _, m := range []int{1, 4, 64, 512} {
			b.Run(fmt.Sprintf("%s/%d", kind, m), func(b *testing.B) {
				w := randomScheme(kerneltest.RNG(1), kind, k, n)
				if w.Block > 0 && kind != "e2m1" {
					w.Block = 32
				} else if kind == "e2m1" {
					w.Block = 16
				}
				data := make([]byte, copies*len(w.Data))
				for i := range copies {
					copy(data[i*len(w.Data):], w.Data)
				}
				if w.Block > 0 {
					w.Scale = kerneltest.Randoms(kerneltest.RNG(2), k/w.Block*n)
				}
				if w.Small != nil {
					w.Scale, w.Small = nil, make([]byte, k/w.Block*n)
				}
				if w.Zero != nil {
					w.Zero = w.Scale
				}
				g := GemmArgs{M: m, N: n, K: k, A: kerneltest.Randoms(kerneltest.RNG(3), m*k), LDA: k,
					C: make([]float32, m*n), LDC: n}
				var x SchemeProduct
				b.SetBytes(int64(len(w.Data) + 4*len(w.Scale) + len(w.Small) + 4*len(w.Zero)))
				b.ResetTimer()
				for i := range b.N {
					w.Data = data[i%copies*len(w.Data):][:len(w.Data)]
					x.Multiply(p, &g, w)
				}
			})
		}
	}
}
