package stored

import (
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
)

type (
	packedDotAsm    func(dst *float32, lead int, w *byte, gap, stride, rows int, x, sums *float32, blocks int)
	packedDecodeAsm func(dst *float32, w *byte, blocks int)
)

func packedOf(d dtype.DType, dot packedDotAsm, decode packedDecodeAsm) PackedRoutines {
	r := decodedBy(d, decode)
	r.Dot = func(dst []float32, w []byte, stride int, x, sums []float32) {
		if len(dst) == 0 {
			return
		}
		blocks := len(x) / d.Values()
		_, _ = w[(len(dst)-1)*stride+blocks*d.Size()-1], sums[len(x)/32-1]
		EachStream(len(dst), stride, func(at, lead, gap, rows int) {
			dot(&dst[at], lead, &w[at*stride], gap, stride, rows, &x[0], &sums[0], blocks)
		})
	}
	return r
}

// f16Values returns the value of every f16.
var f16Values = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = dtype.F16ToF32(uint16(i))
	}
	return t
})

// dotQ4_0Wide is dotQ4_0AVX512 with the table that it looks scales up in.
func dotQ4_0Wide(dst *float32, lead int, w *byte, gap, stride, rows int, x, sums *float32, blocks int) {
	dotQ4_0AVX512(dst, lead, w, gap, stride, rows, x, sums, &f16Values()[0], blocks)
}

// decodedBy returns the routines of a type without dot: products widen its blocks first.
func decodedBy(d dtype.DType, decode packedDecodeAsm) PackedRoutines {
	return PackedRoutines{Decode: func(dst []float32, w []byte) {
		blocks := len(dst) / d.Values()
		_ = w[blocks*d.Size()-1]
		decode(&dst[0], &w[0], blocks)
	}}
}

// prefetchAhead is the distance in bytes at which products of few rows prefetch each of DotStreams streams of weights.
// Assembly reads it. Intel's own prefetchers stop at the end of a page, so the distance is a page. AMD's go on if they
// see reads early, so a short distance is enough: 24 cache lines in all, which is how many reads the first-level cache
// of Zen 4 can wait for. product.BenchmarkMatrixVector is slower there with greater distances.
//
//lint:ignore U1000 only assembly reads it
var prefetchAhead = PrefetchAhead()

// PrefetchAhead returns prefetchAhead for this processor.
func PrefetchAhead() uint64 {
	const auth = 0x68747541 // the beginning of "AuthenticAMD"
	if cpuVendor() == auth {
		return 24 * 64 / DotStreams
	}
	return 4096
}

// dotHalvesOf adapts a routine for rows of whole vectors. For rows of other lengths, the returned function does nothing
// and reports false.
func dotHalvesOf(lanes int, f func(dst *float32, lead int, w *uint16, gap, stride, rows int, x *float32, vectors int),
) func(dst []float32, w []uint16, ld int, x []float32) bool {
	return func(dst []float32, w []uint16, ld int, x []float32) bool {
		if len(dst) == 0 || len(x) == 0 || len(x)%lanes != 0 {
			return false
		}
		_ = w[(len(dst)-1)*ld+len(x)-1]
		EachStream(len(dst), 2*ld, func(at, lead, gap, rows int) {
			f(&dst[at], lead, &w[at*ld], gap, 2*ld, rows, &x[0], len(x)/lanes)
		})
		return true
	}
}

func packedAVX2() map[dtype.DType]PackedRoutines {
	return map[dtype.DType]PackedRoutines{
		dtype.Q8_0:   packedOf(dtype.Q8_0, dotQ8_0AVX2, decodeQ8_0AVX2),
		dtype.Q4_0:   packedOf(dtype.Q4_0, dotQ4_0AVX2, decodeQ4_0AVX2),
		dtype.Q4_K:   packedOf(dtype.Q4_K, dotQ4_KAVX2, decodeQ4_KAVX2),
		dtype.Q6_K:   packedOf(dtype.Q6_K, dotQ6_KAVX2, decodeQ6_KAVX2),
		dtype.Q4_1:   decodedBy(dtype.Q4_1, decodeQ4_1AVX2),
		dtype.Q5_0:   decodedBy(dtype.Q5_0, decodeQ5_0AVX2),
		dtype.Q5_1:   decodedBy(dtype.Q5_1, decodeQ5_1AVX2),
		dtype.Q2_K:   decodedBy(dtype.Q2_K, decodeQ2_KAVX2),
		dtype.Q3_K:   decodedBy(dtype.Q3_K, decodeQ3_KAVX2),
		dtype.Q5_K:   decodedBy(dtype.Q5_K, decodeQ5_KAVX2),
		dtype.Q8_K:   decodedBy(dtype.Q8_K, decodeQ8_KAVX2),
		dtype.IQ4_NL: decodedBy(dtype.IQ4_NL, decodeIQ4_NLAVX2),
		dtype.IQ4_XS: decodedBy(dtype.IQ4_XS, decodeIQ4_XSAVX2),
		dtype.MXFP4:  decodedBy(dtype.MXFP4, decodeMXFP4AVX2),
	}
}

func packedAVX512() map[dtype.DType]PackedRoutines {
	q6 := packedOf(dtype.Q6_K, dotQ6_KAVX512, decodeQ6_KAVX512)
	q6.Arrange = arrangeQuads
	return map[dtype.DType]PackedRoutines{
		dtype.Q8_0: packedOf(dtype.Q8_0, dotQ8_0AVX512, decodeQ8_0AVX512),
		dtype.Q4_0: packedOf(dtype.Q4_0, dotQ4_0Wide, decodeQ4_0AVX512),
		dtype.Q4_K: packedOf(dtype.Q4_K, dotQ4_KAVX512, decodeQ4_KAVX512), dtype.Q6_K: q6,
		dtype.Q4_1:   decodedBy(dtype.Q4_1, decodeQ4_1AVX512),
		dtype.Q5_0:   decodedBy(dtype.Q5_0, decodeQ5_0AVX512),
		dtype.Q5_1:   decodedBy(dtype.Q5_1, decodeQ5_1AVX512),
		dtype.Q2_K:   decodedBy(dtype.Q2_K, decodeQ2_KAVX512),
		dtype.Q3_K:   decodedBy(dtype.Q3_K, decodeQ3_KAVX512),
		dtype.Q5_K:   decodedBy(dtype.Q5_K, decodeQ5_KAVX512),
		dtype.Q8_K:   decodedBy(dtype.Q8_K, decodeQ8_KAVX512),
		dtype.IQ4_NL: decodedBy(dtype.IQ4_NL, decodeIQ4_NLAVX512),
		dtype.IQ4_XS: decodedBy(dtype.IQ4_XS, decodeIQ4_XSAVX512),
		dtype.MXFP4:  decodedBy(dtype.MXFP4, decodeMXFP4AVX512),
	}
}
