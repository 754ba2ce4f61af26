package product

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// dotBytesNEONSet returns the products of packed weights with rounded activations. SDOT takes signed bytes, so there is
// no excess.
func dotBytesNEONSet() map[dtype.DType]byteDot {
	return map[dtype.DType]byteDot{
		dtype.Q8_0: dotBytesOf(dtype.Q8_0, dotBytesQ8_0NEON), dtype.Q4_0: dotBytesOf(dtype.Q4_0, dotBytesQ4_0NEON),
		dtype.Q4_K: dotBytesOf(dtype.Q4_K, dotBytesQ4_KNEON), dtype.Q6_K: dotBytesOf(dtype.Q6_K, dotBytesQ6_KNEON),
	}
}

func dotBytesOf(
	d dtype.DType, f func(dst *float32, lead int, w *byte, gap, stride, rows int, x *int8, dx, xs *float32,
		blocks int)) byteDot {
	return byteDot{dot: func(dst []float32, w []byte, stride int, x *roundedRow) {
		if len(dst) == 0 {
			return
		}
		k := len(x.q)
		blocks := k / d.Values()
		_, _, _ = w[(len(dst)-1)*stride+blocks*d.Size()-1], x.scale[k/32-1], x.sums[k/32-1]
		stored.EachStream(len(dst), stride, func(at, lead, gap, rows int) {
			f(&dst[at], lead, &w[at*stride], gap, stride, rows, &x.q[0], &x.scale[0], &x.sums[0], blocks)
		})
	}}
}

// integerFormatsNEON returns the formats that products of many rows unpack to bytes.
func integerFormatsNEON() map[dtype.DType]integerFormat {
	return map[dtype.DType]integerFormat{
		dtype.Q8_0: unpackOf(dtype.Q8_0, 32, false, unpackQ8_0NEON),
		dtype.Q4_0: unpackOf(dtype.Q4_0, 32, false, unpackQ4_0NEON),
		dtype.Q4_K: unpackOf(dtype.Q4_K, 32, true, unpackQ4_KNEON),
		dtype.Q6_K: unpackOf(dtype.Q6_K, 16, false, unpackQ6_KNEON),
	}
}

func unpackOf(d dtype.DType, group int, lows bool,
	f func(q *int8, scale, low *float32, w *byte, blocks int)) integerFormat {
	return integerFormat{group: group, lows: lows, dots: packedDotRows, multiply: multiplyIntegersNEON,
		unpack: func(q []int8, scale, low []float32, w []byte) {
			blocks := len(q) / d.Values()
			if blocks == 0 {
				return
			}
			groups := blocks * d.Values() / group
			_, _, _ = w[blocks*d.Size()-1], scale[groups-1], low[groups-1]
			f(&q[0], &scale[0], &low[0], &w[0], blocks)
		}}
}

func multiplyIntegersNEON(r groupProduct) {
	r.check()
	fours := (r.rows + 3) / 4
	switch {
	case r.low != nil:
		integers32LowNEON(fours, r.groups, &r.a[0], &r.b[0], &r.dx[0], &r.xs[0], &r.dw[0], &r.low[0], &r.c[0], r.ldc,
			r.resumes())
	case r.group == 16:
		integers16NEON(fours, r.groups, &r.a[0], &r.b[0], &r.dx[0], nil, &r.dw[0], nil, &r.c[0], r.ldc, r.resumes())
	default:
		integers32NEON(fours, r.groups, &r.a[0], &r.b[0], &r.dx[0], nil, &r.dw[0], nil, &r.c[0], r.ldc, r.resumes())
	}
}
