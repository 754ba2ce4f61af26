//go:build cgo && (darwin || amd64)

package backend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tensortest"
)

var splatParts = []string{"positions", "scales", "rotations", "opacities", "colors", "sh", "meta"}

// splatScene is the operands of a scene, and the size of its image.
type splatScene struct {
	in            map[string]*tensor.Array
	width, height int
}

// goldenSplats reads a scene that a float64 renderer made (testdata/goldens/splat_small/README.md).
func goldenSplats(t *testing.T, name string) (s splatScene, get func(part string) *tensor.Array) {
	get = func(part string) *tensor.Array {
		return tensortest.Golden(t, filepath.Join("../../../testdata/goldens", name, "golden.safetensors")+":"+part)
	}
	s.in = map[string]*tensor.Array{}
	for _, part := range splatParts {
		s.in[part] = get(part)
	}
	shape := get("rgba").Shape
	s.height, s.width = shape[0], shape[1]
	return s, get
}

// randomSplats has n splats around the target of a camera, with some of them behind it if it is inside.
func randomSplats(n, c, width, height int, size, distance float64) splatScene {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(width)))
	random := func(k int, lo, hi float64) *tensor.Array {
		x := tensor.NewArray(dtype.F32, k)
		for i := range x.Floats {
			x.Floats[i] = float64(float32(lo + (hi-lo)*rng.Float64()))
		}
		return x
	}
	meta := tensor.NewArray(dtype.F32, splat.MetaLen)
	copy(meta.Floats, []float64{0.25 * distance, 0.125, -distance, 0, 0, 0, 0, 1, 0, 50, 0, 0, 0.25, 0.5, 0.125})
	meta.Floats[splat.MetaRadiusScale], meta.Floats[splat.MetaAlphaCutoff] = 1, float64(float32(1.0/255))
	meta.Floats[splat.MetaTransmittance] = float64(float32(0.01))
	return splatScene{width: width, height: height, in: map[string]*tensor.Array{
		"positions": random(3*n, -1, 1), "scales": random(3*n, math.Log(size)-1, math.Log(size)+1),
		"rotations": random(4*n, -1, 1), "opacities": random(n, 0, 1.1), "colors": random(3*n, -0.2, 1.2),
		"sh": random(3*c*n, -0.5, 1), "meta": meta}}
}

// run runs a graph of ops over a scene.
func (s splatScene) run(t *testing.T, build func(g *ir.Graph, in []*ir.Node), more map[string]*tensor.Array,
	names ...string) map[string]*tensor.Array {
	t.Helper()
	g := ir.NewGraph("splats")
	values := map[string]*tensor.Array{}
	var in []*ir.Node
	for _, name := range append(splatParts[:7:7], names...) {
		x := s.in[name]
		if x == nil {
			x = more[name]
		}
		values[name] = x
		in = append(in, op.Input(g, name, interp.TypeOf(x)))
	}
	build(g, in)
	p, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}
	return onDevice(t, load(t, shared, p, nil), p, nil, values)
}

func (s splatScene) render(t *testing.T) *tensor.Array {
	t.Helper()
	return s.run(t, func(g *ir.Graph, in []*ir.Node) {
		g.Return("rgba", op.GaussianSplatRender(s.width, s.height, in[6], in...))
	}, nil)["rgba"]
}

func (s splatScene) staged(t *testing.T, tile int) *tensor.Array {
	t.Helper()
	return s.run(t, func(g *ir.Graph, in []*ir.Node) {
		a := op.GaussianSplatPrepareAttrs{Width: s.width, Height: s.height, Tile: tile}
		colors, forms, list, ranges := op.GaussianSplatPrepare(a, in[6], in...)
		g.Return("rgba", op.GaussianSplatRasterize(
			op.GaussianSplatRasterizeAttrs{Width: s.width, Height: s.height, Tile: tile}, colors, forms, list, ranges,
			in[6]))
	}, nil)["rgba"]
}

func (s splatScene) backward(t *testing.T, d *tensor.Array) map[string]*tensor.Array {
	t.Helper()
	return s.run(t, func(g *ir.Graph, in []*ir.Node) {
		a := op.GaussianSplatRenderBackwardAttrs{Width: s.width, Height: s.height}
		for k, x := range g.AddResults(6, op.GaussianSplatRenderBackwardDef, a, in...) {
			g.Return("d_"+splatParts[k], x)
		}
	}, map[string]*tensor.Array{"d_rgba": d}, "d_rgba")
}

// farApart returns the largest difference, and the largest value of want.
func farApart(got, want *tensor.Array) (d, most float64) {
	for i, x := range want.Floats {
		if e := math.Abs(got.Floats[i] - x); !(e <= d) {
			d = e
		}
		most = max(most, math.Abs(x))
	}
	return d, most
}

// TestSplatGoldens checks images within 2e-5 and gradients within 2e-4 of the largest value.
func TestSplatGoldens(t *testing.T) {
	names := []string{"splat_small", "splat_sh", "splat_many"}
	for _, k := range devicetest.Some(t, 1, uint64(len(names))) {
		name := names[k]
		s, get := goldenSplats(t, name)
		if d, _ := farApart(s.render(t), get("rgba")); !(d <= 2e-5) {
			t.Errorf("%s: rgba differs by %g", name, d)
		}
		got := s.backward(t, get("d_rgba"))
		for part, x := range got {
			if d, most := farApart(x, get(part)); !(d <= 2e-4*most) {
				t.Errorf("%s: %s differs by %g; the largest value is %g", name, part, d, most)
			}
		}
		again := s.backward(t, get("d_rgba"))
		for part, x := range got {
			if err := interp.Compare(again[part], x, ir.Tolerance{}); err != nil {
				t.Errorf("%s, again: %s: %v", name, part, err)
			}
		}
	}
}

// TestSplatScenes compares random scenes with the definitions, and checks that the two stages give the bits of
// gaussian_splat_render: odd sizes, hundreds of splats in a tile, a camera among the splats, huge splats, and opaque
// ones.
func TestSplatScenes(t *testing.T) {
	opaque := randomSplats(400, 1, 33, 21, 0.3, 3)
	for i := range opaque.in["opacities"].Floats {
		opaque.in["opacities"].Floats[i] = 1
	}
	opaque.in["meta"].Floats[splat.MetaTransmittance] = 0
	few := randomSplats(300, 4, 50, 40, 0.2, 2)
	few.in["meta"].Floats[splat.MetaMaxSteps] = 5
	behind := randomSplats(20, 1, 20, 20, 0.2, 3)
	behind.in["meta"].Floats[splat.MetaTarget+2] = -9
	scenes := []splatScene{
		randomSplats(1, 1, 1, 1, 0.5, 3), randomSplats(700, 16, 67, 35, 0.05, 3),
		randomSplats(3000, 1, 130, 97, 0.02, 3),
		randomSplats(500, 9, 40, 61, 0.1, 0.25), randomSplats(300, 4, 49, 17, 3, 2), opaque, few, behind,
	}
	for _, k := range devicetest.Some(t, 1, uint64(len(scenes))) {
		s := scenes[k]
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			var in []*tensor.Array
			for _, part := range splatParts {
				in = append(in, s.in[part])
			}
			want := tensor.NewArray(dtype.F32, s.height, s.width, 4)
			a := op.GaussianSplatRenderAttrs{Width: s.width, Height: s.height}
			if err := op.GaussianSplatRenderDef.Eval(a, in, want); err != nil {
				t.Fatal(err)
			}
			got := s.render(t)
			if d, _ := farApart(got, want); !(d <= 5e-5) {
				t.Errorf("rgba differs by %g", d)
			}
			tiles := slices.DeleteFunc([]int{7, 16, 64}, func(tile int) bool {
				return len(in[3].Floats)*s.width*s.height/tile/tile > 1<<15 // llvmpipe ends long loops
			})
			for _, tile := range devicetest.SomeOf(t, 1, tiles) {
				if err := interp.Compare(s.staged(t, tile), got, ir.Tolerance{}); err != nil {
					t.Errorf("tiles of %d: %v", tile, err)
				}
			}
			d := tensor.NewArray(dtype.F32, s.height, s.width, 4)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range d.Floats {
				d.Floats[i] = float64(float32(rng.Float64() - 0.5))
			}
			var wants []*tensor.Array
			for _, x := range in[:6] {
				wants = append(wants, tensor.NewArray(dtype.F32, x.Shape...))
			}
			ab := op.GaussianSplatRenderBackwardAttrs{Width: s.width, Height: s.height}
			if err := op.GaussianSplatRenderBackwardDef.Eval(ab, append(in[:7:7], d), wants...); err != nil {
				t.Fatal(err)
			}
			gradients := s.backward(t, d)
			for k, x := range wants {
				if d, most := farApart(gradients["d_"+splatParts[k]], x); !(d <= 2e-4*most) {
					t.Errorf("d_%s differs by %g; the largest value is %g", splatParts[k], d, most)
				}
			}
		})
	}
}
