package isa

import "sync"

// Helpers for adapters of generated routines. The routines take addresses and whole vectors; adapters give them slices
// of any length, and check the bounds for them: an index expression such as _ = c[n] is the last element that is read
// or written.

// Head returns the address of the first element, or nil if s is empty.
func Head(s []float32) *float32 {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// WholeVectors calls a routine for whole vectors for slices of any length. dst may be src, but must not overlap it
// otherwise. The last elements are computed by the same routine, in a vector that overlaps the one before, so that the
// bits of a result do not depend on its position.
func WholeVectors(lanes int, dst, src []float32, f func(dst, src *float32, blocks int)) {
	dst = dst[:len(src)]
	if len(src) < lanes {
		shortVector(dst, src, f)
		return
	}
	n := len(src) / lanes
	if n*lanes == len(src) {
		f(&dst[0], &src[0], n)
		return
	}
	last := len(src) - lanes
	if &dst[0] != &src[0] {
		f(&dst[0], &src[0], n)
		f(&dst[last], &src[last], 1)
		return
	}
	var twice [16]float32 // the operands of the elements that both vectors have
	again := dst[last : n*lanes]
	copy(twice[:], again)
	f(&dst[0], &src[0], n)
	copy(again, twice[:])
	f(&dst[last], &src[last], 1)
}

// shortVector computes less than a vector in a padded one.
func shortVector(dst, src []float32, f func(dst, src *float32, blocks int)) {
	if len(src) == 0 {
		return
	}
	buf := TakeVector()
	copy(buf[:], src)
	f(&buf[0], &buf[0], 1)
	copy(dst, buf[:len(src)])
	GiveVector(buf)
}

// vectors has the buffers that are not in use.
var vectors = sync.Pool{New: func() any { return new([16]float32) }}

// TakeVector returns a buffer for a padded vector. A local variable would escape and be allocated at each call.
func TakeVector() *[16]float32 { return vectors.Get().(*[16]float32) }

// GiveVector gives back a buffer from TakeVector.
func GiveVector(buf *[16]float32) { vectors.Put(buf) }
