package quant

import "math"

// Group is the number of activations that share a scale when they are rounded to 8 bits.
const Group = 32

// tiny is the smallest maximum of a group that is not rounded to zeros.
const tiny = 0x1p-100

// RoundActivations rounds x to multiples of a scale for each Group. All arithmetic is in float32: the scale is
// max|x|/127, and q is round(x * (127/max|x|)), half to even. The last group may be shorter. A group whose values are
// all below 2^-100 becomes zeros. The scale of a group with NaN or an infinity is NaN. q must have len(x) elements, and
// scale one for each group.
func RoundActivations(q []int8, scale, x []float32) {
	for g := 0; len(x) > 0; g++ {
		n := min(Group, len(x))
		most, sum := float32(0), float32(0)
		for _, v := range x[:n] {
			most = max(most, float32(math.Abs(float64(v))))
			sum += v - v // NaN if any v is NaN or infinite
		}
		inverse := float32(0)
		scale[g] = 0
		switch {
		case sum != sum:
			scale[g] = sum
		case most >= tiny:
			scale[g], inverse = most/127, 127/most
		}
		for i, v := range x[:n] {
			q[i] = 0
			if inverse != 0 {
				q[i] = int8(math.RoundToEven(float64(float32(v * inverse))))
			}
		}
		q, x = q[n:], x[n:]
	}
}
