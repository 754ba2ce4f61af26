package quant

import (
	"encoding/binary"
	"math"
)

// The formats of 32 values. In those of 4 and 5 bits, value i < 16 is the low half of byte i, value 16+i the high half.
// All products fit a float32, so each value is rounded once, where a minimum is added.

func decodeQ4_0(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:18] {
		dst[i], dst[16+i] = d*float32(int(q&15)-8), d*float32(int(q>>4)-8)
	}
}

func decodeQ4_1(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:20] {
		dst[i], dst[16+i] = float32(d*float32(q&15))+m, float32(d*float32(q>>4))+m
	}
}

func decodeQ5_0(dst []float32, b []byte) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:22] {
		dst[i], dst[16+i] = d*float32(int(q&15|fifth(high, i))-16), d*float32(int(q>>4|fifth(high, 16+i))-16)
	}
}

func decodeQ5_1(dst []float32, b []byte) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:24] {
		dst[i], dst[16+i] = float32(d*float32(q&15|fifth(high, i)))+m, float32(d*float32(q>>4|fifth(high, 16+i)))+m
	}
}

// fifth returns bit i of high as the fifth bit of a value.
func fifth(high uint32, i int) byte { return byte(high>>i&1) << 4 }

func decodeQ8_0(dst []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:34] {
		dst[i] = d * float32(int8(q))
	}
}

// iq4 has the values of the IQ4 formats before scaling.
var iq4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4_NL(dst []float32, b []byte) { lookUp(dst, b[2:18], half(b), &iq4) }

// fp4 has twice the values of E2M1 numbers.
var fp4 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// The scale of MXFP4 is 2^(e-127). It is 2^(e-128) here, because fp4 has twice the values. The smallest scales are
// subnormal.
func decodeMXFP4(dst []float32, b []byte) {
	lookUp(dst, b[1:17], float32(math.Ldexp(1, int(b[0])-128)), &fp4)
}

// lookUp sets 32 values from 4 bits each.
func lookUp(dst []float32, b []byte, d float32, table *[16]float32) {
	for i, q := range b {
		dst[i], dst[16+i] = d*table[q&15], d*table[q>>4]
	}
}
