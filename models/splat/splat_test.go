package splat_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/ply"
	"github.com/rlx-go/rlx/models/weights"
)

// write writes a PLY file with the given properties and vertices.
func write(t *testing.T, properties []string, rows [][]float32) string {
	t.Helper()
	text := fmt.Sprintf("ply\nformat binary_little_endian 1.0\nelement vertex %d\n", len(rows))
	for _, p := range properties {
		text += "property float " + p + "\n"
	}
	b := []byte(text + "end_header\n")
	for _, row := range rows {
		for _, x := range row {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	path := filepath.Join(t.TempDir(), "scene.ply")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func properties(rest int) []string {
	p := strings.Fields("x y z nx ny nz f_dc_0 f_dc_1 f_dc_2")
	for k := range rest {
		p = append(p, fmt.Sprint("f_rest_", k))
	}
	return append(p, strings.Fields("opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3")...)
}

func random(rng *rand.Rand, n, columns int) (rows [][]float32) {
	for range n {
		row := make([]float32, columns)
		for k := range row {
			row[k] = float32(rng.Float64()*2 - 1)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestColors renders files of each degree of harmonics. It checks each splat alone, at its own pixel and nearly opaque.
// Its colour must be the result of eval_sh in the published code for 3D Gaussian splatting, whose direction is position
// - camera.
func TestColors(t *testing.T) {
	for degree, rest := range []int{0, 9, 24, 45} {
		rng := rand.New(rand.NewPCG(uint64(degree), 9))
		names := properties(rest)
		rows := random(rng, 1, len(names))
		at := func(name string) *float32 {
			for k, n := range names {
				if n == name {
					return &rows[0][k]
				}
			}
			t.Fatal(name)
			return nil
		}
		*at("opacity") = 9
		for k := range 3 {
			*at(fmt.Sprint("scale_", k)) = 1
		}
		c, err := ply.Open(write(t, names, rows))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m := build(t, c)
		meta := make([]float64, splat.MetaLen)
		camera := [3]float64{5, -7, 11}
		position := [3]float64{float64(*at("x")), float64(*at("y")), float64(*at("z"))}
		copy(meta, append(camera[:], position[:]...))
		meta[splat.MetaUp+1], meta[splat.MetaFovY], meta[splat.MetaRadiusScale] = 1, 40, 1
		meta[splat.MetaAlphaCutoff] = 1.0 / 255
		raw, err := c.Bytes(ply.Vertices, dtype.F32)
		if err != nil {
			t.Fatal(err)
		}
		vertices := tensor.Tensor{DType: dtype.F32, Shape: []int{1, len(names)}, Data: raw}.Array()
		g := m.Methods[0]
		out, err := interp.Run(g, nil, map[string]*tensor.Array{"meta": {DType: dtype.F32, Shape: []int{len(meta)},
			Floats: meta}}, func(string) (*tensor.Array, error) { return vertices, nil })
		if err != nil {
			t.Fatal(err)
		}
		image := out["image"]
		h, w := image.Shape[0], image.Shape[1]
		pixel := image.Floats[(h/2*w+w/2)*4:][:4]
		var d [3]float64
		n := 0.0
		for k := range d {
			d[k] = position[k] - camera[k]
			n += d[k] * d[k]
		}
		for k := range d {
			d[k] /= math.Sqrt(n)
		}
		for channel := range 3 {
			sh := []float64{float64(*at(fmt.Sprint("f_dc_", channel)))}
			for k := range rest / 3 {
				sh = append(sh, float64(*at(fmt.Sprint("f_rest_", channel*rest/3+k))))
			}
			want := math.Pow(max(evalSH(degree, sh, d)+0.5, 0)*pixel[3], 2.2)
			if got := pixel[channel]; math.Abs(got-want) > 1e-4 {
				t.Errorf("degree %d, channel %d: %v; want %v", degree, channel, got, want)
			}
		}
	}
}

// evalSH is the sum of the published harmonics in the direction d, from the camera to the splat.
func evalSH(degree int, sh []float64, d [3]float64) float64 {
	x, y, z := d[0], d[1], d[2]
	sum := 0.28209479177387814 * sh[0]
	if degree > 0 {
		sum += 0.4886025119029199 * (-y*sh[1] + z*sh[2] - x*sh[3])
	}
	if degree > 1 {
		sum += 1.0925484305920792*x*y*sh[4] - 1.0925484305920792*y*z*sh[5] +
			0.31539156525252005*(2*z*z-x*x-y*y)*sh[6] - 1.0925484305920792*x*z*sh[7] +
			0.5462742152960396*(x*x-y*y)*sh[8]
	}
	if degree > 2 {
		sum += -0.5900435899266435*y*(3*x*x-y*y)*sh[9] + 2.890611442640554*x*y*z*sh[10] -
			0.4570457994644658*y*(4*z*z-x*x-y*y)*sh[11] + 0.3731763325901154*z*(2*z*z-3*x*x-3*y*y)*sh[12] -
			0.4570457994644658*x*(4*z*z-x*x-y*y)*sh[13] + 1.445305721320277*z*(x*x-y*y)*sh[14] -
			0.5900435899266435*x*(x*x-3*y*y)*sh[15]
	}
	return sum
}

func build(t *testing.T, c *weights.Checkpoint, settings ...string) *arch.Model {
	t.Helper()
	stored := weights.Stored{Checkpoint: c}
	a, err := arch.Find("auto", stored, "scene.ply", "")
	if err != nil {
		t.Fatal(err)
	}
	var cfg arch.Config
	text, _ := c.Own("config.json")
	if err := cfg.Decode(text, "scene.ply"); err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if err := cfg.Set(s, a.Keys); err != nil {
			t.Fatal(err)
		}
	}
	m, err := a.Build(stored, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPreview checks that the preview is every third pixel of the image in both directions, and that small images have
// no preview. Where a size is a multiple of 3, the rays of these pixels are the same.
func TestPreview(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	names := properties(9)
	rows := random(rng, 5, len(names))
	path := write(t, names, rows)
	for _, c := range []struct{ width, height, methods int }{{363, 183, 2}, {255, 255, 1}, {1 << 15, 2, 1}} {
		ckpt, err := ply.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer ckpt.Close()
		m := build(t, ckpt, fmt.Sprint("width=", c.width), fmt.Sprint("height=", c.height))
		if len(m.Methods) != c.methods {
			t.Fatalf("%d x %d px: %d methods; want %d", c.width, c.height, len(m.Methods), c.methods)
		}
		if c.methods == 1 {
			continue
		}
		meta := make([]float64, splat.MetaLen)
		copy(meta, []float64{1, -2, -6, 0, 0.3, 0, 0, 1, 0, 40})
		meta[splat.MetaRadiusScale], meta[splat.MetaAlphaCutoff] = 1, 1.0/255
		raw, err := ckpt.Bytes(ply.Vertices, dtype.F32)
		if err != nil {
			t.Fatal(err)
		}
		vertices := tensor.Tensor{DType: dtype.F32, Shape: []int{len(rows), len(names)}, Data: raw}.Array()
		var images []*tensor.Array
		for _, g := range m.Methods {
			out, err := interp.Run(g, nil, map[string]*tensor.Array{"meta": {DType: dtype.F32, Shape: []int{len(meta)},
				Floats: meta}}, func(string) (*tensor.Array, error) { return vertices, nil })
			if err != nil {
				t.Fatal(err)
			}
			images = append(images, out["image"])
		}
		for i, got := range images[1].Floats {
			w := c.width / 3
			x, y := i/4%w, i/4/w
			want := images[0].Floats[((3*y+1)*c.width+3*x+1)*4+i%4]
			if math.Abs(got-want) > 1e-4 {
				t.Fatalf("pixel %d,%d of the preview is %v; want %v", x, y, got, want)
			}
		}
	}
}

// TestRefused checks files that have no scene.
func TestRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	names := properties(9)
	for name, c := range map[string]struct {
		spoil func(rows [][]float32)
		names []string
		want  string
	}{
		"NaN":         {func(r [][]float32) { r[2][1] = float32(math.NaN()) }, names, "y of splat 2 is NaN"},
		"infinite":    {func(r [][]float32) { r[1][10] = float32(math.Inf(1)) }, names, "f_rest_1 of splat 1 is +Inf"},
		"no rotation": {func(r [][]float32) { clear(r[3][22:]) }, names, "the rotation of splat 3 is 0"},
		"huge":        {func(r [][]float32) { r[0][19] = 99 }, names, "scale_0 of splat 0 is 99"},
		"no splats":   {func([][]float32) {}, names[:21], "has no property scale_2"},
		"degree":      {func([][]float32) {}, properties(10), "has 10 properties f_rest; want 0, 9, 24 or 45"},
	} {
		rows := random(rng, 5, len(c.names))
		c.spoil(rows)
		_, err := compile.Load(t.Context(), write(t, c.names, rows), compile.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v; want %q", name, err, c.want)
		}
		if name != "degree" && !errors.Is(err, code.Splats) {
			t.Errorf("%s: the error has another code", name)
		}
	}
}

// TestCompressed builds a compressed file, and refuses one with a range that is not a number.
func TestCompressed(t *testing.T) {
	const path = "../../internal/ply/testdata/harmonics.compressed.ply"
	m, err := compile.Load(t.Context(), path, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if facts := fmt.Sprint(m.Facts); !strings.Contains(facts, "{splats 261} {harmonics degree 1}") {
		t.Error(facts)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), "end_header\n") + len("end_header\n")
	binary.LittleEndian.PutUint32(b[at:], math.Float32bits(float32(math.NaN())))
	bad := filepath.Join(t.TempDir(), "bad.ply")
	if err := os.WriteFile(bad, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = compile.Load(t.Context(), bad, compile.Options{})
	if !errors.Is(err, code.Splats) || !strings.Contains(err.Error(), "x of splat 0 is NaN") {
		t.Error(err)
	}
}
