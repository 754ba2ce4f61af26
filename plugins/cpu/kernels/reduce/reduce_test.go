package reduce

import (
	"math"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

func reduce64(op Op, src []float32, shape, axes []int) []float64 {
	var out []int
	for i, d := range shape {
		if !slices.Contains(axes, i) {
			out = append(out, d)
		}
	}
	lists := make([][]float64, elementwise.Elements(out))
	kerneltest.Each(shape, func(n int, index []int) {
		var to []int
		for i, x := range index {
			if !slices.Contains(axes, i) {
				to = append(to, x)
			}
		}
		o := kerneltest.At2(out, to)
		lists[o] = append(lists[o], float64(src[n]))
	})
	result := make([]float64, len(lists))
	for i, l := range lists {
		if (op == Max || op == Min) && slices.ContainsFunc(l, math.IsNaN) { // math.Max(NaN, +Inf) is +Inf
			result[i] = math.NaN()
			continue
		}
		switch op {
		case Sum, Mean:
			for _, x := range l {
				result[i] += x
			}
			if op == Mean {
				result[i] /= float64(len(l))
			}
		case Prod:
			result[i] = 1
			for _, x := range l {
				result[i] *= x
			}
		case Max:
			result[i] = math.Inf(-1)
			for _, x := range l {
				result[i] = math.Max(result[i], x)
			}
		case Min:
			result[i] = math.Inf(1)
			for _, x := range l {
				result[i] = math.Min(result[i], x)
			}
		}
	}
	return result
}

func TestReduce(t *testing.T) {
	p := kerneltest.NewPool(t, 3, "")
	r := kerneltest.RNG(1)
	check := func(shape, axes []int) {
		for op := range reduceCount {
			src := kerneltest.Randoms(r, elementwise.Elements(shape))
			if len(src) > 0 && r.IntN(3) == 0 {
				src[r.IntN(len(src))] = []float32{float32(math.NaN()), float32(math.Inf(-1)),
					float32(math.Inf(1))}[r.IntN(3)]
			}
			want := reduce64(op, src, shape, axes)
			dst := make([]float32, len(want))
			Floats(p, op, stored.F32(dst), stored.F32(src), shape, axes)
			abs := 1e-6
			// blocks are summed in f32, so the error grows with the size, and the op's tolerance allows that
			if op == Sum {
				abs *= math.Sqrt(float64(max(1, len(src)/max(1, len(want)))))
			}
			kerneltest.Compare(t, kerneltest.DescribeShape(op.String(), shape, axes), dst, want, abs, 1e-6)
		}
	}
	for range 200 {
		shape := kerneltest.RandomShape(r)
		check(shape, r.Perm(len(shape))[:r.IntN(len(shape)+1)])
	}
	check([]int{3, 50, 4, 70}, []int{0, 2})
	check([]int{3, 50, 4, 70}, []int{1, 3})
	check([]int{16, 512, 96}, []int{0, 2})
	check([]int{40, 4097}, []int{1})
	check([]int{5000}, []int{0})
	check([]int{3, 0, 4}, []int{1})
	check([]int{2000, 100}, []int{0})
	minusInf := []float32{float32(math.Inf(-1)), float32(math.Inf(-1))}
	got := make([]float32, 1)
	if Floats(p, Max, stored.F32(got), stored.F32(minusInf), []int{2}, []int{0}); !math.IsInf(float64(got[0]), -1) {
		t.Errorf("max of -Inf and -Inf is %v, want -Inf", got[0])
	}
}

func TestReduceInteger(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	src := []int8{100, 100, -3, 5}
	for op, want := range map[Op]int8{Sum: -54, Max: 100, Min: -3, Prod: 16} {
		got := make([]int8, 1)
		if Reduce(p, op, got, src, []int{4}, []int{0}); got[0] != want {
			t.Errorf("%v of %v is %d, want %d", op, src, got[0], want)
		}
	}
	got := make([]uint32, 1)
	if Reduce(p, Min, got, nil, []int{0}, []int{0}); got[0] != math.MaxUint32 {
		t.Errorf("min of no uint32 is %d, want %d", got[0], uint32(math.MaxUint32))
	}
	big := make([]int64, 1)
	if Reduce(p, Max, big, []int64{1<<62 + 1, 1 << 62}, []int{2}, []int{0}); big[0] != 1<<62+1 {
		t.Errorf("max is %d, want %d", big[0], int64(1<<62+1))
	}
}
