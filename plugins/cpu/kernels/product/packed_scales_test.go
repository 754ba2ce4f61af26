package product

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// scalesOf lists where the blocks of a type have f16 scales.
var scalesOf = map[dtype.DType][]int{dtype.Q8_0: {0}, dtype.Q4_0: {0}, dtype.Q4_K: {0, 2}, dtype.Q6_K: {208}}

// extremeBlocks returns rows of blocks with random integers, and their values. All f16 scales of row r are the r-th of
// these: 0, -0, the smallest subnormal number, the smallest normal one, the largest one, and its opposite.
func extremeBlocks(d dtype.DType, blocks int, rng *rand.Rand) (w []byte, values []float32, rows int) {
	scales := []uint16{0, 0x8000, 1, 0x0400, 0x7bff, 0xfbff}
	w, values = make([]byte, len(scales)*blocks*d.Size()), make([]float32, len(scales)*blocks*d.Values())
	quant.Random(w, d, rng.Uint32)
	for i := 0; i < len(w); i += d.Size() {
		for _, at := range scalesOf[d] {
			binary.LittleEndian.PutUint16(w[i+at:], scales[i/d.Size()/blocks])
		}
	}
	quant.Decode(values, d, w)
	return w, values, len(scales)
}

// TestPackedScales compares blocks with extreme scales with package quant: decoders bit by bit, products of unrounded
// and of rounded activations with float64.
func TestPackedScales(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, s := range isa.Available() {
		p := kerneltest.PoolOn(t, 1, s)
		for d := range scalesOf {
			for _, blocks := range []int{1, 3} {
				w, values, rows := extremeBlocks(d, blocks, rng)
				k := blocks * d.Values()
				got := make([]float32, len(values))
				DecodeRows(p, got, stored.Packed(d, w), rows, k)
				for i, v := range got {
					if v != values[i] {
						t.Fatalf("%s, %v: value %d is %v; want %v", s.Name, d, i, v, values[i])
					}
				}
				for _, size := range []float64{1, 0x1p-60, 0x1p60} {
					x, c := make([]float32, k), make([]float32, rows)
					for i := range x {
						x[i] = (rng.Float32()*4 - 2) * float32(size)
					}
					g := GemmArgs{M: 1, N: rows, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true, C: c,
						LDC: rows}
					check := func(what string, activation func(i int) float64) {
						for row, got := range c {
							sum, most := 0.0, 0.0
							for i := range x {
								v := activation(i) * float64(values[row*k+i])
								sum, most = sum+v, most+math.Abs(v)
							}
							if e := math.Abs(float64(got) - sum); !(e <= 1e-6*most) {
								t.Errorf("%s, %v, %d blocks, %s of size %g: row %d is %v; want %v", s.Name, d, blocks,
									what, size, row, got, sum)
							}
						}
					}
					Gemm(p, &g)
					check("activations", func(i int) float64 { return float64(x[i]) })
					GemmRounded(p, &g)
					q, scale := make([]int8, k), make([]float32, k/quant.Group)
					quant.RoundActivations(q, scale, x)
					check(
						"rounded activations",
						func(i int) float64 { return float64(q[i]) * float64(scale[i/quant.Group]) })
				}
			}
		}
	}
}

// TestPackedThreads checks that products of packed weights and one row of activations do not depend on the number of
// threads.
func TestPackedThreads(t *testing.T) {
	const n, k = 301, 512
	rng := rand.New(rand.NewPCG(23, 24))
	for _, s := range isa.Available() {
		for d := range scalesOf {
			x, w := make([]float32, k), make([]byte, n*k/d.Values()*d.Size())
			for i := range x {
				x[i] = rng.Float32()*4 - 2
			}
			quant.Random(w, d, rng.Uint32)
			var want []float32
			for _, threads := range []int{1, 2, 3} {
				c := make([]float32, n)
				Gemm(kerneltest.PoolOn(t, threads, s),
					&GemmArgs{M: 1, N: n, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true, C: c,
						LDC: n})
				if want == nil {
					want = c
				}
				for i, v := range c {
					if v != want[i] {
						t.Fatalf("%s, %v: element %d is %v with %d threads, %v with one", s.Name, d, i, v, threads,
							want[i])
					}
				}
			}
		}
	}
}
