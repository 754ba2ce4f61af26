package kernels

type (
	fftPassAsm     = func(dre, dim, sre, sim, tw *float32, count, run, srcStride, srcNext, dstStride, dstNext int)
	fftMultiplyAsm = func(dre, dim, are, aim, bre, bim *float32, blocks int)
	fftSplitAsm    = func(xkre, xkim, xhre, xhim, zkre, zkim, zhre, zhim, wr, wi *float32, scale float32, count int)
)

// setFFT gives a set its inner loops of transforms. pass and plain are indexed by radix; plain has no twiddle factors.
func (s *isa) setFFT(pass, plain [8]fftPassAsm, multiply fftMultiplyAsm, split, halves fftSplitAsm) *isa {
	inGo := fftRoutinesInGo[float32]()
	f := &fftRoutines[float32]{lanes: s.lanes, scale: inGo.scale}
	f.pass = func(r int, dst, src planes[float32], tw []float32, c passShape) {
		if c.run < s.lanes || c.count < 1 {
			panic("BUG: fft: a run is shorter than a vector")
		}
		from, to := (c.count-1)*c.srcStep+(r-1)*c.srcStride+c.run, (c.count-1)*c.dstStep+(r-1)*c.dstStride+c.run
		_, _, _, _ = src.re[from-1], src.im[from-1], dst.re[to-1], dst.im[to-1]
		p := plain[r]
		if tw != nil {
			p = pass[r]
			_ = tw[2*(r-1)*c.count-1]
		}
		last := c.run - s.lanes
		p(&dst.re[0], &dst.im[0], &src.re[0], &src.im[0], head(tw), c.count, 4*c.run, 4*c.srcStride, 4*(c.srcStep-last),
			4*c.dstStride, 4*(c.dstStep-last))
	}
	f.multiply = func(dst, a, b planes[float32], n int) {
		blocks := n / s.lanes
		if done := blocks * s.lanes; done > 0 {
			_, _, _, _, _, _ = dst.re[done-1], dst.im[done-1], a.re[done-1], a.im[done-1], b.re[done-1], b.im[done-1]
			multiply(&dst.re[0], &dst.im[0], &a.re[0], &a.im[0], &b.re[0], &b.im[0], blocks)
			dst, a, b, n = dst.from(done), a.from(done), b.from(done), n-done
		}
		inGo.multiply(dst, a, b, n)
	}
	f.split = func(xk, xh, zk, zh planes[float32], back int, w planes[float32], scale float32) {
		n, h := len(w.re), back*s.lanes
		for _, x := range [...]planes[float32]{xk, zk} {
			_, _ = x.re[n*s.lanes-1], x.im[n*s.lanes-1]
		}
		for _, x := range [...]planes[float32]{xh, zh} {
			_, _ = x.re[h+s.lanes-1], x.im[h+s.lanes-1]
		}
		_, _ = w.im[n-1], xh.re[(back-n+1)*s.lanes]
		split(&xk.re[0], &xk.im[0], &xh.re[h], &xh.im[h], &zk.re[0], &zk.im[0], &zh.re[h], &zh.im[h], &w.re[0],
			&w.im[0], scale, n)
	}
	f.halves = func(x, z planes[float32], h, k, n int, w planes[float32], scale float32) int {
		blocks := n / s.lanes
		if blocks == 0 {
			return 0
		}
		n, last := blocks*s.lanes, h-k-s.lanes+1 // last is where the counterparts of the first vector are
		for _, p := range [...]planes[float32]{x, z} {
			_, _, _, _ = p.re[h-k], p.im[h-k], p.re[k+n-1], p.im[k+n-1]
		}
		_, _ = w.re[k+n-1], w.im[k+n-1]
		halves(&x.re[k], &x.im[k], &x.re[last], &x.im[last], &z.re[k], &z.im[k], &z.re[last], &z.im[last], &w.re[k],
			&w.im[k], scale, blocks)
		return n
	}
	f.evens = func(dst, src []float32) { s.evens(dst, src) }
	f.zip = func(dst, a, b []float32) { s.zip(dst, a, b) }
	// If rows or columns do not fill vectors, the last vectors overlap the ones before.
	f.transpose = func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
		for i := 0; i < rows; i += s.lanes {
			i := min(i, rows-s.lanes)
			whole := cols / s.lanes * s.lanes
			s.transpose(dst[i:], ldd, src[i*lds:], lds, s.lanes, whole)
			if whole < cols {
				j := cols - s.lanes
				s.transpose(dst[j*ldd+i:], ldd, src[i*lds+j:], lds, s.lanes, s.lanes)
			}
		}
	}
	s.fft = f
	return s
}
