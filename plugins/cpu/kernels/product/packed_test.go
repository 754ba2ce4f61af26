package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestPackedRoutines compares all sets with package quant: decoders bit by bit, products with float64.
func TestPackedRoutines(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, s := range isa.Available() {
		for d, r := range stored.On(s).Packed {
			for _, blocks := range []int{1, 2, 3, 4, 5, 7, 8, 9, 33} {
				const rows = 4*2 + 3 // two in each stream, and three left over
				w, k := make([]byte, rows*blocks*d.Size()), blocks*d.Values()
				quant.Random(w, d, rng.Uint32)
				values, want := make([]float32, rows*k), make([]float32, rows*k)
				quant.Decode(want, d, w)
				r.Decode(values, w)
				for i, v := range values {
					if math.Float32bits(v) != math.Float32bits(want[i]) {
						t.Fatalf("%s, %v: value %d of %d is %v; want %v", s.Name, d, i, len(values), v, want[i])
					}
				}
				if r.Dot == nil {
					continue
				}
				x, sums, dst := make([]float32, k), make([]float32, k/32), make([]float32, rows)
				for i := range x {
					x[i] = rng.Float32()*4 - 2
					sums[i/32] += x[i]
				}
				arranged := x
				if r.Arrange != nil {
					arranged = make([]float32, k)
					if !r.Arrange(arranged, x) {
						t.Fatalf("%s, %v: arrange returned false", s.Name, d)
					}
				}
				r.Dot(dst, w, blocks*d.Size(), arranged, sums)
				for row, got := range dst {
					var sum, size float64
					for i, v := range x {
						p := float64(v) * float64(want[row*k+i])
						sum, size = sum+p, size+math.Abs(p)
					}
					if e := math.Abs(float64(got) - sum); e > 4e-7*size {
						t.Errorf("%s, %v, %d blocks: row %d is %v; want %v", s.Name, d, blocks, row, got, sum)
					}
				}
			}
		}
	}
}

// TestPackedTiny compares products of activations near the smallest float with float64. Routines may scale activations
// by powers of two, which must not cost bits.
func TestPackedTiny(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	const k, n = 512, 9
	for _, s := range isa.Available() {
		for d := range stored.On(s).Packed {
			for _, size := range []float32{0, 0x1p-122, 0x1p-101, 0x1p-99} {
				p := kerneltest.PoolOn(t, 1, s)
				w, x, c, values := make([]byte, n*k/d.Values()*d.Size()), make([]float32, k), make([]float32, n),
					make([]float32, n*k)
				quant.Random(w, d, rng.Uint32)
				quant.Decode(values, d, w)
				for i := range x {
					x[i] = (rng.Float32()*2 - 1) * size
				}
				Gemm(p, &GemmArgs{M: 1, N: n, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true, C: c,
					LDC: n})
				for r, got := range c {
					var sum, size float64
					for i, v := range x {
						p := float64(v) * float64(values[r*k+i])
						sum, size = sum+p, size+math.Abs(p)
					}
					if e := math.Abs(float64(got) - sum); e > 1e-6*size {
						t.Errorf("%s, %v, %v: row %d is %v; want %v", s.Name, d, size, r, got, sum)
					}
				}
			}
		}
	}
}

// equalMatrices returns equal matrices of values weights, one behind the other.
func equalMatrices(rng *rand.Rand, d dtype.DType, values, copies int) []byte {
	size := values / d.Values() * d.Size()
	b := tensor.AlignedBytes(copies * size)
	if d.IsPacked() {
		quant.Random(b[:size], d, rng.Uint32)
	} else {
		for i := range size {
			b[i] = byte(rng.Uint32())&3 | 0x3c // about 0.01 in f32 and bf16, 1 in f16: denormals are slow
		}
	}
	for i := 1; i < copies; i++ {
		copy(b[i*size:], b[:size])
	}
	return b
}

// weightsIn returns the matrix of type d that b holds.
func weightsIn(d dtype.DType, b []byte) stored.Values {
	switch d {
	case dtype.F32:
		return stored.F32(tensor.View[float32](b))
	case dtype.F16, dtype.BF16:
		return stored.Values{Halves: tensor.View[uint16](b), Kind: d}
	}
	return stored.Packed(d, b)
}

// BenchmarkPackedVector measures generating one token: products with weights of a model of 1e9 parameters, which come
// from memory. The rate counts the bytes of the weights. Weights stored as floats are measured too.
func BenchmarkPackedVector(b *testing.B) {
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	const k, n = 2048, 8192
	const copies = 12
	for _, d := range []dtype.DType{dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K, dtype.Q5_K, dtype.F32, dtype.F16,
		dtype.BF16} {
		for _, m := range []int{1, 2, 4, 8, 64, 512} {
			if m > 4 && !d.IsPacked() {
				continue
			}
			for _, rounds := range []bool{false, true} {
				if rounds && !d.IsPacked() {
					continue
				}
				b.Run(fmt.Sprintf("%v/%d/%s", d, m, map[bool]string{false: "f32", true: "q8"}[rounds]),
					func(b *testing.B) {
						rng := rand.New(rand.NewPCG(1, 2))
						memory := equalMatrices(rng, d, n*k, copies)
						size := len(memory) / copies
						x, c := make([]float32, m*k), make([]float32, m*n)
						for i := range x {
							x[i] = rng.Float32()
						}
						b.SetBytes(int64(size))
						b.ResetTimer()
						for i := range b.N {
							g := GemmArgs{M: m, N: n, K: k, A: x, LDA: k, LDB: k, LDC: n, C: c, TransB: true}
							g.B = weightsIn(d, memory[i%copies*size:][:size])
							if rounds {
								GemmRounded(p, &g)
							} else {
								Gemm(p, &g)
							}
						}
					})
			}
		}
	}
}

// BenchmarkReadBandwidth measures how fast all threads read memory if they do nothing else.
func BenchmarkReadBandwidth(b *testing.B) {
	p, err := pool.New(0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	data := make([]float32, 256<<18)
	for i := range data {
		data[i] = 1
	}
	b.SetBytes(int64(4 * len(data)))
	b.ResetTimer()
	for range b.N {
		p.Split(len(data)/4096, 16, func(lo, hi, _ int) { reduce.On(p.Set).Sum(data[lo*4096 : hi*4096]) })
	}
}

// TestDotHalves compares rows of 16-bit floats times a vector with float64, for rows of whole vectors. The routines
// refuse other lengths.
func TestDotHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, s := range isa.Available() {
		for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
			if stored.On(s).DotF16 == nil {
				continue
			}
			for _, k := range []int{s.Lanes, 3 * s.Lanes, 4 * s.Lanes, 9 * s.Lanes, 2048, s.Lanes + 1} {
				const rows = 4*2 + 3
				w, x, dst := stored.Values{Halves: make([]uint16, rows*k), Kind: d}, make([]float32, k),
					make([]float32, rows)
				for i := range w.Halves {
					w.Halves[i] = dtype.F32ToF16(rng.Float32() - 0.5)
					if d == dtype.BF16 {
						w.Halves[i] = dtype.F32ToBF16(rng.Float32() - 0.5)
					}
				}
				for i := range x {
					x[i] = rng.Float32() - 0.5
				}
				if w.DotHalves(s, dst, k, x) != (k%s.Lanes == 0) {
					t.Fatalf("%s, %v: %d elements", s.Name, d, k)
				}
				buf := make([]float32, k)
				for r, got := range dst {
					var sum, size float64
					for i, v := range w.Row(s, r*k, k, buf) {
						sum, size = sum+float64(v)*float64(x[i]), size+math.Abs(float64(v)*float64(x[i]))
					}
					if k%s.Lanes == 0 && math.Abs(float64(got)-sum) > 4e-7*size {
						t.Errorf("%s, %v, %d elements: row %d is %v; want %v", s.Name, d, k, r, got, sum)
					}
				}
			}
		}
	}
}

// TestIntegerRoutines compares the routines that unpack blocks and round activations with package quant, bit by bit.
func TestIntegerRoutines(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, s := range isa.Available() {
		for d, f := range On(s).integerFormats {
			for _, blocks := range []int{1, 2, 5} {
				n := blocks * d.Values()
				w, want, got := make([]byte, blocks*d.Size()), make([]float32, n), make([]float32, n)
				quant.Random(w, d, rng.Uint32)
				if d == dtype.MXFP4 { // subnormal scales and the largest one too
					for i := range blocks {
						w[i*d.Size()] = []byte{0, 1, 2, 127, 254}[i]
					}
				}
				quant.Decode(want, d, w)
				q, scale, low := make([]int8, n*f.width()), make([]float32, n/f.group), make([]float32, n/f.group)
				f.unpack(q, scale, low, w)
				for i := range got { // exact, as the integers have few bits
					v := int(q[i])
					if f.excess > 0 { // integers have no sign
						v = int(uint8(q[i])) - f.excess
					}
					if f.nibbles {
						at := i/32*64 + i%32
						v = int(q[at]) + 16*(int(q[at+32])-f.excess)
					}
					got[i] = scale[i/f.group] * float32(v)
					if f.lows {
						got[i] -= low[i/f.group]
					}
				}
				for i, v := range got {
					if math.Float32bits(v) != math.Float32bits(want[i]) {
						t.Fatalf("%s, %v: value %d of %d is %v; want %v", s.Name, d, i, n, v, want[i])
					}
				}
			}
		}
		if On(s).roundRow == nil {
			continue
		}
		for _, special := range []float32{0, 1, 0x1p-100, 0x1p-101, 0x1p-140, float32(math.Inf(1)), float32(math.NaN()),
			math.MaxFloat32, -3} {
			x := make([]float32, 96)
			for i := range x {
				x[i] = rng.Float32()*4 - 2
				if special != 1 && special != -3 && i >= 32 && i < 64 {
					x[i] = 0
				}
			}
			x[40] = special
			q, scale, sums, wantQ, wantScale := make([]int8, 96), make([]float32, 3), make([]float32, 6),
				make([]int8, 96), make([]float32, 3)
			On(s).roundRow(q, scale, sums, x)
			quant.RoundActivations(wantQ, wantScale, x)
			for i, v := range q {
				if v != wantQ[i] || scale[i/32] != wantScale[i/32] && wantScale[i/32] == wantScale[i/32] {
					t.Fatalf("%s, %v: element %d is %d times %v; want %d times %v", s.Name, special, i, v, scale[i/32],
						wantQ[i], wantScale[i/32])
				}
				sums[i/16] -= float32(v)
			}
			for _, v := range sums {
				if v != 0 {
					t.Errorf("%s, %v: sums differ by %v", s.Name, special, sums)
				}
			}
		}
	}
}

// TestIntegerProducts compares products of rounded activations with float64, for all sets.
func TestIntegerProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, s := range isa.Available() {
		for _, d := range dtype.Packed() {
			sizes := []struct{ m, n, k int }{{9, 33, 512}, {1, 5, 256}, {3, 37, 2304}, {40, 70, 2304}}
			for _, size := range sizes[:kerneltest.Some(len(sizes))] {
				m, n, k := size.m, size.n, size.k
				p := kerneltest.PoolOn(t, 2, s)
				x, c, w := make([]float32, m*k), make([]float32, m*n), make([]byte, n*k/d.Values()*d.Size())
				for i := range x {
					x[i] = rng.Float32()*4 - 2
				}
				quant.Random(w, d, rng.Uint32)
				values, q, scale := make([]float32, n*k), make([]int8, k), make([]float32, k/quant.Group)
				quant.Decode(values, d, w)
				g := GemmArgs{M: m, N: n, K: k, A: x, LDA: k, B: stored.Packed(d, w), LDB: k, TransB: true, C: c,
					LDC: n}
				GemmRounded(p, &g)
				for i := range m {
					quant.RoundActivations(q, scale, x[i*k:(i+1)*k])
					for j := range n {
						var sum, size float64
						for l, v := range q {
							v := float64(v) * float64(scale[l/quant.Group]) * float64(values[j*k+l])
							sum, size = sum+v, size+math.Abs(v)
						}
						if e := math.Abs(float64(c[i*n+j]) - sum); e > 1e-6*size {
							t.Fatalf("%s, %v, %v: element %d,%d is %v; want %v", s.Name, d, size, i, j, c[i*n+j], sum)
						}
					}
				}
			}
		}
	}
}
