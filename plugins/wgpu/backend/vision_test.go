//go:build cgo && (darwin || amd64)

package backend

import (
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	_ "github.com/rlx-go/rlx/models/qwen3vl"
	_ "github.com/rlx-go/rlx/models/sam3"
)

// TestVision compares SAM 3's trunk and neck and Qwen3-VL's patch embedding with the results of their authors.
func TestVision(t *testing.T) {
	const goldens = "../../../testdata/goldens/"
	levels := []string{"level0.features", "level0.pos", "level1.features", "level1.pos", "level2.features",
		"level2.pos", "level3.features", "level3.pos"}
	cases := []struct {
		name, method, input string
		set                 []string // in place of the golden's config.json
		syms                map[string]int64
		shape               []int
		scale               float64
		results             []string
	}{
		{"sam3_vision_tiny", "encode", "image", nil, nil, []int{1, 3, 112, 112}, 1.7, append(levels, "tokens")},
		{"sam3_neck", "neck", "tokens", []string{"vision_config.backbone_config.image_size=112"}, nil,
			[]int{1, 64, 1024}, 1, levels},
		{"qwen3vl_patch", "patch_embed", "pixel_values", nil, map[string]int64{"N": 24}, []int{24, 1536}, 1.7,
			[]string{"embeddings"}},
	}
	for _, k := range devicetest.Some(t, 1, uint64(len(cases))) {
		c := cases[k]
		t.Run(c.name, func(t *testing.T) {
			dir := goldens + c.name
			s := modeltest.Open(t, modeltest.Manifest(t, dir), dtype.F32)
			config := dir + "/config.json"
			if c.set != nil {
				config = ""
			}
			m := modeltest.Compile(t, modeltest.Build(t, s, config, c.set...), s, compile.Defaults()...)
			in := map[string]*tensor.Array{
				c.input: tensortest.F32(c.shape, synth.Tensor(c.name+"."+c.input, c.shape, c.scale, 0))}
			for _, target := range compile.Defaults() {
				p := m.Find(t, c.method, target.Name)
				out := onDevice(t, load(t, shared, p, m.Weights), p, c.syms, in)
				for _, name := range c.results {
					tensortest.Near(t, target.Name+" "+name, out[name],
						tensortest.Golden(t, dir+"/golden.safetensors:"+name), 1e-5)
				}
			}
		})
	}
}

// TestPatchesOfImages checks that the embeddings of an image's pixels are those of the rows that the published
// processor makes.
func TestPatchesOfImages(t *testing.T) {
	const dir = "../../../testdata/goldens/qwen3vl_patch/"
	s := modeltest.Open(t, modeltest.Manifest(t, dir), dtype.F32)
	m := modeltest.Compile(t, modeltest.Build(t, s, dir+"config.json"), s, compile.Defaults()...)
	u8 := tensortest.Golden(t, dir+"golden.safetensors:image.u8") // [3,64,96]
	image := tensor.NewArray(dtype.F32, 64, 96, 3)
	for i := range image.Floats {
		image.Floats[i] = float64(u8.Ints[i%3*64*96+i/3])
	}
	p := m.Find(t, "embed_image", "wgpu")
	out := onDevice(t, load(t, shared, p, m.Weights), p, map[string]int64{"R": 2, "C": 3},
		map[string]*tensor.Array{"image": image})
	tensortest.Near(t, "embeddings", out["embeddings"],
		tensortest.Golden(t, dir+"golden.safetensors:image.embeddings"), 1e-5)
}

// TestImages checks that images in one run have the embeddings of their authors.
func TestImages(t *testing.T) {
	g := modeltest.OpenSAM(t, golden)
	s := modeltest.Open(t, modeltest.Manifest(t, golden), dtype.F32)
	m := modeltest.Compile(t, modeltest.Build(t, s, g.Config, append(g.Set, "batch=2")...), s, compile.Defaults()...)
	want := g.Embeddings(t)
	double := func(x *tensor.Array) *tensor.Array {
		return &tensor.Array{DType: x.DType, Shape: append([]int{2}, x.Shape[1:]...),
			Floats: slices.Concat(x.Floats, x.Floats)}
	}
	p := m.Find(t, "encode_batch", "wgpu")
	out := onDevice(t, load(t, shared, p, m.Weights), p, map[string]int64{"B": 2},
		map[string]*tensor.Array{"image": double(g.Image)})
	tensortest.Near(t, "embeddings", out["embeddings"], double(want), 1e-5)
}
