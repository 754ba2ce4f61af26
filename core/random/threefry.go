// Package random has the random numbers of ops: a function of a counter and a key, so that every device makes the same
// ones in any order.
package random

import (
	"math"
	"math/bits"
)

// parity is the constant of Skein's key schedule.
const parity = 0x1bd11bda

// Threefry is threefry2x32-20 of a counter under a key: J. Salmon and others, Parallel Random Numbers: As Easy as 1, 2,
// 3 (2011).
func Threefry(ctr, key [2]uint32) [2]uint32 {
	x0, x1, k2 := ctr[0]+key[0], ctr[1]+key[1], parity^key[0]^key[1]
	x0, x1 = four(x0, x1, 13, 15, 26, 6)
	x0, x1 = x0+key[1], x1+k2+1
	x0, x1 = four(x0, x1, 17, 29, 16, 24)
	x0, x1 = x0+k2, x1+key[0]+2
	x0, x1 = four(x0, x1, 13, 15, 26, 6)
	x0, x1 = x0+key[0], x1+key[1]+3
	x0, x1 = four(x0, x1, 17, 29, 16, 24)
	x0, x1 = x0+key[1], x1+k2+4
	x0, x1 = four(x0, x1, 13, 15, 26, 6)
	return [2]uint32{x0 + k2, x1 + key[0] + 5}
}

// four rounds with these rotations.
func four(x0, x1 uint32, a, b, c, d int) (uint32, uint32) {
	x0 += x1
	x1 = bits.RotateLeft32(x1, a) ^ x0
	x0 += x1
	x1 = bits.RotateLeft32(x1, b) ^ x0
	x0 += x1
	x1 = bits.RotateLeft32(x1, c) ^ x0
	x0 += x1
	x1 = bits.RotateLeft32(x1, d) ^ x0
	return x0, x1
}

// Uniform is the number in [0, 1) that the upper 24 bits of a word stand for.
func Uniform(word uint32) float64 { return float64(word>>8) * 0x1p-24 }

// Gumbel is -ln(-ln u) for the uniform number u of a word, 1e-30 in place of 0: from -4.24 to 16.64.
func Gumbel(word uint32) float64 { return -math.Log(-math.Log(max(Uniform(word), 1e-30))) }
