package imaging

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestBilinearAgainstInterpolate compares taps without antialiasing with PyTorch's formula for align_corners=false: the
// source position is clamped at 0, its two neighbours are weighted by the fraction, and the right one is clamped at the
// last sample.
func TestBilinearAgainstInterpolate(t *testing.T) {
	for _, size := range [][2]int{{64, 256}, {256, 384}, {202, 303}, {256, 100}, {3, 7}, {7, 3}, {1, 9}, {9, 1}, {5, 5},
		{1000, 3}} {
		in, out := size[0], size[1]
		for i, taps := range Bilinear(in, out, false) {
			pos := max(0, (float64(i)+0.5)*float64(in)/float64(out)-0.5)
			left := int(pos)
			want := map[int]float64{}
			want[left] += 1 - (pos - float64(left))
			want[min(left+1, in-1)] += pos - float64(left)
			for j, w := range taps.Weight {
				want[taps.First+j] -= float64(w)
			}
			for j, d := range want {
				if math.Abs(d) > 1e-5 {
					t.Fatalf("%d to %d: position %d: weight of sample %d is off by %g", in, out, i, j, d)
				}
			}
		}
	}
}

// TestBilinearAntialias compares antialiased taps with the definition: a triangle as wide as the scale, normalised over
// the samples inside.
func TestBilinearAntialias(t *testing.T) {
	for _, size := range [][2]int{{384, 256}, {303, 202}, {1000, 7}, {100, 99}, {256, 256}, {10, 25}} {
		in, out := size[0], size[1]
		scale := float64(in) / float64(out)
		for i, taps := range Bilinear(in, out, true) {
			weight := func(j int) float64 {
				return max(0, 1-math.Abs((float64(j)+0.5-(float64(i)+0.5)*scale)/max(scale, 1)))
			}
			sum := 0.0
			for j := range in {
				sum += weight(j)
			}
			for j := range in {
				got := 0.0
				if k := j - taps.First; k >= 0 && k < len(taps.Weight) {
					got = float64(taps.Weight[k])
				}
				if math.Abs(got-weight(j)/sum) > 1e-6 {
					t.Fatalf("%d to %d: position %d, sample %d: weight %g, want %g", in, out, i, j, got, weight(j)/sum)
				}
			}
		}
	}
}

// TestResize compares Resize with the double sum over all samples, in both directions and for several channels.
func TestResize(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range []struct{ w, h, ow, oh int }{{9, 7, 4, 3}, {4, 3, 9, 7}, {9, 3, 4, 8}, {5, 5, 5, 5}, {1, 1, 3, 2},
		{30, 40, 1, 1}} {
		const channels = 2
		src := make([]float32, s.w*s.h*channels)
		for i := range src {
			src[i] = rng.Float32()
		}
		for _, antialias := range []bool{false, true} {
			xs, ys := Bilinear(s.w, s.ow, antialias), Bilinear(s.h, s.oh, antialias)
			got := Resize(s.w, s.h, channels, xs, ys, Floats, func(y int, dst []float32) {
				copy(dst, src[y*s.w*channels:])
			})
			for oy, ty := range ys {
				for ox, tx := range xs {
					for c := range channels {
						want := 0.0
						for i, wy := range ty.Weight {
							for j, wx := range tx.Weight {
								want += float64(wy) * float64(wx) * float64(
									src[((ty.First+i)*s.w+tx.First+j)*channels+c])
							}
						}
						if v := got[(oy*s.ow+ox)*channels+c]; math.Abs(float64(v)-want) > 1e-5 {
							t.Fatalf("%+v antialias %v: at %d,%d channel %d: %g, want %g", s, antialias, ox, oy, c, v,
								want)
						}
					}
				}
			}
		}
	}
}
