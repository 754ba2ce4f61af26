package main

import (
	"bytes"
	"image"
	"math"
	"math/rand/v2"
	"testing"
)

// TestScreen compares pictures with the formula: around each step of a level, for random bits, and for values that are
// no colours.
func TestScreen(t *testing.T) {
	img := screen([]float32{0, 0.21763764, 1, 0, -1, 2, 0.0003, 7}, image.Pt(2, 1))
	if want := []byte{0, 128, 255, 255, 0, 255, 6, 255}; !bytes.Equal(img.Pix, want) {
		t.Errorf("pixels %v; want %v", img.Pix, want)
	}
	inf := float32(math.Inf(1))
	values := []float32{float32(math.NaN()), inf, -inf, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, 1}
	for k := range 256 {
		step := math.Float32bits(float32(math.Pow((float64(k)+0.5)/255, 2.2)))
		for d := range uint32(9) {
			values = append(values, math.Float32frombits(step+d-4))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1 << 17 {
		values = append(values, math.Float32frombits(rng.Uint32()), rng.Float32())
	}
	for len(values)%4 > 0 {
		values = append(values, 0)
	}
	for i, got := range screen(values, image.Pt(len(values)/4, 1)).Pix {
		want := byte(255)
		switch v := float64(values[i]); {
		case i%4 == 3:
		case v > 0:
			want = uint8(math.Round(255 * min(math.Pow(v, 1/2.2), 1)))
		default: // NaN, too
			want = 0
		}
		if got != want {
			t.Fatalf("%v (bits %x) is %d; want %d", values[i], math.Float32bits(values[i]), got, want)
		}
	}
}
