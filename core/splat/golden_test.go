package splat_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/internal/tensortest"
)

// golden is a scene with an image and gradients that a renderer without tiles, lists and forms made in float64
// (testdata/goldens/splat_small/README.md).
type golden struct {
	scene         *splat.Scene[float64]
	view          splat.View
	get           func(name string) []float64
	width, height int
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	folder := filepath.Join("../../testdata/goldens", name)
	var c struct {
		Attributes     struct{ Width, Height int }
		SHCoefficients int `json:"sh_coefficients"`
		Splats         int
	}
	doc, err := os.ReadFile(filepath.Join(folder, "case.json"))
	if err == nil {
		err = json.Unmarshal(doc, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	get := func(name string) []float64 {
		return tensortest.Golden(t, filepath.Join(folder, "golden.safetensors")+":"+name).Floats
	}
	s := &splat.Scene[float64]{N: c.Splats, C: c.SHCoefficients, Positions: get("positions"), Scales: get("scales"),
		Rotations: get("rotations"), Opacities: get("opacities"), Colors: get("colors"), SH: get("sh")}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	v, err := splat.NewView(get("meta"), c.Attributes.Width, c.Attributes.Height)
	if err != nil {
		t.Fatal(err)
	}
	return golden{s, v, get, c.Attributes.Width, c.Attributes.Height}
}

func newGradient(s *splat.Scene[float64]) *splat.Gradient[float64] {
	like := func(x []float64) []float64 { return make([]float64, len(x)) }
	return &splat.Gradient[float64]{Positions: like(s.Positions), Scales: like(s.Scales), Rotations: like(s.Rotations),
		Opacities: like(s.Opacities), Colors: like(s.Colors), SH: like(s.SH)}
}

// The goldens are stored in f32; the image differs by no more than that.
func TestGoldens(t *testing.T) {
	for _, name := range []string{"splat_small", "splat_sh", "splat_many"} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			rgba := make([]float64, g.width*g.height*4)
			splat.Render(&g.view, g.scene, rgba)
			if d := farthest(rgba, g.get("rgba")); d > 1e-7 {
				t.Errorf("rgba differs by %g", d)
			}
			got := newGradient(g.scene)
			splat.Backward(&g.view, g.scene, g.get("d_rgba"), 0, got)
			for _, part := range []struct {
				name string
				got  []float64
			}{
				{"d_positions", got.Positions}, {"d_scales", got.Scales}, {"d_rotations", got.Rotations},
				{"d_opacities", got.Opacities}, {"d_colors", got.Colors}, {"d_sh", got.SH},
			} {
				want := g.get(part.name)
				most := 0.0
				for _, x := range want {
					most = max(most, math.Abs(x))
				}
				if d := farthest(part.got, want); d > 1e-7*most {
					t.Errorf("%s differs by %g; the largest value is %g", part.name, d, most)
				}
			}
		})
	}
}

func farthest(a, b []float64) (d float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		d = max(d, math.Abs(a[i]-b[i]))
		if math.IsNaN(a[i]) {
			return math.Inf(1)
		}
	}
	return d
}

// TestLists checks that the lists of tiles have every splat that a pixel shows, and few others, for tiles of several
// sizes, and that rasterising by lists gives the same bits.
func TestLists(t *testing.T) {
	for _, name := range []string{"splat_small", "splat_sh", "splat_many"} {
		g := readGolden(t, name)
		p := splat.Prepare(&g.view, g.scene)
		for _, tile := range []int{1, 5, 16, 100} {
			grid := splat.Grid{Width: g.width, Height: g.height, Tile: tile}
			list := make([]int32, len(p.Order)*grid.Columns()*grid.Rows())
			ranges := make([]int32, 2*grid.Columns()*grid.Rows())
			if err := p.Lists(grid, list, ranges); err != nil {
				t.Fatal(err)
			}
			list = list[:ranges[len(ranges)-1]]
			missing, needed := 0, 0
			for row := range grid.Rows() {
				for column := range grid.Columns() {
					at := 2 * (row*grid.Columns() + column)
					listed := list[ranges[at]:ranges[at+1]]
					for _, i := range p.Order {
						shown := false
						for y := row * tile; y < min(row*tile+tile, g.height); y++ {
							for x := column * tile; x < min(column*tile+tile, g.width); x++ {
								shown = shown || p.Forms[i].Alpha(p.Colors[i][3], x, y) > 0
							}
						}
						if shown {
							needed++
							if !slices.Contains(listed, i) {
								missing++
							}
						}
					}
				}
			}
			if missing > 0 {
				t.Errorf("%s, tiles of %d: %d entries of %d are missing", name, tile, missing, needed)
			}
			if len(list) > needed+needed/4+8*len(ranges) {
				t.Errorf("%s, tiles of %d: %d entries, but %d are needed", name, tile, len(list), needed)
			}
		}
	}
}

// TestDifferences compares the gradient of scenes of all degrees with central differences of the image. It skips a
// value if a step changes which splats a pixel shows, which it sees by steps of two sizes.
func TestDifferences(t *testing.T) {
	for _, c := range []int{1, 4, 9, 16} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(c), 3))
			n := 5
			random := func(k int, lo, hi float64) []float64 {
				x := make([]float64, k)
				for i := range x {
					x[i] = lo + (hi-lo)*rng.Float64()
				}
				return x
			}
			s := &splat.Scene[float64]{N: n, C: c, Positions: random(3*n, -1, 1), Scales: random(3*n, -2, -0.5),
				Rotations: random(4*n, -1, 1), Opacities: random(n, 0.2, 0.9), Colors: random(3*n, 0, 1),
				SH: random(3*n*c, -0.5, 0.5)}
			meta := make([]float64, splat.MetaLen)
			copy(meta, []float64{0.3, 0.2, -3, 0, 0, 0, 0.1, 1, 0, 50, 0, 0, 0.2, 0.3, 0.4})
			meta[splat.MetaRadiusScale], meta[splat.MetaAlphaCutoff] = 1.3, 1e-9
			v, err := splat.NewView(meta, 12, 9)
			if err == nil {
				err = s.Check()
			}
			if err != nil {
				t.Fatal(err)
			}
			d := random(12*9*4, -1, 1)
			loss := func() (sum float64) {
				rgba := make([]float64, len(d))
				splat.Render(&v, s, rgba)
				for i := range rgba {
					if i%4 < 3 {
						sum += d[i] * rgba[i]
					}
				}
				return sum
			}
			got := newGradient(s)
			splat.Backward(&v, s, d, 0, got)
			for name, part := range map[string][2][]float64{
				"positions": {s.Positions, got.Positions}, "scales": {s.Scales, got.Scales},
				"rotations": {s.Rotations, got.Rotations}, "opacities": {s.Opacities, got.Opacities},
				"sh": {s.SH, got.SH},
			} {
				for i, was := range part[0] {
					slope := func(h float64) float64 {
						part[0][i] = was + h
						up := loss()
						part[0][i] = was - h
						down := loss()
						part[0][i] = was
						return (up - down) / (2 * h)
					}
					if want := slope(1e-6); math.Abs(part[1][i]-want) > 1e-6 {
						t.Errorf("%s[%d]: %v; differences give %v", name, i, part[1][i], want)
					}
				}
			}
		})
	}
}
