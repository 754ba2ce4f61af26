package fft

import "github.com/rlx-go/rlx/plugins/cpu/kernels/pool"

// shortFFT transforms as many rows at a time as a vector has lanes. It works on the transpose: matrices with a row for
// each number and a column for each row of the operand.
type shortFFT[T float32 | float64] struct {
	t        *fftPlan[T]
	p        *pool.Pool
	dst, src []T
	rows     int
}

// shortScratch returns what do allocates, in bytes.
func (t *fftPlan[T]) shortScratch() int64 {
	l := t.f.lanes
	return planesBytes[T](t.N*l, (t.N/2+1)*l, t.m*l, t.m*l, t.m*l)
}

func (s *shortFFT[T]) Do(lo, hi, worker int) {
	t, room := s.t, s.p.Scratch(worker)
	in, out := t.sizes()
	l, bins := t.f.lanes, t.N/2+1
	x, y := planesIn[T](room, t.N*l), planesIn[T](room, bins*l)
	var w [3]planes[T]
	for i := range w {
		w[i] = planesIn[T](room, t.m*l)
	}
	for group := lo; group < hi; group++ {
		rows := min(l, s.rows-group*l)
		src, dst := s.src[group*l*in:], s.dst[group*l*out:]
		switch {
		case !t.real():
			t.load(x.re, src, in, rows, t.N)
			t.load(x.im, src[t.N:], in, rows, t.N)
			if t.backward() {
				t.columns(x.swapped(), l, x.swapped(), l, w)
			} else {
				t.columns(x, l, x, l, w)
			}
			t.scaled(x.re[:t.N*l])
			t.scaled(x.im[:t.N*l])
			t.store(dst, out, x.re, rows, t.N)
			t.store(dst[t.N:], out, x.im, rows, t.N)
		case t.Kind == Real && t.halved():
			t.load(x.re, src, in, rows, t.N)
			// overwriting x.re is safe, since the first stage reads all of it
			t.columns(x, l, planes[T]{x.re, x.re[l:]}, 2*l, w)
			t.halve(y, x)
			t.store(dst, out, y.re, rows, bins)
			t.store(dst[bins:], out, y.im, rows, bins)
		case t.Kind == Real:
			t.load(x.re, src, in, rows, t.N)
			clear(x.im)
			t.columns(x, l, x, l, w)
			t.scaled(x.re[:bins*l])
			t.scaled(x.im[:bins*l])
			t.store(dst, out, x.re, rows, bins)
			t.store(dst[bins:], out, x.im, rows, bins)
		default:
			t.load(y.re, src, in, rows, bins)
			t.load(y.im, src[bins:], in, rows, bins)
			clear(y.im[:l])
			if t.halved() {
				clear(y.im[(bins-1)*l : bins*l])
				t.halve(x, y)
				t.columns(planes[T]{x.re[l:], x.re}, 2*l, x.swapped(), l, w)
			} else {
				t.mirror(x, y)
				t.columns(x.swapped(), l, x.swapped(), l, w)
				t.scaled(x.re[:t.N*l])
			}
			t.store(dst, out, x.re, rows, t.N)
		}
		for i := range rows {
			t.finish(dst[i*out:][:out], src[i*in:][:in])
		}
	}
}

// scaled multiplies x by the scale, unless a table has done so.
func (t *fftPlan[T]) scaled(x []T) {
	if t.Scale != 1 && t.m == t.n {
		t.f.scale(x, T(t.Scale))
	}
}

// load transposes rows of n values. Missing rows become columns of zeros.
func (t *fftPlan[T]) load(dst, src []T, ld, rows, n int) {
	l := t.f.lanes
	if rows == l && n >= l {
		t.f.transpose(dst, l, src, ld, l, n)
		return
	}
	clear(dst[:n*l])
	for i := range rows {
		for j, v := range src[i*ld : i*ld+n] {
			dst[j*l+i] = v
		}
	}
}

func (t *fftPlan[T]) store(dst []T, ld int, src []T, rows, n int) {
	l := t.f.lanes
	if rows == l && n >= l {
		t.f.transpose(dst, ld, src, l, n, l)
		return
	}
	for i := range rows {
		for j := range n {
			dst[i*ld+j] = src[j*l+i]
		}
	}
}

// columns computes the core for lanes columns. dst may be src.
func (t *fftPlan[T]) columns(dst planes[T], ldd int, src planes[T], lds int, w [3]planes[T]) {
	f, l := t.f, t.f.lanes
	if t.m == t.n {
		t.a.run(f, dst, ldd, src, lds, l, w[0], w[1])
		return
	}
	x := w[2]
	for j := range t.n {
		f.multiply(x.from(j*l), src.from(j*lds), t.chirp.from(j*l), l)
	}
	clear(x.re[t.n*l : t.m*l])
	clear(x.im[t.n*l : t.m*l])
	t.a.run(f, x, l, x, l, l, w[0], w[1])
	f.multiply(x, x, t.filter, t.m*l)
	back := x.swapped()
	t.a.run(f, back, l, back, l, l, w[0], w[1])
	for j := range t.n {
		f.multiply(dst.from(j*ldd), x.from(j*l), t.out.from(j*l), l)
	}
}

// halve turns the transform of n complex numbers into that of 2n real ones, or the other way round.
func (t *fftPlan[T]) halve(dst, src planes[T]) {
	l, scale, first, w := t.f.lanes, T(t.Scale), planes[T]{t.halves.re[:1], t.halves.im[:1]}, t.halves.from(1)
	if t.Kind == Real {
		scale /= 2
		t.f.split(dst, dst.from(t.n*l), src, src, 0, first, scale)
	} else { // the result has no number n; number 0 overwrites it
		t.f.split(dst, dst, src, src.from(t.n*l), 0, first, scale)
	}
	if len(w.re) > 0 {
		t.f.split(dst.from(l), dst, src.from(l), src, t.n-1, w, scale)
	}
}

// mirror extends the first N/2+1 numbers to all N. The others are their conjugates.
func (t *fftPlan[T]) mirror(dst, src planes[T]) {
	l := t.f.lanes
	for k := range t.N/2 + 1 {
		copy(dst.re[k*l:][:l], src.re[k*l:])
		copy(dst.im[k*l:][:l], src.im[k*l:])
		if k > 0 {
			copy(dst.re[(t.N-k)*l:][:l], src.re[k*l:])
			for i, v := range src.im[k*l:][:l] {
				dst.im[(t.N-k)*l+i] = -v
			}
		}
	}
}
