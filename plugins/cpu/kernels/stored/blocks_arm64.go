package stored

import "github.com/rlx-go/rlx/core/dtype"

// packedNEON returns the routines for packed weights. Loops in Go decode the other types.
func packedNEON() map[dtype.DType]PackedRoutines {
	const q8, q4, q4k, q6k = dtype.Q8_0, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K
	return map[dtype.DType]PackedRoutines{
		q8:  {Dot: packedDotOf(q8, dotQ8_0NEON), Decode: packedDecodeOf(q8, decodeQ8_0NEON)},
		q4:  {Dot: packedDotOf(q4, dotQ4_0NEON), Decode: packedDecodeOf(q4, decodeQ4_0NEON)},
		q4k: {Dot: packedDotOf(q4k, dotQ4_KNEON), Decode: packedDecodeOf(q4k, decodeQ4_KNEON)},
		q6k: {Dot: packedDotOf(q6k, dotQ6_KNEON), Decode: packedDecodeOf(q6k, decodeQ6_KNEON)},
	}
}

func packedDotOf(
	d dtype.DType, f func(dst *float32, lead int, w *byte, gap, stride, rows int, x, sums *float32, blocks int),
) func(dst []float32, w []byte, stride int, x, sums []float32) {
	return func(dst []float32, w []byte, stride int, x, sums []float32) {
		if len(dst) == 0 {
			return
		}
		blocks := len(x) / d.Values()
		_, _ = w[(len(dst)-1)*stride+blocks*d.Size()-1], sums[len(x)/32-1]
		EachStream(len(dst), stride, func(at, lead, gap, rows int) {
			f(&dst[at], lead, &w[at*stride], gap, stride, rows, &x[0], &sums[0], blocks)
		})
	}
}

func packedDecodeOf(d dtype.DType, f func(dst *float32, w *byte, blocks int)) func(dst []float32, w []byte) {
	return func(dst []float32, w []byte) {
		blocks := len(dst) / d.Values()
		_ = w[blocks*d.Size()-1]
		f(&dst[0], &w[0], blocks)
	}
}
