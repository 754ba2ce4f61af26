package raster

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/internal/kerneltest"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// golden reads a tensor of a scene that a float64 renderer made (testdata/goldens/splat_small/README.md).
func golden(t testing.TB, scene, name string) []float32 {
	a := tensortest.Golden(t, filepath.Join("../../../../testdata/goldens", scene, "golden.safetensors")+":"+name)
	return narrowed(a.Floats)
}

func narrowed(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

func goldenScene(t testing.TB, name string) (s *Scene, meta []float32, width, height int) {
	get := func(part string) []float32 { return golden(t, name, part) }
	s = &Scene{Positions: get("positions"), Scales: get("scales"), Rotations: get("rotations"),
		Opacities: get("opacities"), Colors: get("colors"), SH: get("sh")}
	s.N = len(s.Opacities)
	s.C = len(s.SH) / (3 * s.N)
	meta = get("meta")
	return s, meta, int(meta[splat.MetaWidth]), int(meta[splat.MetaHeight])
}

var scenes = []string{"splat_small", "splat_sh", "splat_many"}

// TestGoldens checks images within 2e-5 and gradients within 2e-4 of the largest value, on several numbers of threads,
// which must give the same bits.
func TestGoldens(t *testing.T) {
	for _, name := range scenes {
		s, meta, w, h := goldenScene(t, name)
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			rgba := make([]float32, w*h*4)
			if err := Render(p, rgba, s, meta, w, h); err != nil {
				t.Fatal(err)
			}
			near(t, name+" rgba", rgba, golden(t, name, "rgba"), 2e-5)
			g := newGradient(s)
			if err := Backward(p, g, s, meta, golden(t, name, "d_rgba"), w, h, 0); err != nil {
				t.Fatal(err)
			}
			for part, got := range parts(g) {
				want := golden(t, name, part)
				most := 0.0
				for _, x := range want {
					most = max(most, math.Abs(float64(x)))
				}
				near(t, name+" "+part, got, want, 2e-4*most)
			}
			return slices.Concat(rgba, g.Positions, g.Scales, g.Rotations, g.Opacities, g.Colors, g.SH)
		})
	}
}

// newGradient returns room for a gradient, with values that must be overwritten.
func newGradient(s *Scene) *Gradient {
	like := func(x []float32) []float32 { return slices.Repeat([]float32{7}, len(x)) }
	return &Gradient{Positions: like(s.Positions), Scales: like(s.Scales), Rotations: like(s.Rotations),
		Opacities: like(s.Opacities), Colors: like(s.Colors), SH: like(s.SH)}
}

func parts(g *Gradient) map[string][]float32 {
	return map[string][]float32{"d_positions": g.Positions, "d_scales": g.Scales, "d_rotations": g.Rotations,
		"d_opacities": g.Opacities, "d_colors": g.Colors, "d_sh": g.SH}
}

func near(t *testing.T, what string, got, want []float32, bound float64) {
	t.Helper()
	worst := 0.0
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= worst) {
			worst = d
		}
	}
	if !(worst <= bound) {
		t.Errorf("%s differs by %g; want %g at most", what, worst, bound)
	}
}

// randomScene has n splats in a cube before the camera; size is the middle of their sizes.
func randomScene(n, c int, size float64) (*Scene, []float32) {
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	random := func(k int, lo, hi float64) []float32 {
		x := make([]float32, k)
		for i := range x {
			x[i] = float32(lo + (hi-lo)*rng.Float64())
		}
		return x
	}
	s := &Scene{N: n, C: c, Positions: random(3*n, -1, 1), Scales: random(3*n, math.Log(size)-1, math.Log(size)+1),
		Rotations: random(4*n, -1, 1), Opacities: random(n, 0.1, 1), Colors: random(3*n, 0, 1),
		SH: random(3*c*n, -0.5, 1)}
	meta := make([]float32, splat.MetaLen)
	copy(meta, []float32{0.4, 0.3, -3, 0, 0, 0, 0, 1, 0, 50})
	meta[splat.MetaRadiusScale], meta[splat.MetaAlphaCutoff], meta[splat.MetaTransmittance] = 1, 1.0/255, 0.01
	return s, meta
}

// TestStages checks that Render is Rasterize of Prepare, to the bit.
func TestStages(t *testing.T) {
	p := kerneltest.NewPool(t, 2, "")
	check := func(name string, s *Scene, meta []float32, w, h int) {
		want := make([]float32, w*h*4)
		if err := Render(p, want, s, meta, w, h); err != nil {
			t.Fatal(err)
		}
		for _, side := range []int{3, 16, 50} {
			g := splat.Grid{Width: w, Height: h, Tile: side}
			tiles := g.Columns() * g.Rows()
			colors, forms := make([]float32, 4*s.N), make([]float32, splat.FormLen*s.N)
			list, ranges := make([]int32, s.N*tiles), make([]int32, 2*tiles)
			got := make([]float32, w*h*4)
			err := Prepare(p, colors, forms, list, ranges, s, meta, g)
			if err == nil {
				err = Rasterize(p, got, colors, forms, list, ranges, meta, g)
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, tiles of %d: other bits", name, side)
			}
		}
	}
	for _, name := range scenes {
		s, meta, w, h := goldenScene(t, name)
		check(name, s, meta, w, h)
	}
	s, meta := randomScene(3000, 4, 0.03)
	check("random", s, meta, 150, 111)
	meta[2] = -0.2 // inside
	check("random, inside", s, meta, 150, 111)
}

// TestGroups compares splats that are in too many bands, and tiles with too many hits, to be done at a time, with the
// definition.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		n, w, h int
		size    float64
	}{{40, 40, 200, 0.5}, {600, 20, 33, 2}} {
		s, meta := randomScene(c.n, 1, c.size)
		if c.n > 100 { // faint, so that pixels take all
			meta[splat.MetaTransmittance] = 0
			for i := range s.Opacities {
				s.Opacities[i] *= 0.02
			}
		}
		v, err := splat.NewView(meta, c.w, c.h)
		if err != nil {
			t.Fatal(err)
		}
		wide := widenedScene(s)
		if err := wide.Check(); err != nil {
			t.Fatal(err)
		}
		want := make([]float64, c.w*c.h*4)
		splat.Render(&v, wide, want)
		d := make([]float64, len(want))
		for i := range d {
			d[i] = math.Sin(float64(i))
		}
		like := func(x []float32) []float64 { return make([]float64, len(x)) }
		grad := &splat.Gradient[float64]{Positions: like(s.Positions), Scales: like(s.Scales),
			Rotations: like(s.Rotations), Opacities: like(s.Opacities), Colors: like(s.Colors), SH: like(s.SH)}
		splat.Backward(&v, wide, d, 0, grad)
		kerneltest.SameForAnyThreads(t, func(p *pool.Pool) []float32 {
			got := make([]float32, c.w*c.h*4)
			if err := Render(p, got, s, meta, c.w, c.h); err != nil {
				t.Fatal(err)
			}
			near(t, "rgba", got, narrowed(want), 2e-5)
			g := newGradient(s)
			if err := Backward(p, g, s, meta, narrowed(d), c.w, c.h, 0); err != nil {
				t.Fatal(err)
			}
			all := slices.Concat(grad.Positions, grad.Scales, grad.Rotations, grad.Opacities, grad.SH)
			got = slices.Concat(g.Positions, g.Scales, g.Rotations, g.Opacities, g.SH)
			most := 0.0
			for _, x := range all {
				most = max(most, math.Abs(x))
			}
			near(t, "gradient", got, narrowed(all), 2e-4*most)
			return got
		})
	}
}

func widenedScene(s *Scene) *splat.Scene[float64] {
	wide := func(x []float32) []float64 {
		out := make([]float64, len(x))
		for i := range x {
			out[i] = float64(x[i])
		}
		return out
	}
	return &splat.Scene[float64]{N: s.N, C: s.C, Positions: wide(s.Positions), Scales: wide(s.Scales),
		Rotations: wide(s.Rotations), Opacities: wide(s.Opacities), Colors: wide(s.Colors), SH: wide(s.SH)}
}

func TestFunctions(t *testing.T) {
	for i := range 100000 {
		z := float32(i) * 30 / 100000
		if want := math.Exp2(-float64(z)); math.Abs(float64(halved(z))-want) > 3e-7*want {
			t.Fatalf("2^-%v = %v; want %v", z, halved(z), want)
		}
		x := float32(math.Exp(float64(i)/1000 - 60))
		if want := math.Pow(float64(x), 2.2); math.Abs(float64(encode(x))-want) > 1e-6*want+1e-45 {
			t.Fatalf("%v^2.2 = %v; want %v", x, encode(x), want)
		}
	}
}

// TestScratch checks the amount of memory that the kernels declare.
func TestScratch(t *testing.T) {
	s, meta := randomScene(5000, 1, 0.05)
	const w, h = 100, 90
	kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
		if err := Render(p, make([]float32, w*h*4), s, meta, w, h); err != nil {
			t.Fatal(err)
		}
		kerneltest.Fits(t, p, RenderScratch(s.N, h), 0, "render")
	})
	kerneltest.EachNewPool(t, func(t *testing.T, p *pool.Pool) {
		if err := Backward(p, newGradient(s), s, meta, make([]float32, w*h*4), w, h, 0); err != nil {
			t.Fatal(err)
		}
		kerneltest.Fits(t, p, BackwardScratch(s.N, h), 0, "backward")
	})
}

func BenchmarkRender(b *testing.B) {
	s, meta := randomScene(100000, 1, 0.008)
	const w, h = 800, 800
	p := kerneltest.NewPool(b, 2, "")
	rgba := make([]float32, w*h*4)
	for b.Loop() {
		if err := Render(p, rgba, s, meta, w, h); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBackward(b *testing.B) {
	s, meta := randomScene(100000, 1, 0.008)
	const w, h = 800, 800
	p := kerneltest.NewPool(b, 2, "")
	d, g := slices.Repeat([]float32{1, -1, 0.5, 0}, w*h), newGradient(s)
	for b.Loop() {
		if err := Backward(p, g, s, meta, d, w, h, 0); err != nil {
			b.Fatal(err)
		}
	}
}
