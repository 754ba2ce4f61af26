package isa

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

// WholeVectors calls a routine for whole vectors for slices of any length. It computes the last elements in a padded
// vector by the same routine, so that the bits of a result do not depend on its position.
func WholeVectors(lanes int, dst, src []float32, f func(dst, src *float32, blocks int)) {
	dst = dst[:len(src)]
	n := len(src) / lanes
	if n > 0 {
		f(&dst[0], &src[0], n)
	}
	if rest := src[n*lanes:]; len(rest) > 0 {
		buf := TakeVector()
		copy(buf[:], rest)
		f(&buf[0], &buf[0], 1)
		copy(dst[n*lanes:], buf[:len(rest)])
		GiveVector(buf)
	}
}

// vectors has the buffers that are not in use.
var vectors = make(chan *[16]float32, 64)

// TakeVector returns a buffer for a padded vector. A local variable would escape and be allocated at each call.
func TakeVector() *[16]float32 {
	select {
	case buf := <-vectors:
		return buf
	default:
		return new([16]float32)
	}
}

// GiveVector gives back a buffer from TakeVector.
func GiveVector(buf *[16]float32) {
	select {
	case vectors <- buf:
	default:
	}
}
