package fft

import "github.com/rlx-go/rlx/plugins/cpu/kernels/pool"

// fftRow is the state of a long transform of one row.
type fftRow[T float32 | float64] struct {
	t        *fftPlan[T]
	p        *pool.Pool
	dst, src []T
	in, out  planes[T] // operand and result of the core
	turned   planes[T] // the transposed matrix between stepFirst and stepSecond
	x        planes[T] // m numbers, for a convolution
}

// rowScratch returns what newRow allocates, in bytes.
func (t *fftPlan[T]) rowScratch() int64 {
	n := planesBytes[T](t.m)
	if t.m != t.n {
		n += planesBytes[T](t.m)
	}
	if t.real() {
		n += planesBytes[T](t.n)
	}
	return n
}

// blockScratch returns what do allocates, in bytes.
func (t *fftPlan[T]) blockScratch() int64 {
	most := max(t.a.n, t.b.n) * 4 * t.f.lanes
	return planesBytes[T](most, most, most)
}

func (t *fftPlan[T]) newRow(p *pool.Pool, s *pool.Scratch, dst, src []T) fftRow[T] {
	r := fftRow[T]{t: t, p: p, dst: dst, src: src, turned: planesIn[T](s, t.m)}
	if t.m != t.n {
		r.x = planesIn[T](s, t.m)
	}
	if t.real() {
		r.in = planesIn[T](s, t.n)
		r.out = r.in
	} else {
		r.in, r.out = planes[T]{src[:t.N], src[t.N:]}, planes[T]{dst[:t.N], dst[t.N:]}
	}
	if t.backward() {
		r.in, r.out = r.in.swapped(), r.out.swapped()
	}
	return r
}

// The steps of a row. Threads share blocks of columns in the steps named first and second, and blocks of numbers in the
// others.
const (
	stepFirst   = iota // transforms the columns of the operand, into turned
	stepSecond         // transforms the columns of turned, into the result
	stepReal           // makes the core's operand, of a real transform
	stepToReal         // makes the result from the core's, of a real transform
	stepChirp          // x = operand * chirp, padded with zeros
	stepFilter         // x = x * filter
	stepUnchirp        // result = x * chirp
	stepFirstOfX
	stepSecondOfX
	stepBackFirst // the inverse transform of x
	stepBackSecond
)

var (
	stepsPlain     = []int{stepFirst, stepSecond}
	stepsPlainReal = []int{stepReal, stepFirst, stepSecond, stepToReal}
	stepsConvolve  = []int{stepChirp, stepFirstOfX, stepSecondOfX, stepFilter, stepBackFirst, stepBackSecond,
		stepUnchirp}
	stepsConvolveFor = append(append([]int{stepReal}, stepsConvolve...), stepToReal)
)

func (r *fftRow[T]) list() []int {
	switch t := r.t; {
	case t.m == t.n && !t.real():
		return stepsPlain
	case t.m == t.n:
		return stepsPlainReal
	case !t.real():
		return stepsConvolve
	}
	return stepsConvolveFor
}

func (r *fftRow[T]) steps() int { return len(r.list()) }

// numbersPerItem is the size of a block in a step that shares numbers.
const numbersPerItem = 4096

func (r *fftRow[T]) items(step int) int {
	t := r.t
	n := t.n
	switch r.list()[step] {
	case stepReal, stepToReal:
		n = r.numbers(step)
	case stepFirst, stepFirstOfX, stepBackFirst:
		count, _ := t.blocks(t.b.n, t.a.n)
		return count
	case stepSecond, stepSecondOfX, stepBackSecond:
		count, _ := t.blocks(t.a.n, t.b.n)
		return count
	case stepFilter, stepChirp:
		n = t.m
	}
	return (n + numbersPerItem - 1) / numbersPerItem
}

// numbers returns how many numbers stepReal or stepToReal shares. A step that computes k and n-k together counts the
// pairs.
func (r *fftRow[T]) numbers(step int) int {
	if r.t.halved() && (r.list()[step] == stepReal) == r.t.backward() {
		return r.t.n/2 + 1
	}
	return r.t.n
}

// do computes items [lo, hi) of a step.
func (r *fftRow[T]) do(step, lo, hi int, s *pool.Scratch) {
	t, f := r.t, r.t.f
	from, to := lo*numbersPerItem, hi*numbersPerItem
	switch r.list()[step] {
	case stepFirst:
		r.first(r.in, t.roots, lo, hi, s)
	case stepSecond:
		r.second(r.out, lo, hi, s)
	case stepFirstOfX:
		r.first(r.x, t.roots, lo, hi, s)
	case stepSecondOfX:
		r.second(r.x, lo, hi, s)
	case stepBackFirst:
		r.first(r.x.swapped(), t.roots, lo, hi, s)
	case stepBackSecond:
		r.second(r.x.swapped(), lo, hi, s)
	case stepChirp:
		if n := min(to, t.n) - from; n > 0 {
			f.multiply(r.x.from(from), r.in.from(from), t.chirp.from(from), n)
		}
		if at, end := max(from, t.n), min(to, t.m); at < end {
			clear(r.x.re[at:end])
			clear(r.x.im[at:end])
		}
	case stepFilter:
		to = min(to, t.m)
		f.multiply(r.x.from(from), r.x.from(from), t.filter.from(from), to-from)
	case stepUnchirp:
		to = min(to, t.n)
		f.multiply(r.out.from(from), r.x.from(from), t.out.from(from), to-from)
	case stepReal:
		r.fromReal(from, min(to, r.numbers(step)))
	case stepToReal:
		r.toReal(from, min(to, r.numbers(step)))
	}
}

// first transforms blocks [lo, hi) of columns of a matrix [a, b], multiplies them by roots, and transposes them.
func (r *fftRow[T]) first(src, roots planes[T], lo, hi int, s *pool.Scratch) {
	t, a, b := r.t, r.t.a.n, r.t.b.n
	count, width := t.blocks(b, a)
	mark := s.Mark()
	for i := lo; i < hi; i++ {
		at, w := block(i, count, width, b)
		x, y, z := planesIn[T](s, a*w), planesIn[T](s, a*w), planesIn[T](s, a*w)
		t.a.run(t.f, x, w, src.from(at), b, w, y, z)
		t.f.multiply(x, x, roots.from(at*a), a*w)
		t.f.transpose(r.turned.re[at*a:], a, x.re, w, a, w)
		t.f.transpose(r.turned.im[at*a:], a, x.im, w, a, w)
		s.Release(mark)
	}
}

// second transforms blocks [lo, hi) of columns of the matrix turned [b, a].
func (r *fftRow[T]) second(dst planes[T], lo, hi int, s *pool.Scratch) {
	t, a, b := r.t, r.t.a.n, r.t.b.n
	count, width := t.blocks(a, b)
	mark := s.Mark()
	for i := lo; i < hi; i++ {
		at, w := block(i, count, width, a)
		y, z := planesIn[T](s, b*w), planesIn[T](s, b*w)
		t.b.run(t.f, dst.from(at), a, r.turned.from(at), a, w, y, z)
		s.Release(mark)
	}
}

// fromReal computes numbers [lo, hi) of the core's operand.
func (r *fftRow[T]) fromReal(lo, hi int) {
	t, src, z := r.t, r.src, r.in
	if t.backward() {
		z = z.swapped()
	}
	bins := t.N/2 + 1
	switch {
	case t.Kind == Real && t.halved():
		pairs := src[2*lo : 2*hi]
		re, im := z.re[lo:hi], z.im[lo:hi]
		if t.f.evens != nil {
			t.f.evens(re, pairs)
			t.f.evens(im, pairs[1:])
			return
		}
		for i := range re {
			re[i], im[i] = pairs[2*i], pairs[2*i+1]
		}
	case t.Kind == Real:
		copy(z.re[lo:hi], src[lo:hi])
		clear(z.im[lo:hi])
	case t.halved():
		x := planes[T]{src[:bins], src[bins:]}
		if lo == 0 { // the parts of numbers 0 and n are real
			z.re[0], z.im[0] = halfOf([4]T{x.re[0], 0, x.re[t.n], 0}, t.halves.re[0], t.halves.im[0], T(t.Scale))
		}
		r.halve(z, x, lo, hi, T(t.Scale))
	default:
		for k := lo; k < hi; k++ {
			if k < bins {
				z.re[k], z.im[k] = src[k], src[bins+k]
			} else {
				z.re[k], z.im[k] = src[t.N-k], -src[bins+t.N-k]
			}
		}
		if lo == 0 {
			z.im[0] = 0
		}
	}
}

// halve computes numbers [lo, hi) except 0, and their counterparts n-k, as routines.split does.
func (r *fftRow[T]) halve(x, z planes[T], lo, hi int, scale T) {
	t := r.t
	// block by block, so that the same numbers form vectors for any number of threads
	for ; lo < hi-numbersPerItem; lo += numbersPerItem {
		r.halve(x, z, lo, lo+numbersPerItem, scale)
	}
	k, end := max(lo, 1), min(hi, (t.n+1)/2)
	if t.f.halves != nil && k < end {
		k += t.f.halves(x, z, t.n, k, end-k, t.halves, scale)
	}
	for ; k < end; k++ {
		h := t.n - k
		p, q := [4]T{z.re[k], z.im[k], z.re[h], z.im[h]}, [4]T{z.re[h], z.im[h], z.re[k], z.im[k]}
		x.re[k], x.im[k] = halfOf(p, t.halves.re[k], t.halves.im[k], scale)
		x.re[h], x.im[h] = halfOf(q, -t.halves.re[k], t.halves.im[k], scale) // w_h = -w_k*
	}
	if k = t.n / 2; t.n%2 == 0 && k >= max(lo, 1) && k < hi {
		x.re[k], x.im[k] = halfOf([4]T{z.re[k], z.im[k], z.re[k], z.im[k]}, t.halves.re[k], t.halves.im[k], scale)
	}
}

// halfOf returns number k as split computes it, from x = (z_k, z_{h-k}) and w_k.
func halfOf[T float32 | float64](x [4]T, wr, wi, scale T) (re, im T) {
	er, ei, or, oi := (x[0]+x[2])*scale, (x[1]-x[3])*scale, x[1]+x[3], x[2]-x[0]
	return er + or*wr - oi*wi, ei + or*wi + oi*wr
}

// toReal computes the part of the result that comes from numbers [lo, hi) of the core's.
func (r *fftRow[T]) toReal(lo, hi int) {
	t, dst, z := r.t, r.dst, r.out
	if t.backward() {
		z = z.swapped()
	}
	bins := t.N/2 + 1
	switch {
	case t.Kind == Real && t.halved():
		if lo == 0 {
			dst[0], dst[bins] = (z.re[0]+z.im[0])*T(t.Scale), 0
			dst[t.n], dst[bins+t.n] = (z.re[0]-z.im[0])*T(t.Scale), 0
		}
		r.halve(planes[T]{dst[:bins], dst[bins:]}, z, lo, hi, T(t.Scale)/2)
	case t.Kind == Real:
		if hi = min(hi, bins); lo < hi {
			copy(dst[lo:hi], z.re[lo:hi])
			copy(dst[bins+lo:bins+hi], z.im[lo:hi])
		}
	case t.halved():
		pairs := dst[2*lo : 2*hi]
		re, im := z.re[lo:hi], z.im[lo:hi]
		if t.f.zip != nil {
			t.f.zip(pairs, re, im)
			return
		}
		for i := range re {
			pairs[2*i], pairs[2*i+1] = re[i], im[i]
		}
	default:
		copy(dst[lo:hi], z.re[lo:hi])
	}
}
