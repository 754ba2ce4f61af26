package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// encoders has the encoder of each element type. It returns false if the format cannot hold the values, because a scale
// would be NaN or infinite as f16.
var encoders = map[dtype.DType]func(b []byte, x []float32) bool{
	dtype.Q8_0: encodeQ8_0, dtype.Q4_0: encodeQ4_0, dtype.Q4_1: encodeQ4_1, dtype.Q5_0: encodeQ5_0,
	dtype.Q5_1: encodeQ5_1,
	dtype.Q4_K: encodeQ4_K, dtype.Q5_K: encodeQ5_K, dtype.Q6_K: encodeQ6_K,
}

// Encodes returns the types that Encode supports.
func Encodes() (out []dtype.DType) {
	for _, d := range dtype.Packed() {
		if encoders[d] != nil {
			out = append(out, d)
		}
	}
	return out
}

// Encode sets dst to blocks of type d with values close to src. d must be one of Encodes. There is one block for each
// d.Values() values. It returns the index of the first block that the format cannot hold, for example because of a NaN
// or an infinity, or -1. The formats of 32 values are rounded like ggml's reference. For those of 256 values, Encode
// searches for the scales with the least squared error. Equal values always give equal blocks.
func Encode(dst []byte, d dtype.DType, src []float32) int {
	values, size, f := d.Values(), d.Size(), encoders[d]
	if f == nil || len(src)%values != 0 || len(dst) != len(src)/values*size {
		panic(fmt.Sprintf("BUG: quant: %d bytes of %v for %d values", len(dst), d, len(src)))
	}
	for i := 0; i < len(src)/values; i++ {
		if !f(dst[i*size:(i+1)*size], src[i*values:(i+1)*values]) {
			return i
		}
	}
	return -1
}

// putHalf stores x as f16.
func putHalf(b []byte, x float32) bool {
	h := dtype.F32ToF16(x)
	binary.LittleEndian.PutUint16(b, h)
	return h&0x7c00 != 0x7c00
}

// extremes returns the smallest and the largest value of x, and the one with the larger magnitude. On a tie far is the
// first of them.
func extremes(x []float32) (lo, hi, far float32) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
		if abs(v) > abs(far) || v != v {
			far = v
		}
	}
	return lo, hi, far
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

func inverse(x float32) float32 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

// level returns x*scale + add, truncated to an integer from 0 to most.
func level(x, scale, add float32, most int) byte {
	return byte(max(0, min(most, int(float32(x*scale)+add))))
}

func encodeQ8_0(b []byte, x []float32) bool {
	_, _, far := extremes(x)
	d := abs(far) / 127
	id := inverse(d)
	for i, v := range x {
		b[2+i] = byte(int8(math.Round(float64(float32(v * id)))))
	}
	return putHalf(b, d)
}

func encodeQ4_0(b []byte, x []float32) bool {
	_, _, far := extremes(x)
	d := far / -8
	id := inverse(d)
	for i := range 16 {
		b[2+i] = level(x[i], id, 8.5, 15) | level(x[16+i], id, 8.5, 15)<<4
	}
	return putHalf(b, d)
}

func encodeQ4_1(b []byte, x []float32) bool {
	lo, hi, _ := extremes(x)
	d := (hi - lo) / 15
	id := inverse(d)
	for i := range 16 {
		b[4+i] = level(x[i]-lo, id, 0.5, 15) | level(x[16+i]-lo, id, 0.5, 15)<<4
	}
	return putHalf(b, d) && putHalf(b[2:], lo)
}

// putFives stores 32 levels of 5 bits: the fifth bits at high, the others at low.
func putFives(high, low []byte, q *[32]byte) {
	var h uint32
	for i := range 16 {
		low[i] = q[i]&15 | q[16+i]<<4
		h |= uint32(q[i]>>4)<<i | uint32(q[16+i]>>4)<<(16+i)
	}
	binary.LittleEndian.PutUint32(high, h)
}

func encodeQ5_0(b []byte, x []float32) bool {
	_, _, far := extremes(x)
	d := far / -16
	id := inverse(d)
	var q [32]byte
	for i, v := range x {
		q[i] = level(v, id, 16.5, 31)
	}
	putFives(b[2:], b[6:], &q)
	return putHalf(b, d)
}

func encodeQ5_1(b []byte, x []float32) bool {
	lo, hi, _ := extremes(x)
	d := (hi - lo) / 31
	id := inverse(d)
	var q [32]byte
	for i, v := range x {
		q[i] = level(v-lo, id, 0.5, 31)
	}
	putFives(b[4:], b[8:], &q)
	return putHalf(b, d) && putHalf(b[2:], lo)
}

func encodeQ4_K(b []byte, x []float32) bool {
	var q [256]byte
	ok := encodeMinimums(b[:16], &q, x, 15)
	for c := range 4 {
		for l := range 32 {
			b[16+32*c+l] = q[64*c+l] | q[64*c+32+l]<<4
		}
	}
	return ok
}

func encodeQ5_K(b []byte, x []float32) bool {
	var q [256]byte
	ok := encodeMinimums(b[:16], &q, x, 31)
	clear(b[16:48])
	for c := range 4 {
		for l := range 32 {
			low, high := q[64*c+l], q[64*c+32+l]
			b[48+32*c+l] = low&15 | high<<4
			b[16+l] |= low>>4<<(2*c) | high>>4<<(2*c+1)
		}
	}
	return ok
}

// encodeMinimums finds scales and minimums for Q4_K and Q5_K. It writes them to the first 16 bytes of a block, and the
// levels to q.
func encodeMinimums(b []byte, q *[256]byte, x []float32, most int) bool {
	var scale, low [8]float32
	var topScale, topLow float32
	for g := range 8 {
		scale[g], low[g] = fitMinimum(x[32*g:32*g+32], most)
		if scale[g] != scale[g] {
			return false
		}
		topScale, topLow = max(topScale, scale[g]), max(topLow, low[g])
	}
	if !putHalf(b, topScale/63) || !putHalf(b[2:], topLow/63) {
		return false
	}
	d, dmin := half(b), half(b[2:])
	t := b[4:16]
	clear(t)
	for g := range 8 {
		s, m := level(scale[g], inverse(d), 0.5, 63), level(low[g], inverse(dmin), 0.5, 63)
		if g < 4 {
			t[g] |= s
			t[4+g] |= m
		} else {
			t[4+g] = s&15 | m<<4
			t[g-4] |= s >> 4 << 6
			t[g] |= m >> 4 << 6
		}
		step, below := d*float32(s), dmin*float32(m)
		for i, v := range x[32*g : 32*g+32] {
			q[32*g+i] = level(v+below, inverse(step), 0.5, most)
		}
	}
	return true
}

// fitMinimum returns the scale and the minimum, both at least 0, for which scale*q - minimum with q from 0 to most is
// closest to x. It rounds with several scales near the obvious one and finds the best scale and minimum for each
// rounding.
func fitMinimum(x []float32, most int) (scale, minimum float32) {
	lo, hi, far := extremes(x)
	lo = min(lo, 0)
	if far != far || far-far != 0 {
		return float32(math.NaN()), 0
	}
	if hi <= lo {
		return 0, -lo
	}
	best := math.Inf(1)
	n := float64(len(x))
	for try := -4; try <= 4; try++ {
		id := (float32(most) + 0.1*float32(try)) / (hi - lo)
		var sq, sqq, sx, sxq float64
		for _, v := range x {
			l := float64(level(v-lo, id, 0.5, most))
			sq, sqq, sx, sxq = sq+l, sqq+l*l, sx+float64(v), sxq+float64(v)*l
		}
		// Least squares for s*q - m.
		s, m := 0.0, 0.0
		if det := n*sqq - sq*sq; det > 0 {
			s = (n*sxq - sx*sq) / det
			m = (s*sq - sx) / n
		}
		if m < 0 || s <= 0 {
			m = 0
			s = 0
			if sqq > 0 {
				s = max(0, sxq/sqq)
			}
		}
		if s == 0 {
			continue
		}
		fs, fm := float32(s), float32(m)
		var e float64
		for _, v := range x {
			d := float64(v) - (s*float64(level(v+fm, 1/fs, 0.5, most)) - m)
			e += d * d
		}
		if e < best {
			best, scale, minimum = e, fs, fm
		}
	}
	if math.IsInf(best, 1) {
		return (hi - lo) / float32(most), -lo
	}
	return scale, minimum
}

func encodeQ6_K(b []byte, x []float32) bool {
	var scale [16]float32
	for g := range scale {
		scale[g] = fitScale(x[16*g : 16*g+16])
		if scale[g] != scale[g] {
			return false
		}
	}
	_, _, far := extremes(scale[:])
	// The scale with the largest magnitude becomes -128, the end of the range.
	if !putHalf(b[208:], far/-128) {
		return false
	}
	d := half(b[208:])
	clear(b[:192])
	for g := range 16 {
		s := int(max(-128, min(127, math.RoundToEven(float64(scale[g]*inverse(d))))))
		b[192+g] = byte(int8(s))
		step := inverse(d * float32(s))
		part, j := g/8, g%8/2
		ql, qh := b[64*part+j%2*32+g%2*16:], b[128+32*part+g%2*16:]
		for l, v := range x[16*g : 16*g+16] {
			q := level(v, step, 32.5, 63)
			ql[l] |= q & 15 << (j / 2 * 4)
			qh[l] |= q >> 4 << (2 * j)
		}
	}
	return true
}

// fitScale returns the scale for which scale*q with q from -32 to 31 is closest to x. It works like fitMinimum.
func fitScale(x []float32) (scale float32) {
	_, _, far := extremes(x)
	if far-far != 0 {
		return float32(math.NaN())
	}
	if far == 0 {
		return 0
	}
	best := math.Inf(1)
	for try := -6; try <= 6; try++ {
		id := -(32 + 0.1*float32(try)) / far
		var sqq, sxq float64
		for _, v := range x {
			l := float64(level(v, id, 32.5, 63)) - 32
			sqq, sxq = sqq+l*l, sxq+float64(v)*l
		}
		if sqq == 0 {
			continue
		}
		s := sxq / sqq
		fs := float32(s)
		var e float64
		for _, v := range x {
			d := float64(v) - s*(float64(level(v, inverse(fs), 32.5, 63))-32)
			e += d * d
		}
		if e < best {
			best, scale = e, fs
		}
	}
	return scale
}
