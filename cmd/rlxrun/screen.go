package main

import (
	"image"
	"math"
	"sync"
)

// screen returns a picture for a screen. Each pixel has four values: powers of 2.2 of the screen's values, and alpha,
// which is not read.
func screen(values []float32, size image.Point) *image.RGBA {
	img := image.NewRGBA(image.Rectangle{Max: size})
	t := screenLevels()
	for i := 0; i+4 <= len(values); i += 4 {
		to, v := img.Pix[i:][:4], values[i:][:4]
		to[0], to[1], to[2], to[3] = t.level(v[0]), t.level(v[1]), t.level(v[2]), 255
	}
	return img
}

// level returns 255 v^(1/2.2) for v from 0 to 1, rounded; 0 for less and NaN, and 255 for more.
func level(v float32) uint8 {
	x := 255 * math.Pow(float64(v), 1/2.2)
	return uint8(math.Round(min(max(x, 0), 255)))
}

// levels is a table of the results of level, which is 20 times as fast.
type levels struct {
	least [257]float32     // the least value of each level, and infinity
	about [bits1 + 1]uint8 // the level of the least value with these upper 16 bits
}

// bits1 is the upper half of the bits of 1.
const bits1 = 0x3f80

var screenLevels = sync.OnceValue(func() *levels {
	t := &levels{}
	for k := 1; k < 256; k++ {
		// level(low) < k <= level(high); positive floats are ordered as their bits are
		low, high := uint32(0), math.Float32bits(1)
		for low+1 < high {
			if middle := (low + high) / 2; int(level(math.Float32frombits(middle))) < k {
				low = middle
			} else {
				high = middle
			}
		}
		t.least[k] = math.Float32frombits(high)
	}
	t.least[256] = float32(math.Inf(1))
	for i := range t.about {
		t.about[i] = level(math.Float32frombits(uint32(i) << 16))
	}
	return t
})

func (t *levels) level(v float32) uint8 {
	switch {
	case !(v > 0):
		return 0
	case v >= 1:
		return 255
	}
	k := t.about[math.Float32bits(v)>>16]
	for v >= t.least[int(k)+1] {
		k++
	}
	return k
}
