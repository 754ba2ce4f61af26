package kernels

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// TopK finds the k largest of the n elements of each row of src, the largest first and equal ones in the order of their
// indices. values receives the elements, indices their positions in the row as elements of type index (i32, i64, u32 or f32).
// keys maps each element to a number by which it is compared: FloatKeys, IntKeys or HalfKeys.
//
// One pass over a row keeps the best so far in a heap whose root is the worst of them. Most elements of a long row are then
// compared with the root only.
func TopK[T any](p *Pool, values []T, indices []byte, index dtype.DType, src []T, rows, n, k int, keys func(dst []uint64, src []T)) {
	if k < 1 || k > n || len(src) < rows*n || len(values) < rows*k || len(indices) < rows*k*index.Size() {
		panic(fmt.Sprintf("BUG: top_k: the %d largest of %d in %d rows", k, n, rows))
	}
	split(p, rows, 1+elementGrain/n, topK[T]{p, values, indices, index, src, n, k, keys})
}

type topK[T any] struct {
	p       *Pool
	values  []T
	indices []byte
	index   dtype.DType
	src     []T
	n, k    int
	keys    func(dst []uint64, src []T)
}

// ranked is an element of a row with its key.
type ranked struct {
	key uint64
	at  int
}

// worse reports whether a comes after b.
func (a ranked) worse(b ranked) bool { return a.key < b.key || a.key == b.key && a.at > b.at }

func (t *topK[T]) do(lo, hi, worker int) {
	s := t.p.scratch(worker)
	if cap(s.ranked) < t.k {
		s.ranked = make([]ranked, t.k)
	}
	if s.keys == nil {
		s.keys = make([]uint64, 256)
	}
	for row := lo; row < hi; row++ {
		src := t.src[row*t.n:][:t.n]
		heap := t.best(s.ranked[:0:t.k], s.keys, src)
		for j := t.k - 1; j >= 0; j-- { // the worst is at the root, so fill from the last place to the first
			at := heap[0].at
			t.values[row*t.k+j] = src[at]
			putIndex(t.indices, t.index, row*t.k+j, at)
			heap[0] = heap[j]
			heap = heap[:j]
			down(heap)
		}
	}
}

// best is a heap of the k best elements of a row, the worst of them at the root. keys is memory for the keys of a block.
func (t *topK[T]) best(heap []ranked, keys []uint64, src []T) []ranked {
	for from := 0; from < len(src); from += len(keys) {
		block := src[from:min(len(src), from+len(keys))]
		t.keys(keys[:len(block)], block)
		for i, key := range keys[:len(block)] {
			switch {
			case len(heap) < t.k:
				heap = append(heap, ranked{key, from + i})
				up(heap)
			case key > heap[0].key: // an equal one is worse, as it is later in the row
				heap[0] = ranked{key, from + i}
				down(heap)
			}
		}
	}
	return heap
}

// up moves the last element to its place.
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

// down moves the root to its place.
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

// putIndex stores index at as element i of indices.
func putIndex(indices []byte, index dtype.DType, i, at int) {
	switch b := indices[i*index.Size():]; index {
	case dtype.I64:
		binary.LittleEndian.PutUint64(b, uint64(at))
	case dtype.F32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(at)))
	default: // i32 and u32
		binary.LittleEndian.PutUint32(b, uint32(at))
	}
}

// FloatKeys are in the order of the numbers; both zeros have one key, and NaN the least.
func FloatKeys[T float32 | float64](dst []uint64, src []T) {
	for i, x := range src {
		dst[i] = floatKey(float64(x))
	}
}

// HalfKeys is FloatKeys for f16 and bf16, given as bits.
func HalfKeys(d dtype.DType) func(dst []uint64, src []uint16) {
	widen := dtype.F16ToF32
	if d == dtype.BF16 {
		widen = dtype.BF16ToF32
	}
	return func(dst []uint64, src []uint16) {
		for i, x := range src {
			dst[i] = floatKey(float64(widen(x)))
		}
	}
}

func floatKey(x float64) uint64 {
	if x != x {
		return 0
	}
	b := math.Float64bits(x + 0) // -0 becomes 0
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// IntKeys are in the order of the integers.
func IntKeys[T int8 | int16 | int32 | int64 | uint8 | uint32](dst []uint64, src []T) {
	for i, x := range src {
		dst[i] = uint64(int64(x)) ^ 1<<63
	}
}
