package kernels

import (
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

// TestKernelsAllocateNothing checks that a kernel allocates nothing once its scratch memory has grown. The pool has one
// thread: a worker's memory grows in its first task, and with several threads, when that is depends on the load of the
// machine. TestPoolAllocatesNothing tests pools with several threads.
func TestKernelsAllocateNothing(t *testing.T) {
	const n = 3*elementGrain + 5 // several tasks, and elements that do not fill a vector
	region, err := NewRegion([]dtype.DType{dtype.F32, dtype.F32, dtype.F32}, []RegionStep{
		{Op: "add", In: []RegionRef{{RegionInput, 0, 0}, {RegionInput, 1, 0}}},
		{Op: "gelu", In: []RegionRef{{RegionResult, 0, 0}}},
		{Op: "lt", In: []RegionRef{{RegionResult, 1, 0}, {RegionNumber, 0, 0.5}}},
		{Op: "where", In: []RegionRef{{RegionResult, 2, 0}, {RegionResult, 1, 0}, {RegionInput, 2, 0}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	order := FloatOrder[float32]()
	eachSet(t, 1, func(t *testing.T, p *Pool) {
		x, y, dst := randoms(rng(1), n), randoms(rng(2), n), make([]float32, n)
		bits, ints, sums, halves := make([]uint8, n), make([]int32, n), make([]int32, n), make([]uint16, n)
		doubles, octets := make([]float64, n), make([]byte, 4*n)
		row, one := []int{n}, []int{1}
		shape, perm, swap := []int{4, 8, n / 32}, []int{2, 0, 1}, []int{1, 0, 2}
		regionIn := []RegionValue{{F32: x}, {F32: x[:1]}, {F32: y}}
		conv := ConvArgs{N: 1, In: [3]int{1, 16, 16}, Cin: 8, Cout: 12, Kernel: [3]int{1, 3, 3}, Stride: [3]int{1, 1, 1},
			Pad: [3]int{0, 1, 1}, Dilation: [3]int{1, 1, 1}, Groups: 1, Last: true}
		conv.X, conv.Weight, conv.Bias, conv.Out = x, F32(y), y, dst
		chw, transposed, depthwise, lines := conv, conv, conv, conv
		chw.Last, transposed.Transposed, depthwise.Last = false, true, false
		depthwise.Cout, depthwise.Groups, depthwise.Stride = 16, 8, [3]int{1, 2, 2}
		lines.Cout, lines.Groups = 8, 8
		var floats, integers, narrow any = x, sums, halves
		half := BFloat16
		if TakesBlocked(p, half) {
			half = Float32 // products in tiles allocate a tilePanel for each call of their routine
		}
		rope := RopeArgs{B: 2, S: 9, Heads: 3, Dim: 8, Half: 4, Kind: dtype.F32, X: x, Out: dst,
			XStride: Strides{216, 24, 8}, Stride: Strides{216, 24, 8},
			Angles: func(int, int, []float32) (cos, sin []float32) { return x, y }}
		att := AttentionArgs{B: 1, Heads: 2, KVHeads: 1, SQ: 40, SK: 300, DK: 16, DV: 16, Scale: 0.25, Mask: MaskCausal,
			QOffset: 260, Q: x, QStride: Strides{1280, 32, 16}, K: F32(y), KStride: Strides{4800, 16, 16}, V: F32(y),
			VStride: Strides{4800, 16, 16}, Out: dst, OutStride: Strides{1280, 32, 16}}
		for what, f := range map[string]func(){
			"sin":        func() { UnaryF32(p, Sin, dst, x) },
			"gelu":       func() { UnaryF32(p, Gelu, dst, x) },
			"floor":      func() { UnaryF32(p, Floor, dst, x) },
			"exp of f64": func() { UnaryF64(p, Exp, doubles, doubles) },
			"add":        func() { Binary(p, Add, dst, x, row, y, row) },
			"mul by one": func() { Binary(p, Mul, dst, x, row, y[:1], one) },
			"pow":        func() { Binary(p, Pow, dst, x, row, y, row) },
			"add of i32": func() { Binary(p, Add, sums, ints, row, ints[:1], one) },
			"lt":         func() { Compare(p, Lt, bits, x, row, y[:1], one) },
			"lt of i32":  func() { Compare(p, Lt, bits, ints, row, ints, row) },
			"where":      func() { Where(p, dst, Condition{bits, row, dtype.Bool}, x, row, y[:1], one) },
			"where u16":  func() { Where(p, halves, Condition{bits, row, dtype.Bool}, halves, row, halves, row) },
			"expand":     func() { Expand(p, dst, row, x[:1], one) },
			"layer norm": func() {
				Norm(
					p, NormArgs{Dst: F32(dst), X: F32(x), Gamma: F32(y), Beta: F32(y), N: n / 100, Eps: 1e-5,
						Center: true}, 100)
			},
			"residual": func() {
				Norm(
					p, NormArgs{Dst: F32(dst), X: F32(x), Residual: F32(y), Gamma: F32(y), Beta: F32(y), N: n / 100,
						Eps: 1e-5}, 100)
			},
			"rope": func() { Rope(p, &rope) },
			"softmax": func() {
				Softmax(p, SoftmaxArgs{Dst: F32(dst), X: F32(x), Outer: 100, N: n / 100, Inner: 1})
			},
			"softmax 1": func() {
				Softmax(p, SoftmaxArgs{Dst: F32(dst), X: F32(x), Outer: 1, N: 100, Inner: n / 100})
			},
			"sum":        func() { ReduceFloats(p, Sum, F32(dst), F32(x), shape, perm[1:2]) },
			"max of i32": func() { Reduce(p, ReduceMax, sums, ints, shape, perm[1:2]) },
			"region":     func() { region.Run(p, RegionValue{F32: dst}, regionIn) },
			"transpose":  func() { Transpose(p, dst, x, shape, perm) },
			"of runs":    func() { Transpose(p, dst, x, shape, swap) },
			"place":      func() { Place(p, dst, x, 100, n/100, 3, 50) },
			"narrow":     func() { Narrow(p, dst, x, 10, n/10, 1, 7, 90) },
			"pad":        func() { Pad(p, dst, x, []int{30, 40}, []int{1, 2}, []int{3, 4}, 0) },
			"gather":     func() { _ = Gather(p, dst, x, 1, 100, 50, ints[:200]) },
			"iota":       func() { Iota(p, dst, row, 0) },
			"top k":      func() { TopK(p, dst, octets, dtype.I32, x, 100, n/100, 5, order) },
			"sort":       func() { Sort(p, dst, octets, dtype.I32, x, 100, n/100, 1, false, order) },
			"conv":       func() { Conv(p, &conv) },
			"conv chw":   func() { Conv(p, &chw) },
			"transposed": func() { Conv(p, &transposed) },
			"depthwise":  func() { Conv(p, &depthwise) },
			"lines":      func() { Conv(p, &lines) },
			"product": func() {
				Gemm(p, &GemmArgs{M: 100, N: 70, K: 50, A: x, LDA: 50, B: F32(y), LDB: 70, C: dst, LDC: 70, Act: Gelu})
			},
			"few rows": func() {
				Gemm(p, &GemmArgs{M: 7, N: 70, K: 50, A: x, LDA: 50, B: F32(y), LDB: 70, C: dst, LDC: 70})
			},
			"one row": func() {
				Gemm(p, &GemmArgs{M: 1, N: 70, K: 50, A: x, LDA: 50, B: F32(y), LDB: 50, TransB: true, C: dst, LDC: 70})
			},
			"batch": func() {
				Gemm(
					p, &GemmArgs{M: 64, N: 70, K: 50, A: x, LDA: 50, B: F32(y), LDB: 70, C: dst, LDC: 70, Batch: 3,
						StrideA: 3200, StrideC: 4480, Precision: half})
			},
			"packed": func() {
				Gemm(
					p, &GemmArgs{M: 40, N: 70, K: 64, A: x, LDA: 64, B: Packed(dtype.Q8_0, octets), LDB: 64,
						TransB: true, C: dst, LDC: 70})
			},
			"packed, rounded": func() {
				GemmRounded(
					p, &GemmArgs{M: 40, N: 70, K: 64, A: x, LDA: 64, B: Packed(dtype.Q8_0, octets), LDB: 64,
						TransB: true, C: dst, LDC: 70})
			},
			"cast":      func() { Cast(p, dtype.I32, integers, dtype.F32, floats) },
			"widen":     func() { Cast(p, dtype.F32, floats, dtype.F16, narrow) },
			"attention": func() { Attention(p, &att) },
		} {
			for range 3 {
				f()
			}
			if a := testing.AllocsPerRun(some(10), f); a > 0 {
				t.Errorf("%s: %v allocations", what, a)
			}
		}
	})
}
