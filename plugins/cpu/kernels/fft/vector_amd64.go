package fft

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

type (
	fftPassAsm     = func(dre, dim, sre, sim, tw *float32, count, run, srcStride, srcNext, dstStride, dstNext int)
	fftMultiplyAsm = func(dre, dim, are, aim, bre, bim *float32, blocks int)
	fftSplitAsm    = func(xkre, xkim, xhre, xhim, zkre, zkim, zhre, zhim, wr, wi *float32, scale float32, count int)
)

// fftOf adapts the inner loops of transforms. pass and plain are indexed by radix; plain has no twiddle factors.
func fftOf(s *isa.Set, pass, plain [8]fftPassAsm, multiply fftMultiplyAsm, split,
	halves fftSplitAsm) *routines[float32] {
	inGo := inGo[float32]()
	f := &routines[float32]{lanes: s.Lanes, scale: inGo.scale}
	f.pass = func(r int, dst, src planes[float32], tw []float32, c passShape) {
		if c.run < s.Lanes || c.count < 1 {
			panic("BUG: fft: a run is shorter than a vector")
		}
		from, to := (c.count-1)*c.srcStep+(r-1)*c.srcStride+c.run, (c.count-1)*c.dstStep+(r-1)*c.dstStride+c.run
		_, _, _, _ = src.re[from-1], src.im[from-1], dst.re[to-1], dst.im[to-1]
		p := plain[r]
		if tw != nil {
			p = pass[r]
			_ = tw[2*(r-1)*c.count-1]
		}
		last := c.run - s.Lanes
		p(&dst.re[0], &dst.im[0], &src.re[0], &src.im[0], isa.Head(tw), c.count, 4*c.run, 4*c.srcStride,
			4*(c.srcStep-last),
			4*c.dstStride, 4*(c.dstStep-last))
	}
	f.multiply = func(dst, a, b planes[float32], n int) {
		blocks := n / s.Lanes
		if done := blocks * s.Lanes; done > 0 {
			_, _, _, _, _, _ = dst.re[done-1], dst.im[done-1], a.re[done-1], a.im[done-1], b.re[done-1], b.im[done-1]
			multiply(&dst.re[0], &dst.im[0], &a.re[0], &a.im[0], &b.re[0], &b.im[0], blocks)
			dst, a, b, n = dst.from(done), a.from(done), b.from(done), n-done
		}
		inGo.multiply(dst, a, b, n)
	}
	f.split = func(xk, xh, zk, zh planes[float32], back int, w planes[float32], scale float32) {
		n, h := len(w.re), back*s.Lanes
		for _, x := range [...]planes[float32]{xk, zk} {
			_, _ = x.re[n*s.Lanes-1], x.im[n*s.Lanes-1]
		}
		for _, x := range [...]planes[float32]{xh, zh} {
			_, _ = x.re[h+s.Lanes-1], x.im[h+s.Lanes-1]
		}
		_, _ = w.im[n-1], xh.re[(back-n+1)*s.Lanes]
		split(&xk.re[0], &xk.im[0], &xh.re[h], &xh.im[h], &zk.re[0], &zk.im[0], &zh.re[h], &zh.im[h], &w.re[0],
			&w.im[0], scale, n)
	}
	f.halves = func(x, z planes[float32], h, k, n int, w planes[float32], scale float32) int {
		blocks := n / s.Lanes
		if blocks == 0 {
			return 0
		}
		n, last := blocks*s.Lanes, h-k-s.Lanes+1 // last is where the counterparts of the first vector are
		for _, p := range [...]planes[float32]{x, z} {
			_, _, _, _ = p.re[h-k], p.im[h-k], p.re[k+n-1], p.im[k+n-1]
		}
		_, _ = w.re[k+n-1], w.im[k+n-1]
		halves(&x.re[k], &x.im[k], &x.re[last], &x.im[last], &z.re[k], &z.im[k], &z.re[last], &z.im[last], &w.re[k],
			&w.im[k], scale, blocks)
		return n
	}
	f.evens = func(dst, src []float32) { vec.On(s).Evens(dst, src) }
	f.zip = func(dst, a, b []float32) { vec.On(s).Zip(dst, a, b) }
	// If rows or columns do not fill vectors, the last vectors overlap the ones before.
	f.transpose = func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
		for row := 0; row < rows; row += s.Lanes {
			i := min(row, rows-s.Lanes)
			whole := cols / s.Lanes * s.Lanes
			vec.On(s).Transpose(dst[i:], ldd, src[i*lds:], lds, s.Lanes, whole)
			if whole < cols {
				j := cols - s.Lanes
				vec.On(s).Transpose(dst[j*ldd+i:], ldd, src[i*lds+j:], lds, s.Lanes, s.Lanes)
			}
		}
	}
	return f
}

func init() {
	table.Add(isa.AVX2, func() *routines[float32] {
		return fftOf(isa.AVX2,
			[8]fftPassAsm{2: fftPass2AVX2, 3: fftPass3AVX2, 4: fftPass4AVX2, 5: fftPass5AVX2, 7: fftPass7AVX2},
			[8]fftPassAsm{2: fftPlain2AVX2, 3: fftPlain3AVX2, 4: fftPlain4AVX2, 5: fftPlain5AVX2, 7: fftPlain7AVX2},
			fftMultiplyAVX2, fftSplitAVX2, fftHalvesAVX2)
	})
	table.Add(isa.AVX512, func() *routines[float32] {
		return fftOf(isa.AVX512,
			[8]fftPassAsm{2: fftPass2AVX512, 3: fftPass3AVX512, 4: fftPass4AVX512, 5: fftPass5AVX512,
				7: fftPass7AVX512},
			[8]fftPassAsm{2: fftPlain2AVX512, 3: fftPlain3AVX512, 4: fftPlain4AVX512, 5: fftPlain5AVX512,
				7: fftPlain7AVX512}, fftMultiplyAVX512, fftSplitAVX512, fftHalvesAVX512)
	})
}
