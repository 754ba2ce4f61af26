package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/attention"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/conv"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/norm"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/ranking"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// TestKernelsAllocateNothing checks that a kernel allocates nothing once its scratch memory has grown. The pool has one
// thread: a worker's memory grows in its first task, and with several threads, when that is depends on the load of the
// machine. TestPoolAllocatesNothing tests pools with several threads.
func TestKernelsAllocateNothing(t *testing.T) {
	const n = 3*pool.Grain + 5 // several tasks, and elements that do not fill a vector
	region, err := elementwise.NewRegion([]dtype.DType{dtype.F32, dtype.F32, dtype.F32}, []elementwise.RegionStep{
		{Op: "add", In: []elementwise.RegionRef{{Kind: elementwise.RegionInput},
			{Kind: elementwise.RegionInput, Index: 1}}},
		{Op: "gelu", In: []elementwise.RegionRef{{Kind: elementwise.RegionResult}}},
		{Op: "lt", In: []elementwise.RegionRef{{Kind: elementwise.RegionResult, Index: 1},
			{Kind: elementwise.RegionNumber, Value: 0.5}}},
		{Op: "where", In: []elementwise.RegionRef{{Kind: elementwise.RegionResult, Index: 2},
			{Kind: elementwise.RegionResult, Index: 1}, {Kind: elementwise.RegionInput, Index: 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	order := ranking.FloatOrder[float32]()
	kerneltest.EachSet(t, 1, func(t *testing.T, p *pool.Pool) {
		x, y, dst := kerneltest.Randoms(kerneltest.RNG(1), n), kerneltest.Randoms(kerneltest.RNG(2), n),
			make([]float32, n)
		bits, ints, sums, halves := make([]uint8, n), make([]int32, n), make([]int32, n), make([]uint16, n)
		doubles, octets := make([]float64, n), make([]byte, 4*n)
		row, one := []int{n}, []int{1}
		shape, perm, swap := []int{4, 8, n / 32}, []int{2, 0, 1}, []int{1, 0, 2}
		regionIn := []elementwise.RegionValue{{F32: x}, {F32: x[:1]}, {F32: y}}
		last := conv.Args{N: 1, In: [3]int{1, 16, 16}, Cin: 8, Cout: 12, Kernel: [3]int{1, 3, 3},
			Stride: [3]int{1, 1, 1},
			Pad:    [3]int{0, 1, 1}, Dilation: [3]int{1, 1, 1}, Groups: 1, Last: true}
		last.X, last.Weight, last.Bias, last.Out = x, stored.F32(y), y, dst
		chw, transposed, depthwise, lines := last, last, last, last
		chw.Last, transposed.Transposed, depthwise.Last = false, true, false
		depthwise.Cout, depthwise.Groups, depthwise.Stride = 16, 8, [3]int{1, 2, 2}
		lines.Cout, lines.Groups = 8, 8
		var floats, integers, narrow any = x, sums, halves
		half := product.BFloat16
		if product.TakesBlocked(p, half) {
			half = product.Float32 // products in tiles allocate a tilePanel for each call of their routine
		}
		rope := attention.RopeArgs{B: 2, S: 9, Heads: 3, Dim: 8, Half: 4, Kind: dtype.F32, X: x, Out: dst,
			XStride: attention.Strides{Batch: 216, Seq: 24, Head: 8}, Stride: attention.Strides{Batch: 216, Seq: 24,
				Head: 8},
			Angles:   func(int, int, []float32) (cos, sin []float32) { return x, y },
			Position: func(_, s int) int64 { return int64(s) }}
		att := attention.Args{B: 1, Heads: 2, KVHeads: 1, SQ: 40, SK: 300, DK: 16, DV: 16, Scale: 0.25,
			Mask:    attention.MaskCausal,
			QOffset: 260, Q: x, QStride: attention.Strides{Batch: 1280, Seq: 32, Head: 16}, K: stored.F32(y),
			KStride: attention.Strides{Batch: 4800, Seq: 16, Head: 16}, V: stored.F32(y),
			VStride: attention.Strides{Batch: 4800, Seq: 16, Head: 16}, Out: dst,
			OutStride: attention.Strides{Batch: 1280, Seq: 32, Head: 16}}
		for what, f := range map[string]func(){
			"sin":        func() { elementwise.UnaryF32(p, elementwise.Sin, dst, x) },
			"gelu":       func() { elementwise.UnaryF32(p, elementwise.Gelu, dst, x) },
			"floor":      func() { elementwise.UnaryF32(p, elementwise.Floor, dst, x) },
			"exp of f64": func() { elementwise.UnaryF64(p, elementwise.Exp, doubles, doubles) },
			"add":        func() { elementwise.Binary(p, elementwise.Add, dst, x, row, y, row) },
			"mul by one": func() { elementwise.Binary(p, elementwise.Mul, dst, x, row, y[:1], one) },
			"pow":        func() { elementwise.Binary(p, elementwise.Pow, dst, x, row, y, row) },
			"add of i32": func() { elementwise.Binary(p, elementwise.Add, sums, ints, row, ints[:1], one) },
			"lt":         func() { elementwise.Compare(p, elementwise.Lt, bits, x, row, y[:1], one) },
			"lt of i32":  func() { elementwise.Compare(p, elementwise.Lt, bits, ints, row, ints, row) },
			"where": func() {
				elementwise.Where(p, dst, elementwise.Condition{Data: bits, Shape: row, DType: dtype.Bool}, x, row,
					y[:1], one)
			},
			"where u16": func() {
				elementwise.Where(p, halves, elementwise.Condition{Data: bits, Shape: row, DType: dtype.Bool}, halves,
					row, halves, row)
			},
			"expand": func() { elementwise.Expand(p, dst, row, x[:1], one) },
			"layer norm": func() {
				norm.Normalize(
					p, norm.Args{Dst: stored.F32(dst), X: stored.F32(x), Gamma: stored.F32(y), Beta: stored.F32(y),
						N: n / 100, Eps: 1e-5,
						Center: true}, 100)
			},
			"residual": func() {
				norm.Normalize(
					p, norm.Args{Dst: stored.F32(dst), X: stored.F32(x), Residual: stored.F32(y), Gamma: stored.F32(y),
						Beta: stored.F32(y), N: n / 100,
						Eps: 1e-5}, 100)
			},
			"rope": func() { attention.Rope(p, &rope) },
			"softmax": func() {
				norm.Softmax(p, norm.SoftmaxArgs{Dst: stored.F32(dst), X: stored.F32(x), Outer: 100, N: n / 100,
					Inner: 1})
			},
			"softmax 1": func() {
				norm.Softmax(p, norm.SoftmaxArgs{Dst: stored.F32(dst), X: stored.F32(x), Outer: 1, N: 100,
					Inner: n / 100})
			},
			"sum":        func() { reduce.Floats(p, reduce.Sum, stored.F32(dst), stored.F32(x), shape, perm[1:2]) },
			"max of i32": func() { reduce.Reduce(p, reduce.Max, sums, ints, shape, perm[1:2]) },
			"region":     func() { region.Run(p, elementwise.RegionValue{F32: dst}, regionIn) },
			"transpose":  func() { layout.Transpose(p, dst, x, shape, perm) },
			"of runs":    func() { layout.Transpose(p, dst, x, shape, swap) },
			"place":      func() { layout.Place(p, dst, x, 100, n/100, 3, 50) },
			"narrow":     func() { layout.Narrow(p, dst, x, 10, n/10, 1, 7, 90) },
			"pad":        func() { layout.Pad(p, dst, x, []int{30, 40}, []int{1, 2}, []int{3, 4}, 0) },
			"gather":     func() { _ = layout.Gather(p, dst, x, 1, 100, 50, ints[:200]) },
			"iota":       func() { layout.Iota(p, dst, row, 0) },
			"top k":      func() { ranking.TopK(p, dst, octets, dtype.I32, x, 100, n/100, 5, order) },
			"sort":       func() { ranking.Sort(p, dst, octets, dtype.I32, x, 100, n/100, 1, false, order) },
			"conv":       func() { conv.Convolve(p, &last) },
			"conv chw":   func() { conv.Convolve(p, &chw) },
			"transposed": func() { conv.Convolve(p, &transposed) },
			"depthwise":  func() { conv.Convolve(p, &depthwise) },
			"lines":      func() { conv.Convolve(p, &lines) },
			"product": func() {
				product.Gemm(p, &product.GemmArgs{M: 100, N: 70, K: 50, A: x, LDA: 50, B: stored.F32(y), LDB: 70,
					C: dst, LDC: 70, Act: elementwise.Gelu})
			},
			"few rows": func() {
				product.Gemm(p, &product.GemmArgs{M: 7, N: 70, K: 50, A: x, LDA: 50, B: stored.F32(y), LDB: 70, C: dst,
					LDC: 70})
			},
			"one row": func() {
				product.Gemm(p, &product.GemmArgs{M: 1, N: 70, K: 50, A: x, LDA: 50, B: stored.F32(y), LDB: 50,
					TransB: true, C: dst, LDC: 70})
			},
			"batch": func() {
				product.Gemm(
					p, &product.GemmArgs{M: 64, N: 70, K: 50, A: x, LDA: 50, B: stored.F32(y), LDB: 70, C: dst, LDC: 70,
						Batch:   3,
						StrideA: 3200, StrideC: 4480, Precision: half})
			},
			"packed": func() {
				product.Gemm(
					p, &product.GemmArgs{M: 40, N: 70, K: 64, A: x, LDA: 64, B: stored.Packed(dtype.Q8_0, octets),
						LDB:    64,
						TransB: true, C: dst, LDC: 70})
			},
			"packed, rounded": func() {
				product.GemmRounded(
					p, &product.GemmArgs{M: 40, N: 70, K: 64, A: x, LDA: 64, B: stored.Packed(dtype.Q8_0, octets),
						LDB:    64,
						TransB: true, C: dst, LDC: 70})
			},
			"cast":      func() { elementwise.Cast(p, dtype.I32, integers, dtype.F32, floats) },
			"widen":     func() { elementwise.Cast(p, dtype.F32, floats, dtype.F16, narrow) },
			"attention": func() { attention.Attend(p, &att) },
		} {
			for range 3 {
				f()
			}
			if a := testing.AllocsPerRun(kerneltest.Some(10), f); a > 0 {
				t.Errorf("%s: %v allocations", what, a)
			}
		}
	})
}
