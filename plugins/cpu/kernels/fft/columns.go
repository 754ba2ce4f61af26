package fft

import (
	"math"
	"slices"
)

// planes holds complex numbers, with the real parts in one slice and the imaginary parts in another.
type planes[T float32 | float64] struct{ re, im []T }

func (a planes[T]) from(i int) planes[T] { return planes[T]{a.re[i:], a.im[i:]} }
func (a planes[T]) swapped() planes[T]   { return planes[T]{a.im, a.re} }

// routines are the inner loops of transforms. Runs have at least lanes numbers.
type routines[T float32 | float64] struct {
	lanes int
	// pass computes count butterflies of radix r, each for a run of numbers i < run:
	//
	//	dst[k*dstStride+i] = tw[k] * sum over j of src[j*srcStride+i] e^(-2 pi sqrt(-1) jk/r), j and k < r, tw[0] = 1
	//
	// From one butterfly to the next, it advances by srcStep in src, dstStep in dst and 2(r-1) in tw, which holds the
	// real and imaginary parts of the twiddle factors tw[1:r]. If tw is nil, all are 1.
	pass func(r int, dst, src planes[T], tw []T, shape passShape)
	// multiply is dst = a*b; dst may be a.
	multiply func(dst, a, b planes[T], n int)
	// transpose is dst[j*ldd+i] = src[i*lds+j], i < rows, j < cols; rows and cols are at least lanes.
	transpose func(dst []T, ldd int, src []T, lds int, rows, cols int)
	scale     func(x []T, by T)
	// split computes numbers k and h-k of the transform x of 2h real numbers from the transform z of h complex numbers,
	// each of which is two adjacent real ones. With e and o the transforms of the even and the odd real numbers,
	//
	//	e = (z_k + z_{h-k}*)/2, o = (z_k - z_{h-k}*)/2i, x_k = e + w o, x_{h-k} = (e - w o)*
	//
	// for rows of lanes numbers and k = 0, 1, ... len(w.re)-1. The rows of xk and zk ascend from the given address,
	// those of xh and zh descend from row back. If x_k and x_{h-k} are the same memory, the result is x_k. The factor
	// 1/2 is part of w and scale.
	split func(xk, xh, zk, zh planes[T], back int, w planes[T], scale T)
	// halves is split for numbers k to k+n-1 of h, with roots w[k:k+n]. No number may be 0 or the counterpart h-k of
	// another. It computes whole vectors and returns the count of numbers done. It is nil if the set lacks the routine.
	halves func(x, z planes[T], h, k, n int, w planes[T], scale T) int
	// evens is dst[i] = src[2i], and zip is dst[2i] = a[i], dst[2i+1] = b[i]; nil: loops in Go.
	evens func(dst, src []T)
	zip   func(dst, a, b []T)
}

type passShape struct{ count, run, srcStep, srcStride, dstStep, dstStride int }

// columnFFT transforms the columns of a matrix of n rows by Stockham's algorithm: each stage reads one matrix and
// writes another, in an order that leaves no bit reversal.
type columnFFT[T float32 | float64] struct {
	n      int
	stages []fftStage[T]
}

// fftStage is a stage of radix r. m is the product of the radices of later stages, and done the product of those of
// earlier stages. tw are its twiddle factors.
type fftStage[T float32 | float64] struct {
	r, m, done int
	tw         []T
}

// radices are the radices of stages, in the order in which factors tries them.
var radices = []int{4, 5, 3, 7, 2}

// factors returns radices whose product is n. ok is false if n has no such factors.
func factors(n int) (f []int, ok bool) {
	for _, r := range radices {
		for n%r == 0 {
			f, n = append(f, r), n/r
		}
	}
	return f, n == 1
}

// root returns e^(-2 pi i k/n), precise to the last bits of float64.
func root(k, n int) (re, im float64) {
	k %= n
	// Sine and cosine are most precise in the first eighth of the circle, so map other angles to it.
	switch octant := 8 * k / n; octant {
	case 0:
		im, re = math.Sincos(2 * math.Pi * float64(k) / float64(n))
	case 1, 2:
		re, im = math.Sincos(2 * math.Pi * (float64(n)/4 - float64(k)) / float64(n))
	case 3, 4:
		im, re = math.Sincos(2 * math.Pi * (float64(n)/2 - float64(k)) / float64(n))
		re = -re
	case 5, 6:
		re, im = math.Sincos(2 * math.Pi * (float64(k) - float64(n)*3/4) / float64(n))
		im = -im
	default:
		im, re = math.Sincos(2 * math.Pi * (float64(k) - float64(n)) / float64(n))
	}
	return re, -im
}

func newColumnFFT[T float32 | float64](n int) *columnFFT[T] {
	c := &columnFFT[T]{n: n}
	f, ok := factors(n)
	if !ok {
		panic("BUG: fft: no radices")
	}
	done := 1
	for _, r := range f {
		s := fftStage[T]{r: r, m: n / done / r, done: done}
		if s.m > 1 {
			for p := range s.m {
				for k := 1; k < r; k++ {
					re, im := root(p*k, r*s.m)
					s.tw = append(s.tw, T(re), T(im))
				}
			}
			s.tw = slices.Clip(s.tw)
		}
		c.stages = append(c.stages, s)
		done *= r
	}
	return c
}

// size returns the number of values in the tables.
func (c *columnFFT[T]) size() (n int) {
	for _, s := range c.stages {
		n += len(s.tw)
	}
	return n
}

// run transforms w columns of src, with rows lds apart, to dst, with rows ldd apart. dst may be src. a and b are
// buffers of n*w numbers.
func (c *columnFFT[T]) run(f *routines[T], dst planes[T], ldd int, src planes[T], lds int, w int, a, b planes[T]) {
	if c.n == 1 {
		copy(dst.re[:w], src.re[:w])
		copy(dst.im[:w], src.im[:w])
		return
	}
	last := len(c.stages) - 1
	if last == 0 { // a stage does not work in place, and dst may be src
		s := c.stages[0]
		f.pass(s.r, a, src, nil, passShape{1, w, w, lds, w, w})
		for j := range c.n {
			copy(dst.re[j*ldd:][:w], a.re[j*w:])
			copy(dst.im[j*ldd:][:w], a.im[j*w:])
		}
		return
	}
	for i, s := range c.stages {
		u := s.done * w
		shape := passShape{s.m, u, u, s.m * u, s.r * u, u}
		to := a
		if i == 0 {
			shape.srcStep, shape.srcStride = lds, s.m*lds
		}
		if i == last {
			to = dst
			if ldd != w {
				shape = passShape{s.done, w, w, u, ldd, s.done * ldd}
			}
		}
		f.pass(s.r, to, src, s.tw, shape)
		src, a, b = to, b, a
	}
}

// The loops in Go.

const rowsInGo = 4 // rows that shortFFT transforms at a time

func inGo[T float32 | float64]() *routines[T] {
	return &routines[T]{
		lanes: rowsInGo,
		pass:  passInGo[T],
		multiply: func(dst, a, b planes[T], n int) {
			dr, di, ar, ai, br, bi := dst.re[:n], dst.im[:n], a.re[:n], a.im[:n], b.re[:n], b.im[:n]
			for i, x := range ar {
				y := ai[i]
				dr[i], di[i] = x*br[i]-y*bi[i], x*bi[i]+y*br[i]
			}
		},
		transpose: func(dst []T, ldd int, src []T, lds int, rows, cols int) {
			for j := 0; j < cols; j += 8 { // a cache line of src at a time
				for i := range rows {
					for k, x := range src[i*lds+j : i*lds+min(cols, j+8)] {
						dst[(j+k)*ldd+i] = x
					}
				}
			}
		},
		scale: func(x []T, by T) {
			for i := range x {
				x[i] *= by
			}
		},
		split: func(xk, xh, zk, zh planes[T], back int, w planes[T], scale T) {
			for row, wr := range w.re {
				wi, k, h := w.im[row], row*rowsInGo, (back-row)*rowsInGo
				for i := range rowsInGo {
					ar, ai, br, bi := zk.re[k+i], zk.im[k+i], zh.re[h+i], zh.im[h+i]
					er, ei, or, oi := (ar+br)*scale, (ai-bi)*scale, ai+bi, br-ar
					tr, ti := or*wr-oi*wi, or*wi+oi*wr
					xh.re[h+i], xh.im[h+i], xk.re[k+i], xk.im[k+i] = er-tr, ti-ei, er+tr, ei+ti
				}
			}
		},
	}
}

func passInGo[T float32 | float64](r int, dst, src planes[T], tw []T, s passShape) {
	do := oddInGo[T]
	switch r {
	case 2:
		do = pass2InGo[T]
	case 4:
		do = pass4InGo[T]
	}
	for c := range s.count {
		var w []T
		if tw != nil {
			w = tw[2*(r-1)*c:][:2*(r-1)]
		}
		do(r, dst.from(c*s.dstStep), src.from(c*s.srcStep), w, s)
	}
}

func pass2InGo[T float32 | float64](_ int, dst, src planes[T], tw []T, s passShape) {
	wr, wi := T(1), T(0)
	if tw != nil {
		wr, wi = tw[0], tw[1]
	}
	n := s.run
	ar, ai, br, bi := src.re[:n], src.im[:n], src.re[s.srcStride:][:n], src.im[s.srcStride:][:n]
	xr, xi, yr, yi := dst.re[:n], dst.im[:n], dst.re[s.dstStride:][:n], dst.im[s.dstStride:][:n]
	for i, a := range ar {
		ai, br, bi := ai[i], br[i], bi[i]
		xr[i], xi[i] = a+br, ai+bi
		a, ai = a-br, ai-bi
		yr[i], yi[i] = a*wr-ai*wi, a*wi+ai*wr
	}
}

func pass4InGo[T float32 | float64](_ int, dst, src planes[T], tw []T, s passShape) {
	w := [6]T{1, 0, 1, 0, 1, 0}
	if tw != nil {
		w = [6]T(tw)
	}
	n := s.run
	var sr, si, dr, di [4][]T
	for j := range sr {
		sr[j], si[j] = src.re[j*s.srcStride:][:n], src.im[j*s.srcStride:][:n]
		dr[j], di[j] = dst.re[j*s.dstStride:][:n], dst.im[j*s.dstStride:][:n]
	}
	for i := range n {
		ar, ai, br, bi := sr[0][i], si[0][i], sr[1][i], si[1][i]
		cr, ci, er, ei := sr[2][i], si[2][i], sr[3][i], si[3][i]
		pr, pi, qr, qi := ar+cr, ai+ci, ar-cr, ai-ci
		ur, ui, vr, vi := br+er, bi+ei, bi-ei, er-br // v = -i(b - e)
		dr[0][i], di[0][i] = pr+ur, pi+ui
		xr, xi := qr+vr, qi+vi
		dr[1][i], di[1][i] = xr*w[0]-xi*w[1], xr*w[1]+xi*w[0]
		xr, xi = pr-ur, pi-ui
		dr[2][i], di[2][i] = xr*w[2]-xi*w[3], xr*w[3]+xi*w[2]
		xr, xi = qr-vr, qi-vi
		dr[3][i], di[3][i] = xr*w[4]-xi*w[5], xr*w[5]+xi*w[4]
	}
}

// oddRoots holds the cosines and sines of 2 pi k/r by r, for odd r.
var oddRoots = func() (all [8][2][8]float64) {
	for r := 3; r < 8; r += 2 {
		for k := range r {
			re, im := root(k, r)
			all[r][0][k], all[r][1][k] = re, -im
		}
	}
	return all
}()

// oddInGo is pass for an odd radix. It adds and subtracts numbers j and r-j once for all sums.
func oddInGo[T float32 | float64](r int, dst, src planes[T], tw []T, s passShape) {
	half := r / 2
	var cos, sin [3][3]T // of 2 pi jk/r
	for j := range half {
		for k := range half {
			at := (j + 1) * (k + 1) % r
			cos[k][j], sin[k][j] = T(oddRoots[r][0][at]), T(oddRoots[r][1][at])
		}
	}
	w := [12]T{1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}
	copy(w[:], tw)
	for i := range s.run {
		x, y := src.re[i], src.im[i]
		var pr, pi, qr, qi [3]T
		dr, di := x, y
		for j := range half {
			a, b := (j+1)*s.srcStride+i, (r-1-j)*s.srcStride+i
			ar, ai, br, bi := src.re[a], src.im[a], src.re[b], src.im[b]
			pr[j], pi[j], qr[j], qi[j] = ar+br, ai+bi, ar-br, ai-bi
			dr, di = dr+pr[j], di+pi[j]
		}
		dst.re[i], dst.im[i] = dr, di
		for k := range half {
			er, ei, or, oi := x, y, T(0), T(0)
			for j := range half {
				c, d := cos[k][j], sin[k][j]
				er, ei, or, oi = er+c*pr[j], ei+c*pi[j], or+d*qi[j], oi-d*qr[j]
			}
			a, b := (k+1)*s.dstStride+i, (r-1-k)*s.dstStride+i
			xr, xi, yr, yi := er+or, ei+oi, er-or, ei-oi
			wr, wi := w[2*k], w[2*k+1]
			dst.re[a], dst.im[a] = xr*wr-xi*wi, xr*wi+xi*wr
			wr, wi = w[2*(r-2-k)], w[2*(r-2-k)+1]
			dst.re[b], dst.im[b] = yr*wr-yi*wi, yr*wi+yi*wr
		}
	}
}
