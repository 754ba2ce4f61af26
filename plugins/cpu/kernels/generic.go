package kernels

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// genericISA returns the portable set, in plain Go. Transcendental functions are computed in float64.
func genericISA() *isa {
	const lanes = 4
	s := &isa{
		name: "generic", lanes: lanes, mr: 4, panel: genericPanel(2 * lanes), narrow: genericPanel(lanes),
		transpose: func(dst []float32, ldd int, src []float32, lds int, rows, cols int) {
			for i := range rows {
				for j, x := range src[i*lds : i*lds+cols] {
					dst[j*ldd+i] = x
				}
			}
		},
		copyRows: func(dst []float32, ldd int, src []float32, lds int, rows int) {
			for i := range rows {
				copy(dst[i*ldd:][:lanes], src[i*lds:][:lanes])
			}
		},
		reverse: reverseInGo[float32],
		dotRows: func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32) {
			for i := range rows {
				dst[i*inc] = dotGeneric(mat[i*ld:][:len(x)], x)
			}
		},
		widenF16:   mapOf(dtype.F16ToF32),
		widenBF16:  mapOf(dtype.BF16ToF32),
		narrowF16:  mapOf(dtype.F32ToF16),
		narrowBF16: mapOf(dtype.F32ToBF16),
		round:      mapOf(roundBF16),
		choose:     chooseGeneric,
		strips:     stripsInGo(),
		sum: func(x []float32) float32 {
			s := 0.0
			for _, v := range x {
				s += float64(v)
			}
			return float32(s)
		},
		deviations: func(x []float32, mean float32) (distance, squares float32) {
			s, t := 0.0, 0.0
			for _, v := range x {
				d := float64(mean) - float64(v)
				s += d
				t += d * d
			}
			return float32(s), float32(t)
		},
		normalize: func(dst, x, gamma, beta []float32, mean, scale, shift float32) {
			for i, v := range x {
				dst[i] = ((v-mean)*scale+shift)*gamma[i] + beta[i]
			}
		},
	}
	s.setElementwiseInGo()
	return s.setStencilsInGo().setIntegersInGo()
}

func genericPanel(nr int) panel {
	return panel{
		nr: nr,
		gemm: func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int) {
			gemmGeneric(nr, rows, k, a, b, c, ldc, accumulate, bias, residual, ldr)
		},
		scoreMax: func(s []float32, scale float32, max []float32) {
			for j := range s {
				s[j] *= scale
				raise(&max[j%nr], s[j])
			}
		},
		scoreBiasMax: func(s []float32, scale float32, row, each, max []float32) {
			for j := range s {
				s[j] = s[j]*scale + row[j%nr] + each[j]
				raise(&max[j%nr], s[j])
			}
		},
		expSum: func(s []float32, max, sum []float32) {
			for j := range s {
				s[j] = float32(math.Exp2(float64(s[j] - max[j%nr])))
				sum[j%nr] += s[j]
			}
		},
		scaleRows: func(x []float32, by []float32) {
			for j := range x {
				x[j] *= by[j%nr]
			}
		},
	}
}

func mapOf[D, S any](f func(S) D) func([]D, []S) {
	return func(dst []D, src []S) {
		dst = dst[:len(src)]
		for i, x := range src {
			dst[i] = f(x)
		}
	}
}

// raise sets max to x if x is larger. NaN is never larger.
func raise(max *float32, x float32) {
	if x > *max {
		*max = x
	}
}

func dotGeneric(a, b []float32) float32 {
	var s [4]float32
	b = b[:len(a)]
	for len(a) >= 4 {
		s[0] += a[0] * b[0]
		s[1] += a[1] * b[1]
		s[2] += a[2] * b[2]
		s[3] += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, x := range a {
		s[0] += x * b[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// gemmGeneric computes two rows by four columns at a time: most processors have registers for that many sums.
func gemmGeneric(nr, rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int) {
	var tile [4][8]float32
	for i := 0; i < rows; i += 2 {
		second := min(i+1, rows-1) // if rows is odd, the last one is computed twice
		for j := 0; j < nr; j += 4 {
			var s00, s01, s02, s03, s10, s11, s12, s13 float32
			for l := range k {
				bl := b[l*nr+j : l*nr+j+4 : l*nr+j+4]
				x, y := a[l*rows+i], a[l*rows+second]
				s00 += x * bl[0]
				s01 += x * bl[1]
				s02 += x * bl[2]
				s03 += x * bl[3]
				s10 += y * bl[0]
				s11 += y * bl[1]
				s12 += y * bl[2]
				s13 += y * bl[3]
			}
			tile[i][j], tile[i][j+1], tile[i][j+2], tile[i][j+3] = s00, s01, s02, s03
			tile[second][j], tile[second][j+1], tile[second][j+2], tile[second][j+3] = s10, s11, s12, s13
		}
	}
	for i := range rows {
		finishRow(c[i*ldc:][:nr], tile[i][:], accumulate, bias, rowOf(residual, i, ldr))
	}
}

func rowOf(x []float32, i, ld int) []float32 {
	if x == nil {
		return nil
	}
	return x[i*ld:]
}

// finishRow stores one row of sums, with the additions in the order of isa.gemm. c may be shorter than acc.
func finishRow(c, acc []float32, accumulate bool, bias, residual []float32) {
	for j := range c {
		s := acc[j]
		if accumulate {
			s += c[j]
		}
		if bias != nil {
			s += bias[j]
		}
		if residual != nil {
			s += residual[j]
		}
		c[j] = s
	}
}
