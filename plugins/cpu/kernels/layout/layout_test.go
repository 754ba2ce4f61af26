package layout

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

func TestTranspose(t *testing.T) {
	testTranspose(t, kerneltest.NewPool(t, 3, ""), func(i int) uint16 { return uint16(i) })
	kerneltest.EachPool(t, func(t *testing.T, p *pool.Pool) {
		testTranspose(t, p,
			func(i int) float32 { return float32(i) })
	})
}

func testTranspose[T comparable](t *testing.T, p *pool.Pool, element func(i int) T) {
	r := kerneltest.RNG(1)
	guard := element(0xbeef)
	check := func(shape, perm []int) {
		n := elementwise.Elements(shape)
		src := make([]T, n)
		for i := range src {
			src[i] = element(i)
		}
		all := slices.Repeat([]T{guard}, n+40)
		dst := all[20 : 20+n]
		Transpose(p, dst, src, shape, perm)
		out := make([]int, len(shape))
		for i, a := range perm {
			out[i] = shape[a]
		}
		kerneltest.Each(out, func(i int, index []int) {
			from := make([]int, len(shape))
			for k, a := range perm {
				from[a] = index[k]
			}
			if want := element(kerneltest.At(shape, from)); dst[i] != want {
				t.Fatalf("transpose of %v by %v: element %d is %v, want %v", shape, perm, i, dst[i], want)
			}
		})
		for i, x := range all {
			if (i < 20 || i >= 20+n) && x != guard {
				t.Fatalf("transpose of %v by %v: element %d of %d is %v", shape, perm, i-20, n, x)
			}
		}
	}
	for range 300 {
		shape := kerneltest.RandomShape(r)
		check(shape, r.Perm(len(shape)))
	}
	for range 10 {
		check([]int{1 + r.IntN(3), 1 + r.IntN(150), 1 + r.IntN(3), 1 + r.IntN(150)}, r.Perm(4))
	}
	for range 40 { // short rows or columns, and blocks along both dims
		few, many := 1+r.IntN(20), 1+r.IntN(9000)
		check([]int{1 + r.IntN(2), few, many}, []int{0, 2, 1})
		check([]int{1 + r.IntN(2), many, few}, []int{0, 2, 1})
		check([]int{1 + r.IntN(100), few, 1 + r.IntN(100)}, []int{0, 2, 1})
		check([]int{few, 3, many / 4, 2}, []int{2, 1, 0, 3})
		check([]int{few, many / 4, 3}, []int{2, 1, 0})
	}
	check([]int{100, 300}, []int{1, 0})
}

func TestPlaceNarrowPad(t *testing.T) {
	p := kerneltest.NewPool(t, 3, "")
	r := kerneltest.RNG(2)
	for range 100 {
		outer, inner := r.IntN(5), r.IntN(70)
		extents := []int{r.IntN(4), 1 + r.IntN(4), r.IntN(9)}
		total := extents[0] + extents[1] + extents[2]
		whole := kerneltest.Randoms(r, outer*total*inner)
		var parts [][]float32
		start := 0
		for _, e := range extents {
			part, check := kerneltest.Guarded(outer * e * inner)
			Narrow(p, part, whole, outer, total, inner, start, e)
			check(t, "narrow")
			for o := range outer {
				for i := range e * inner {
					if part[o*e*inner+i] != whole[(o*total+start)*inner+i] {
						t.Fatal("narrow took another element")
					}
				}
			}
			parts = append(parts, part)
			start += e
		}
		back, check := kerneltest.Guarded(len(whole))
		at := 0
		for i, e := range extents {
			Place(p, back, parts[i], outer, total*inner, at, e*inner)
			at += e * inner
		}
		check(t, "place")
		if !slices.Equal(back, whole) {
			t.Fatal("the parts in their places are not the whole")
		}
		shape := kerneltest.RandomShape(r)
		before, after, out := make([]int, len(shape)), make([]int, len(shape)), make([]int, len(shape))
		for i, d := range shape {
			before[i], after[i] = r.IntN(3), r.IntN(3)
			out[i] = before[i] + d + after[i]
		}
		src := kerneltest.Randoms(r, elementwise.Elements(shape))
		dst, check := kerneltest.Guarded(elementwise.Elements(out))
		Pad(p, dst, src, shape, before, after, 7)
		check(t, "pad")
		kerneltest.Each(out, func(n int, index []int) {
			from, inside := slices.Clone(index), true
			for i := range from {
				from[i] -= before[i]
				inside = inside && from[i] >= 0 && from[i] < shape[i]
			}
			want := float32(7)
			if inside {
				want = src[kerneltest.At2(shape, from)]
			}
			if dst[n] != want {
				t.Fatalf("pad of %v by %v and %v: element %d is %v, want %v", shape, before, after, n, dst[n], want)
			}
		})
	}
}

func TestGather(t *testing.T) {
	p := kerneltest.NewPool(t, 3, "")
	r := kerneltest.RNG(3)
	for range 50 {
		outer, extent, inner, n := r.IntN(4), 1+r.IntN(9), r.IntN(40), r.IntN(20)
		table := kerneltest.Randoms(r, outer*extent*inner)
		index := make([]int64, n)
		float := make([]float32, n)
		for i := range index {
			index[i] = r.Int64N(int64(extent))
			float[i] = float32(index[i]) + 0.75
		}
		dst, check := kerneltest.Guarded(outer * n * inner)
		if err := Gather(p, dst, table, outer, extent, inner, index); err != nil {
			t.Fatal(err)
		}
		check(t, "gather")
		for o := range outer {
			for i, x := range index {
				for c := range inner {
					if dst[(o*n+i)*inner+c] != table[(o*extent+int(x))*inner+c] {
						t.Fatal("gather took another element")
					}
				}
			}
		}
		again := make([]float32, len(dst))
		if err := Gather(p, again, table, outer, extent, inner, float); err != nil || !slices.Equal(again, dst) {
			t.Fatalf("gather with float indices: error %v, or a result that differs from truncated indices", err)
		}
	}
	table, dst := make([]uint8, 10), make([]uint8, 3)
	for _, bad := range []int64{-1, 10, math.MinInt64, math.MaxInt64} {
		err := Gather(p, dst, table, 1, 10, 1, []int64{3, bad, -5})
		if !errors.Is(err, code.Index) || !strings.Contains(err.Error(), "at position 1 ") ||
			!strings.Contains(err.Error(), "0 to 9") {
			t.Errorf("index %d: error %v; want code.Index for position 1, with the range 0 to 9", bad, err)
		}
	}
	for _, bad := range []float32{float32(math.NaN()), -1, 10, float32(math.Inf(1))} {
		if err := Gather(p, dst, table, 1, 10, 1, []float32{0, bad}); !errors.Is(err, code.Index) {
			t.Errorf("index %v: error %v; want code.Index", bad, err)
		}
	}
}

func TestIota(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	shape := []int{3, 4, 5}
	for axis := range shape {
		dst := make([]int32, 60)
		Iota(p, dst, shape, axis)
		kerneltest.Each(shape, func(n int, index []int) {
			if int(dst[n]) != index[axis] {
				t.Fatalf("axis %d, %v: %d", axis, index, dst[n])
			}
		})
	}
}
