package elementwise

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// streamBytes is the size of a block of the result. A block is computed in the L1 cache and then stored. Meanwhile the
// operands of the next block are prefetched, so memory is read and written at the same time.
const streamBytes = 2048

// streaming describes how a kernel writes its result.
type streaming struct {
	on    bool
	ahead [2]ahead // the first two operands that have the shape of the result, to prefetch
}

// ahead is an operand that is prefetched: its address, and the size of an element in bytes.
type ahead struct {
	base uintptr
	size int
}

// streams reports whether a kernel that reads and writes the given number of bytes should bypass the caches.
func streams(p *pool.Pool, bytes int) bool {
	return vec.On(p.Set).Stream != nil && bytes >= p.StreamFrom
}

// read adds an operand that has the shape of the result.
func (s *streaming) read(x []uint8, size int) {
	for i := range s.ahead {
		if s.ahead[i].size == 0 {
			s.ahead[i] = ahead{uintptr(unsafe.Pointer(&x[0])), size}
			return
		}
	}
}

// put copies a block of the result to dst, and prefetches the operands from element hi on. The caller must call
// vec.Routines.storeFence before it reports the task as done.
func (s *streaming) put(set *isa.Set, dst, block []uint8, hi int) {
	const line = 64
	if head := int(-uintptr(unsafe.Pointer(&dst[0])) % line); head > 0 {
		head = copy(dst, block[:min(head, len(block))])
		dst, block = dst[head:], block[head:]
	}
	n := len(block) / line
	if n > 0 {
		_ = dst[n*line-1]
		var next [2]uintptr
		for i, x := range s.ahead {
			// if there is no such operand, this is no valid address, and the prefetch does nothing
			next[i] = x.base + uintptr(hi*x.size)
		}
		vec.On(set).Stream(&dst[0], &block[0], next[0], next[1], n)
	}
	copy(dst[n*line:], block[n*line:])
}

// output is the result of an elementwise kernel.
type output[T any] struct {
	p      *pool.Pool
	dst    []T
	stream streaming
}

// newOutput returns the output dst of a kernel with the given operands. It bypasses the caches only if dst is not an
// operand, whose cache lines are read anyway, and if quick is set: memory must take longer than the arithmetic, because
// ordinary stores overlap with arithmetic.
func newOutput[T any](p *pool.Pool, quick bool, dst []T, operands ...[]T) output[T] {
	o := output[T]{p: p, dst: dst}
	bytes, inPlace := len(pool.BytesOf(dst)), false
	for _, x := range operands {
		bytes += len(pool.BytesOf(x))
		inPlace = inPlace || same(dst, x)
	}
	if o.stream.on = quick && streams(p, bytes) && !inPlace; o.stream.on {
		for _, x := range operands {
			if len(x) == len(dst) {
				o.stream.read(pool.BytesOf(x), int(unsafe.Sizeof(x[0])))
			}
		}
	}
	return o
}

// each calls f, which computes elements [lo, hi) of the result into dst, for the whole range or for blocks of it.
func (o *output[T]) each(lo, hi, worker int, f func(dst []T, lo, hi int)) {
	if !o.stream.on {
		f(o.dst[lo:hi], lo, hi)
		return
	}
	room := o.p.Scratch(worker).Floats(streamBytes / 4)
	block := pool.ElementsOf[T](pool.BytesOf(room))
	for size := len(block); lo < hi; lo += size {
		n := min(size, hi-lo)
		f(block[:n], lo, lo+n)
		o.stream.put(o.p.Set, pool.BytesOf(o.dst[lo:lo+n]), pool.BytesOf(block[:n]), lo+n)
	}
	vec.On(o.p.Set).StoreFence()
}

// same reports whether two slices begin at the same address.
func same[T any](a, b []T) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
