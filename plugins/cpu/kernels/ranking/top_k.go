package ranking

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

// TopK finds the k largest of the n elements of each row of src, largest first, equal ones in the order of their
// indices. values receives the elements, and indices their positions in the row, as elements of type index (i32, i64,
// u32 or f32).
//
// One pass over a row keeps the k best so far in a heap whose root is the worst of them, so most elements of a long row
// are compared with the root only. If there are far more than k blocks of f32, only those are searched whose largest
// element may be among the best. Threads share rows, or parts of long ones, whose results are then merged.
func TopK[T any](p *pool.Pool, values []T, indices []byte, index dtype.DType, src []T, rows, n, k int, by Order[T]) {
	if k < 1 || k > n || len(src) < rows*n || len(values) < rows*k || len(indices) < rows*k*index.Size() {
		panic(fmt.Sprintf("BUG: top_k: the %d largest of %d in %d rows", k, n, rows))
	}
	t := pool.Keep[topK[T]](p)
	t.p, t.values, t.indices, t.src, t.n, t.k, t.keys = p, values, layout.Indices{Bytes: indices, Index: index}, src, n,
		k, by.Keys
	if parts := p.Threads(); parts > rows && n >= topKAlone && parts*k <= n/4 {
		part := topKPart[T]{topK: t, best: pool.Sized(t.parts, parts*k), size: (n + parts - 1) / parts}
		t.parts = part.best
		for part.row = range rows {
			pool.Split(p, parts, 1, part)
			heap := t.parts[:0:k]
			for i, r := range t.parts {
				if i < k {
					heap = append(heap, r)
					up(heap)
				} else if heap[0].worse(r) {
					heap[0] = r
					down(heap)
				}
			}
			t.put(part.row, heap)
		}
		return
	}
	p.Share(rows, 1+pool.Grain/n, t)
}

const (
	topKAlone = 1 << 14 // rows of at least so many elements may be divided among threads
	topKBlock = 32      // elements of a block of f32
)

type topK[T any] struct {
	p       *pool.Pool
	values  []T
	indices layout.Indices
	src     []T
	n, k    int
	keys    func(dst []uint64, src []T)
	parts   []ranked // the k best of each part
}

// topKPart finds the k best of each part of a row.
type topKPart[T any] struct {
	*topK[T]
	best      []ranked
	row, size int
}

func (t *topKPart[T]) Do(lo, hi, worker int) {
	sc := t.p.Scratch(worker)
	for i := lo; i < hi; i++ {
		from := min(t.n, i*t.size)
		best := t.best[i*t.k:][:t.k]
		heap := t.topK.best(best[:0:t.k], sc, t.src[t.row*t.n:][:min(t.n, from+t.size)], from)
		for j := len(heap); j < t.k; j++ {
			best[j] = ranked{0, t.n} // worse than any element
		}
	}
}

// ranked is an element of a row: its key and its index.
type ranked struct {
	key uint64
	at  int
}

// worse reports whether a comes after b.
func (a ranked) worse(b ranked) bool { return a.key < b.key || a.key == b.key && a.at > b.at }

func (t *topK[T]) Do(lo, hi, worker int) {
	sc := t.p.Scratch(worker)
	best := pool.Own[[]ranked](sc)
	*best = pool.Sized(*best, t.k)
	for row := lo; row < hi; row++ {
		t.put(row, t.best((*best)[:0:t.k], sc, t.src[row*t.n:][:t.n], 0))
	}
}

// put stores the heap of a row as its result, and empties it.
func (t *topK[T]) put(row int, heap []ranked) {
	for j := t.k - 1; j >= 0; j-- { // the root is the worst, so go from the last place to the first
		at := heap[0].at
		t.values[row*t.k+j] = t.src[row*t.n+at]
		t.indices.Put(row*t.k+j, at)
		heap[0] = heap[j]
		heap = heap[:j]
		down(heap)
	}
}

// best returns a heap of the k best elements of src[from:], with the worst of them at the root. heap is empty.
func (t *topK[T]) best(heap []ranked, sc *pool.Scratch, src []T, from int) []ranked {
	x, ok := any(src).([]float32)
	blocks := (len(src) - from) / topKBlock
	if !ok || reduce.On(t.p.Set).Folds == nil || blocks <= 2*t.k {
		return t.add(heap, sc, src, from)
	}
	mark := sc.Mark()
	tops := sc.Floats(blocks) // NaN if a block has one
	reduce.On(t.p.Set).Folds.Each[reduce.Max](&tops[0], &x[from], topKBlock, topKBlock, blocks)
	floor := tops[t.add(heap, sc, any(tops).([]T), 0)[0].at] // k blocks have an element at least as large
	for _, top := range tops {
		from += topKBlock
		if !(top < floor) {
			heap = t.add(heap, sc, src[:from], from-topKBlock)
		}
	}
	sc.Release(mark)
	return t.add(heap, sc, src, from)
}

// add adds the elements of src[from:] to a heap and removes all but the k best.
func (t *topK[T]) add(heap []ranked, sc *pool.Scratch, src []T, from int) []ranked {
	keys := pool.Own[[256]uint64](sc)
	for ; from < len(src); from += len(keys) {
		block := src[from:min(len(src), from+len(keys))]
		t.keys(keys[:len(block)], block)
		for i, key := range keys[:len(block)] {
			switch {
			case len(heap) < t.k:
				heap = append(heap, ranked{key, from + i})
				up(heap)
			case key > heap[0].key: // an equal element is worse, since it is later in the row
				heap[0] = ranked{key, from + i}
				down(heap)
			}
		}
	}
	return heap
}

// up moves the last element of a heap to its place.
func up(heap []ranked) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !heap[i].worse(heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

// down moves the root of a heap to its place.
func down(heap []ranked) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if right := child + 1; right < len(heap) && heap[right].worse(heap[child]) {
			child = right
		}
		if !heap[child].worse(heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// FloatOrder orders numbers by size. Both zeros are equal, and NaN is the least.
func FloatOrder[T float32 | float64]() Order[T] {
	var x any = T(0)
	if _, ok := x.(float64); ok {
		return Order[T]{floatKeys[T], 0}
	}
	return Order[T]{floatKeys[T], 29}
}

func floatKeys[T float32 | float64](dst []uint64, src []T) {
	for i, x := range src {
		dst[i] = floatKey(float64(x))
	}
}

// HalfOrder is FloatOrder for f16 and bf16, given as bits.
func HalfOrder(d dtype.DType) Order[uint16] {
	widen, low := dtype.F16ToF32, 42
	if d == dtype.BF16 {
		widen, low = dtype.BF16ToF32, 45
	}
	return Order[uint16]{func(dst []uint64, src []uint16) {
		for i, x := range src {
			dst[i] = floatKey(float64(widen(x)))
		}
	}, low}
}

func floatKey(x float64) uint64 {
	if x != x {
		return 0
	}
	b := math.Float64bits(x + 0) // -0 becomes 0
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// IntOrder orders integers by size.
func IntOrder[T int8 | int16 | int32 | int64 | uint8 | uint32]() Order[T] {
	return Order[T]{func(dst []uint64, src []T) {
		for i, x := range src {
			dst[i] = uint64(int64(x)) ^ 1<<63
		}
	}, 0}
}

// TopKScratch returns what TopK needs for rows of up to n elements.
func TopKScratch(p *pool.Pool, n, k int) pool.Size {
	return pool.Size{Worker: pool.FloatBytes(n / topKBlock), Other: 2 * int64(p.Threads()) * pool.SizeOf[ranked](k)}
}
