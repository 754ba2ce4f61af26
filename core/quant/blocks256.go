package quant

import (
	"encoding/binary"
	"math"
)

// Formats of 256 values. Groups of 16 or 32 values have scales of 4 to 8 bits, which are multiplied by one or two
// floats.

// Q2_K: scales[16], qs[64], d, dmin. Each half of 128 values has 32 bytes; bits 0-1 are its first 32 values, bits 2-3
// the next, and so on. Each 16 values have a scale (low half) and a minimum (high half).
func decodeQ2_K(dst []float32, b []byte) {
	d, dmin := half(b[80:]), half(b[82:])
	for g := range 16 {
		scale, low := d*float32(b[g]&15), dmin*float32(b[g]>>4)
		qs, shift := b[16+g/8*32+g%2*16:], g%8/2*2
		for l := range 16 {
			dst[16*g+l] = float32(scale*float32(qs[l]>>shift&3)) - low
		}
	}
}

// Q3_K: hmask[32], qs[64], scales[12], d. The low two bits lie as in Q2_K; bit j of hmask[l] is the third bit of value
// 32j+l.
func decodeQ3_K(dst []float32, b []byte) {
	d, t := half(b[108:]), b[96:108]
	for g := range 16 {
		s := t[g%8] >> (g / 8 * 4) & 15
		s |= t[8+g%4] >> (g / 4 * 2) & 3 << 4
		scale := d * float32(int(s)-32)
		hmask, qs, shift := b[g%2*16:], b[32+g/8*32+g%2*16:], g%8/2*2
		for l := range 16 {
			q := int(qs[l]>>shift&3|hmask[l]>>(g/2)&1<<2) - 4
			dst[16*g+l] = scale * float32(q)
		}
	}
}

// scaleMin unpacks scale and minimum j of 8 from the 12 bytes of Q4_K and Q5_K.
func scaleMin(t []byte, j int) (s, m byte) {
	if j < 4 {
		return t[j] & 63, t[j+4] & 63
	}
	return t[j+4]&15 | t[j-4]>>6<<4, t[j+4]>>4 | t[j]>>6<<4
}

// Q4_K: d, dmin, scales[12], qs[128]. Each 32 bytes are 64 values, first the low halves and then the high ones.
func decodeQ4_K(dst []float32, b []byte) {
	d, dmin := half(b), half(b[2:])
	for g := range 8 {
		s, m := scaleMin(b[4:16], g)
		scale, low := d*float32(s), dmin*float32(m)
		for l, q := range b[16+g/2*32 : 48+g/2*32] {
			dst[32*g+l] = float32(scale*float32(q>>(g%2*4)&15)) - low
		}
	}
}

// Q5_K: d, dmin, scales[12], qh[32], qs[128]: Q4_K with bit g of qh[l] as the fifth bit of value 32g+l.
func decodeQ5_K(dst []float32, b []byte) {
	d, dmin := half(b), half(b[2:])
	for g := range 8 {
		s, m := scaleMin(b[4:16], g)
		scale, low := d*float32(s), dmin*float32(m)
		for l, q := range b[48+g/2*32 : 80+g/2*32] {
			dst[32*g+l] = float32(scale*float32(q>>(g%2*4)&15|b[16+l]>>g&1<<4)) - low
		}
	}
}

// Q6_K: ql[128], qh[64], scales i8[16], d. Each half of 128 values has 64 bytes of ql and 32 of qh: its quarter j has
// the low (j < 2) or high halves of the bytes from 32(j%2) on, and bits 2j and 2j+1 of qh.
func decodeQ6_K(dst []float32, b []byte) {
	d := half(b[208:])
	for g := range 16 {
		scale := d * float32(int8(b[192+g]))
		part, j := g/8, g%8/2
		ql, qh := b[64*part+j%2*32+g%2*16:], b[128+32*part+g%2*16:]
		for l := range 16 {
			q := int(ql[l]>>(j/2*4)&15|qh[l]>>(2*j)&3<<4) - 32
			dst[16*g+l] = scale * float32(q)
		}
	}
}

// Q8_K: d f32, qs i8[256], and the sums of each 16 as i16[16], which decoding does not need.
func decodeQ8_K(dst []float32, b []byte) {
	d := math.Float32frombits(binary.LittleEndian.Uint32(b))
	for i, q := range b[4:260] {
		dst[i] = d * float32(int8(q))
	}
}

// IQ4_XS: d, the high bits of 8 scales u16, their low halves u8[4], qs[128]. Each 32 values are stored as in IQ4_NL.
func decodeIQ4_XS(dst []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint16(b[2:])
	for g := range 8 {
		s := int(b[4+g/2]>>(g%2*4)&15) | int(high>>(2*g)&3)<<4
		lookUp(dst[32*g:32*g+32], b[8+16*g:24+16*g], d*float32(s-32), &iq4)
	}
}
