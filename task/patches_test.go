package task_test

import (
	"github.com/rlx-go/rlx/core/code"

	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // registers the ops of the methods
	"github.com/rlx-go/rlx/task"
)

// published returns the description of Qwen3-VL.
func published() *task.Patches {
	half := [3]float64{0.5, 0.5, 0.5}
	return &task.Patches{Method: "patch_embed", PixelsInput: "pixel_values", Embeddings: "embeddings", Patch: 16,
		Frames: 2, Merge: 2,
		MinPixels: 1 << 16, MaxPixels: 1 << 24, MaxPatches: 1 << 16, Mean: half, Std: half}
}

// TestCheck checks that a task accepts only methods that fit.
func TestCheckPatches(t *testing.T) {
	const graph = "graph patch_embed\nsym N = 1..65536\npixel_values = input : f32[N,1536]\ne = reduce_sum pixel_values {axes=[1],keep_dims=true} : f32[N,1]\nreturn embeddings=e\n"
	for name, c := range map[string]struct {
		from, to string
		change   func(*task.Patches)
		ok       bool
	}{
		"as it is":          {ok: true},
		"more patches":      {from: "65536", to: "65537", ok: true},
		"fewer patches":     {from: "65536", to: "65535"},
		"a block at least":  {from: "1..", to: "4..", ok: true},
		"more than a block": {from: "1..", to: "5.."},
		"another row":       {change: func(t *task.Patches) { t.Frames = 1 }},
		"another method":    {change: func(t *task.Patches) { t.Method = "embed" }},
		"another input":     {change: func(t *task.Patches) { t.PixelsInput = "x" }},
		"another output":    {change: func(t *task.Patches) { t.Embeddings = "x" }},
		"f16":               {from: "f32", to: "f16"},
		"one for all": {from: "{axes=[1],keep_dims=true} : f32[N,1]",
			to: "{axes=[0],keep_dims=true} : f32[1,1536]"},
	} {
		g, err := ir.Parse(strings.ReplaceAll(graph, cmp.Or(c.from, "\x00"), c.to))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := task.Method{Name: g.Name, Syms: g.Syms}
		for _, n := range g.Inputs() {
			m.Inputs = append(m.Inputs, task.Value{Name: n.Name, Type: n.Type})
		}
		for _, o := range g.Outputs {
			m.Outputs = append(m.Outputs, task.Value{Name: o.Name, Type: o.Node.Type})
		}
		p := published()
		if c.change != nil {
			c.change(p)
		}
		if err := p.Check(task.Methods{m}); c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckPatchesOfImages checks that a task accepts only methods that fit the images it gives.
func TestCheckPatchesOfImages(t *testing.T) {
	const rows = "graph patch_embed\nsym N = 1..65536\npixel_values = input : f32[N,1536]\n" +
		"e = reduce_sum pixel_values {axes=[1],keep_dims=true} : f32[N,1]\nreturn embeddings=e\n"
	const pixels = "\ngraph embed_image\nsym R = 1..128\nsym C = 1..128\nimage = input : f32[32*R,32*C,3]\n" +
		"e = const {value=0.0} : f32[4*R*C,1]\nreturn embeddings=e\n"
	for name, c := range map[string]struct {
		from, to string
		change   func(*task.Patches)
		ok       bool
	}{
		"as it is":       {ok: true},
		"larger images":  {from: "128", to: "129", ok: true},
		"smaller images": {from: "128", to: "127"},
		"two blocks":     {from: "R = 1", to: "R = 2"},
		"other sides":    {from: "32*", to: "64*"},
		"u8":             {from: "image = input : f32", to: "image = input : u8"},
		"four channels":  {from: ",3]", to: ",4]"},
		"a row for two":  {from: "4*R*C", to: "2*R*C"},
		"another block":  {change: func(t *task.Patches) { t.Merge = 1 }},
		"another method": {change: func(t *task.Patches) { t.ImageMethod = "x" }},
		"another input":  {change: func(t *task.Patches) { t.ImageInput = "x" }},
		"no image methods": {change: func(t *task.Patches) {
			t.ImageMethod, t.ImageInput, t.MaxSide = "", "", 0
		}, ok: true},
	} {
		var methods task.Methods
		for _, text := range []string{rows, strings.ReplaceAll(pixels, cmp.Or(c.from, "\x00"), c.to)} {
			g, err := ir.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			m := task.Method{Name: g.Name, Syms: g.Syms}
			for _, n := range g.Inputs() {
				m.Inputs = append(m.Inputs, task.Value{Name: n.Name, Type: n.Type})
			}
			for _, o := range g.Outputs {
				m.Outputs = append(m.Outputs, task.Value{Name: o.Name, Type: o.Node.Type})
			}
			methods = append(methods, m)
		}
		p := published()
		p.ImageMethod, p.ImageInput, p.MaxSide = "embed_image", "image", 128
		if c.change != nil {
			c.change(p)
		}
		if err := p.Check(methods); c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValidate checks that values are refused which would divide by zero or allocate without bound.
func TestValidatePatches(t *testing.T) {
	if err := published().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*task.Patches){
		"method": func(t *task.Patches) { t.Method = "" }, "pixels_input": func(t *task.Patches) { t.PixelsInput = "" },
		"embeddings": func(t *task.Patches) { t.Embeddings = "" },
		"patch":      func(t *task.Patches) { t.Patch = 0 }, "frames": func(t *task.Patches) { t.Frames = 65 },
		"merge":      func(t *task.Patches) { t.Merge = 0 },
		"max_pixels": func(t *task.Patches) { t.MaxPixels = 1<<28 + 1 }, "min_pixels": func(t *task.Patches) {
			t.MinPixels = 1<<24 + 1
		},
		"max_patches": func(t *task.Patches) { t.MaxPatches = 3 }, "mean": func(t *task.Patches) { t.Mean[1] = 1e7 },
		"std":          func(t *task.Patches) { t.Std[2] = 0 },
		"image_method": func(t *task.Patches) { t.ImageMethod = "embed_image" },
		"image_input":  func(t *task.Patches) { t.ImageInput = "image" }, "max_side": func(t *task.Patches) {
			t.ImageMethod, t.ImageInput, t.MaxSide = "embed_image", "image", 1<<14+1
		},
	} {
		x := published()
		change(x)
		if err := x.Validate(); !errors.Is(err, code.TaskSpec) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := published().String(); !strings.Contains(s, "65536 to 16777216") {
		t.Errorf("%q does not say how small an image may be inside", s)
	}
}
