package kernels

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/quant"
)

// BenchmarkRoutines measures single routines on one thread, on data in the second-level cache, for all sets: products
// by the number of rows and by the format of packed weights. ns is the time of the fastest call. crc is a checksum of
// the result: a change that only makes a routine shorter keeps it.
func BenchmarkRoutines(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	floats := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = rng.Float32() - 0.5
		}
		return x
	}
	run := func(b *testing.B, name string, dst any, f func()) {
		b.Run(name, func(b *testing.B) {
			best := time.Hour
			for range b.N {
				const calls = 8
				start := time.Now()
				for range calls {
					f()
				}
				best = min(best, time.Since(start)/calls)
			}
			data, err := binary.Append(nil, binary.LittleEndian, dst)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(best.Nanoseconds()), "ns")
			b.ReportMetric(float64(crc32.ChecksumIEEE(data)), "crc")
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, s := range available()[1:] {
		b.Run(s.name, func(b *testing.B) {
			for i, p := range []panel{s.panel, s.narrow} {
				for rows := 1; rows <= s.mr; rows++ {
					for _, k := range []int{16, 256} {
						x, y, c := floats(rows*k), floats(p.nr*k+64*p.nr), floats(rows*p.nr)
						bias, residual := floats(p.nr), floats(rows*p.nr)
						one := func(name string, gemm func(rows, k int, a, b, c []float32, ldc int, accumulate bool,
							bias, residual []float32, ldr int)) {
							if gemm == nil {
								return
							}
							gemm(rows, k, x, y, c, p.nr, false, nil, nil, 0)
							all := slices.Clone(c)
							gemm(rows, k, x, y, all, p.nr, true, bias, residual, p.nr)
							all = append(all, c...)
							run(b, fmt.Sprintf("%s/%dx%dx%d", name, rows, p.nr, k), all, func() {
								gemm(rows, k, x, y, c, p.nr, false, nil, nil, 0)
							})
						}
						one("gemm", p.gemm)
						one("pairs", p.pairs)
						for q, quad := range s.quads {
							if quad.multiply == nil || rows > quad.mr || i > 0 || k%quad.deep != 0 {
								continue
							}
							out, tmp := make([]int32, rows*p.nr), make([]float32, quad.mr*p.nr)
							for j := range x {
								x[j] = math.Float32frombits(rng.Uint32())
							}
							for j := range y {
								y[j] = math.Float32frombits(rng.Uint32())
							}
							run(b, fmt.Sprintf("quads%d/%dx%dx%d", q, rows, p.nr, k), out, func() {
								quad.multiply(rows, k, x, y, out, p.nr, 1, tmp)
							})
						}
					}
				}
			}
			const k, n, side = 2048, 64, integerSide
			for _, d := range slices.Sorted(maps.Keys(s.integerFormats)) {
				rng := rand.New(rand.NewPCG(1, 2))
				stride := k / d.Values() * d.Size()
				w, x, sums, dst := make([]byte, n*stride), make([]float32, k), make([]float32, k/32), make([]float32, n)
				quant.Random(w, d, rng.Uint32)
				for i := range x {
					x[i] = rng.Float32() - 0.5
				}
				groupSums(sums, x)
				if r := s.packed[d]; r.dot != nil {
					arranged := x
					if r.arrange != nil {
						arranged = make([]float32, k)
						r.arrange(arranged, x)
					}
					run(b, fmt.Sprintf("dot/%v", d), dst, func() { r.dot(dst, w, stride, arranged, sums) })
				}
				if r := s.packed[d]; r.decode != nil {
					values := make([]float32, k)
					run(b, fmt.Sprintf("decode/%v", d), values, func() { r.decode(values, w[:stride]) })
				}
				if dot := s.dotBytes[d].dot; dot != nil {
					r := roundedRow{make([]int8, k), make([]float32, k/32), make([]float32, k/32),
						make([]float32, k/16), make([]int32, k/4)}
					s.roundRow(r.q, r.scale, r.halves, x)
					run(b, fmt.Sprintf("dotBytes/%v", d), dst, func() { dot(dst, w, stride, &r) })
				}
				if f := s.integerFormats[d]; f.multiply != nil {
					q, scale, low := make([]int8, k*f.width()), make([]float32, k/f.group), make([]float32, k/f.group)
					run(b, fmt.Sprintf("unpack/%v", d), q, func() { f.unpack(q, scale, low, w[:stride]) })
					groups := integerDepth / f.group
					small := func(n int) []int8 {
						x := make([]int8, n)
						for i := range x {
							x[i] = int8(rng.IntN(16))
						}
						return x
					}
					p := groupProduct{rows: side, groups: groups, group: f.group, a: small(integerDepth * side),
						b:    small(integerDepth * f.width() * side),
						sums: make([]int32, groups*side), dx: floats(groups * side), dw: floats(groups * side),
						c: make([]float32, side*side), ldc: side, room: make([]float32, 2*side*side)}
					if f.lows {
						p.xs, p.low = floats(groups*side), floats(groups*side)
					}
					out := make([]float32, len(p.c))
					clear(p.c)
					f.multiply(p)
					copy(out, p.c)
					run(b, fmt.Sprintf("tile/%v", d), out, func() { f.multiply(p) })
				}
			}
			for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
				dot := map[dtype.DType]func([]float32, []uint16, int, []float32) bool{dtype.F16: s.dotF16,
					dtype.BF16: s.dotBF16}[d]
				if dot == nil {
					continue
				}
				w, x, dst := make([]uint16, n*k), floats(k), make([]float32, n)
				for i := range w {
					w[i] = uint16(rng.Uint32()) &^ 0x4000
				}
				run(b, fmt.Sprintf("dot/%v", d), dst, func() { dot(dst, w, k, x) })
			}
		})
	}
}
