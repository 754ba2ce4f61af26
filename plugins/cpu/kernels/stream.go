package kernels

import "unsafe"

// streamFrom is the default of Pool.streamFrom: elementwise kernels whose operands and result take at least so many bytes store the result past
// the caches. An ordinary store first reads its cache line from memory, a third or more of the traffic. But a result past the caches must be
// read from memory again by the next kernel, which pays only if most of it would have been evicted anyway. On a processor with 32 MB of cache,
// operands and results of 100 MB gained a third, those of 50 MB lost a third.
const streamFrom = 96 << 20

// streamBytes is the size of a block of the result: it is computed in the L1 cache and then stored. While it is stored, the operands of the
// next block are brought there, so that the memory reads and writes at the same time.
const streamBytes = 2048

// streaming describes how a kernel writes its result by stores that bypass the caches.
type streaming struct {
	on    bool
	ahead [2]ahead // the first operands of the result's shape
}

// ahead is an operand: the address of its elements, which is never read, and their size in bytes.
type ahead struct {
	base uintptr
	size int
}

// streams reports whether to bypass the caches in a kernel that reads and writes the given number of bytes.
func (p *Pool) streams(bytes int) bool { return p.isa.stream != nil && bytes >= p.streamFrom }

// read adds an operand that has the shape of the result.
func (s *streaming) read(x []uint8, size int) {
	for i := range s.ahead {
		if s.ahead[i].size == 0 {
			s.ahead[i] = ahead{uintptr(unsafe.Pointer(&x[0])), size}
			return
		}
	}
}

// put copies a block of the result to dst. The operands' next elements are those from hi on. The caller must call isa.storeFence before it
// reports the task as done.
func (s *streaming) put(set *isa, dst, block []uint8, hi int) {
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
			next[i] = x.base + uintptr(hi*x.size) // without an operand, that is not memory, and nothing is brought
		}
		set.stream(&dst[0], &block[0], next[0], next[1], n)
	}
	copy(dst[n*line:], block[n*line:])
}

// output is the result of an elementwise kernel.
type output[T any] struct {
	p      *Pool
	dst    []T
	stream streaming
}

// newOutput returns the output dst of a kernel with the given operands. If dst is one of them, its cache lines are read anyway. quick tells
// that the memory takes longer than the computing. Otherwise ordinary stores are faster, because they overlap with the computing.
func newOutput[T any](p *Pool, quick bool, dst []T, operands ...[]T) output[T] {
	o := output[T]{p: p, dst: dst}
	bytes, inPlace := len(bytesOf(dst)), false
	for _, x := range operands {
		bytes += len(bytesOf(x))
		inPlace = inPlace || same(dst, x)
	}
	if o.stream.on = quick && p.streams(bytes) && !inPlace; o.stream.on {
		for _, x := range operands {
			if len(x) == len(dst) {
				o.stream.read(bytesOf(x), int(unsafe.Sizeof(x[0])))
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
	room := o.p.scratch(worker).floats(streamBytes / 4)
	block := elementsOf[T](bytesOf(room))
	for size := len(block); lo < hi; lo += size {
		n := min(size, hi-lo)
		f(block[:n], lo, lo+n)
		o.stream.put(o.p.isa, bytesOf(o.dst[lo:lo+n]), bytesOf(block[:n]), lo+n)
	}
	o.p.isa.storeFence()
}

// same reports whether two slices begin at the same address.
func same[T any](a, b []T) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
