package scan

import "github.com/rlx-go/rlx/plugins/cpu/kernels/isa"

func init() {
	recTable.Add(isa.AVX2, func() *strips {
		return stripsOf(isa.AVX2.Lanes, deltaStepAVX2, scanDecayAVX2, scanStepAVX2, tapsAVX2)
	})
	recTable.Add(isa.AVX512, func() *strips {
		return stripsOf(isa.AVX512.Lanes, deltaStepAVX512, scanDecayAVX512, scanStepAVX512, tapsAVX512)
	})
}

// stripsOf adapts a set's routines of recurrences. For the index expressions see native.go.
func stripsOf(lanes int, delta func(s *float32, n int, q, k, v, o *float32, decay, beta, scale float32),
	decay func(dst, a, delta *float32, rows, vectors int),
	scan func(s, decay, dx, b, c, y *float32, rows, vectors int),
	taps func(dst, bias, x *float32, ldx int, w *float32, ldw, k, vectors int)) *strips {
	width := 4 * lanes
	return &strips{
		deltaWidth: width,
		delta: func(s, q, k, v, o []float32, d, beta, scale float32) {
			n := len(k)
			_, _, _, _ = s[n*width-1], q[n-1], v[width-1], o[width-1]
			delta(&s[0], n, &q[0], &k[0], &v[0], &o[0], d, beta, scale)
		},
		decay: func(dst, a, delta []float32) {
			n := len(delta)
			_ = a[len(dst)-1]
			decay(&dst[0], &a[0], &delta[0], len(dst)/n, n/lanes)
		},
		scan: func(s, decay, dx, b, c, y []float32) {
			n, rows := len(y), len(b)
			_, _, _, _ = s[n*rows-1], decay[n*rows-1], dx[n-1], c[rows-1]
			scan(&s[0], &decay[0], &dx[0], &b[0], &c[0], &y[0], rows, n/lanes)
		},
		taps: func(dst, bias, x []float32, ldx int, w []float32, ldw, k int) {
			n := len(dst)
			_, _, _ = bias[n-1], x[(k-1)*ldx+n-1], w[(k-1)*ldw+n-1]
			taps(&dst[0], &bias[0], &x[0], ldx, &w[0], ldw, k, n/lanes)
		},
	}
}
