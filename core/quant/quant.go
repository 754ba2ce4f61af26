// Package quant converts between the blocks of packed element types (dtype.Packed) and float32 values. The formats are
// those of GGUF files; spec/format.md describes them.
//
// It imports only core/dtype.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// format is a packed element type.
type format struct {
	decode func(dst []float32, b []byte)
	// halves has the offsets of scales that are stored as f16.
	halves []int
}

// formats has the format of each packed type.
var formats = map[dtype.DType]format{
	dtype.Q4_0: {decodeQ4_0, []int{0}}, dtype.Q4_1: {decodeQ4_1, []int{0, 2}},
	dtype.Q5_0: {decodeQ5_0, []int{0}}, dtype.Q5_1: {decodeQ5_1, []int{0, 2}}, dtype.Q8_0: {decodeQ8_0, []int{0}},
	dtype.Q2_K: {decodeQ2_K, []int{80, 82}}, dtype.Q3_K: {decodeQ3_K, []int{108}},
	dtype.Q4_K: {decodeQ4_K, []int{0, 2}},
	dtype.Q5_K: {decodeQ5_K, []int{0, 2}}, dtype.Q6_K: {decodeQ6_K, []int{208}}, dtype.Q8_K: {decodeQ8_K, nil},
	dtype.IQ4_NL: {decodeIQ4_NL, []int{0}}, dtype.IQ4_XS: {decodeIQ4_XS, []int{0}}, dtype.MXFP4: {decodeMXFP4, nil},
}

// Decode sets dst to the values of the blocks in src. There is one block for each d.Values() values. Each value is
// rounded to float32 once.
func Decode(dst []float32, d dtype.DType, src []byte) {
	f, size, values := formatOf(d), d.Size(), d.Values()
	if len(dst)%values != 0 || len(src) != len(dst)/values*size {
		panic(fmt.Sprintf("BUG: quant: %d values of %d bytes of %v", len(dst), len(src), d))
	}
	for ; len(dst) > 0; dst, src = dst[values:], src[size:] {
		f.decode(dst[:values:values], src[:size:size])
	}
}

// Random fills b with random blocks. The bits come from next; scales are such that values lie between about -2 and 2.
func Random(b []byte, d dtype.DType, next func() uint32) { RandomPiece(b, d, next, next) }

// RandomDraws returns how many random numbers Random takes for n blocks: first those for their bytes, then those for
// their scales.
func RandomDraws(d dtype.DType, n int64) (bytes, scales int64) {
	scales = int64(len(formatOf(d).halves))
	if d == dtype.Q8_K {
		scales++
	}
	return n * int64(d.Size()), n * scales
}

// RandomPiece is like Random, for a range of the blocks of a tensor. bytes and scales return the random numbers for the
// bytes and for the scales, beginning with those of the first block of the range.
func RandomPiece(b []byte, d dtype.DType, bytes, next func() uint32) {
	f, size := formatOf(d), d.Size()
	for i := range b {
		b[i] = byte(bytes())
	}
	most := float32(2) / float32(scaleSteps(d))
	scale := func() float32 { return (float32(next()>>8)/(1<<23) - 1) * most }
	for ; len(b) > 0; b = b[size:] {
		for _, at := range f.halves {
			binary.LittleEndian.PutUint16(b[at:], dtype.F32ToF16(scale()))
		}
		switch d {
		case dtype.Q8_K:
			binary.LittleEndian.PutUint32(b, math.Float32bits(scale()))
			for g := range 16 {
				sum := int16(0)
				for _, q := range b[4+16*g : 20+16*g] {
					sum += int16(int8(q))
				}
				binary.LittleEndian.PutUint16(b[260+2*g:], uint16(sum))
			}
		case dtype.MXFP4:
			b[0] = 122 + b[0]%6
		}
	}
}

// scaleSteps returns approximately the largest value of a block whose scale is 1.
func scaleSteps(d dtype.DType) int {
	switch d {
	case dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1:
		return 16
	case dtype.Q8_0, dtype.Q8_K, dtype.IQ4_NL, dtype.Q2_K, dtype.Q3_K:
		return 128
	case dtype.Q4_K:
		return 63 * 15
	case dtype.Q5_K:
		return 63 * 31
	}
	return 128 * 32
}

func formatOf(d dtype.DType) format {
	f, ok := formats[d]
	if !ok {
		panic("BUG: quant: " + d.String() + " is no packed type")
	}
	return f
}

// half returns the f16 at the start of b as a float32.
func half(b []byte) float32 { return dtype.F16ToF32(binary.LittleEndian.Uint16(b)) }
