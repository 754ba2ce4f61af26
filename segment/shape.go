package segment

import "math/bits"

// A shape is the set of pixels of a mask, at the resolution of the model's masks: one bit for each pixel of its box.
// Rows consist of whole words whose first bits are at multiples of 64 pixels, so the words of two shapes can be
// combined without shifts.
type shape struct {
	box  [4]int   // x0, y0, x1, y1 in pixels of the mask; x1 and y1 are exclusive
	area int      // pixels in the set
	bits []uint64 // rows box[1] to box[3], each with words box[0]/64 to (box[2]-1)/64
	rest []int32  // for each of these rows, the pixels in it and in those below
}

// shapeOf returns the pixels of box whose logits are above threshold. Rows of logits have w pixels.
func shapeOf(logits []float32, w int, box [4]int, threshold float32) *shape {
	s := &shape{box: box}
	first, n := s.words()
	s.bits, s.rest = make([]uint64, n*(box[3]-box[1])), make([]int32, box[3]-box[1])
	for y := box[3] - 1; y >= box[1]; y-- {
		row := s.bits[(y-box[1])*n:][:n]
		for x := box[0]; x < box[2]; x++ {
			if logits[y*w+x] > threshold {
				row[x/64-first] |= 1 << (x % 64)
				s.area++
			}
		}
		s.rest[y-box[1]] = int32(s.area)
	}
	return s
}

// words returns the number of the first word of each row, and how many words a row has.
func (s *shape) words() (first, n int) {
	first = s.box[0] / 64
	return first, (s.box[2]-1)/64 - first + 1
}

// overlaps reports whether the IoU of two shapes is above bound. It counts common pixels only if the boxes and areas
// allow such an IoU, and stops when the rows that are left cannot reach it.
func (s *shape) overlaps(o *shape, bound float64) bool {
	above := func(both int) bool { return float64(both) > bound*float64(s.area+o.area-both) }
	x0, y0, x1, y1 := max(s.box[0], o.box[0]), max(s.box[1], o.box[1]), min(s.box[2], o.box[2]), min(s.box[3], o.box[3])
	if x1 <= x0 || y1 <= y0 || !above(min(s.area, o.area, (x1-x0)*(y1-y0))) {
		return false
	}
	sFirst, sn := s.words()
	oFirst, on := o.words()
	from, n := x0/64, (x1-1)/64-x0/64+1
	both := 0
	for y := y0; y < y1; y++ {
		if (y-y0)%8 == 0 && !above(both+int(min(s.rest[y-s.box[1]], o.rest[y-o.box[1]]))) {
			return false
		}
		a, b := s.bits[(y-s.box[1])*sn+from-sFirst:][:n], o.bits[(y-o.box[1])*on+from-oFirst:][:n]
		for i, v := range a {
			both += bits.OnesCount64(v & b[i])
		}
	}
	return above(both)
}
