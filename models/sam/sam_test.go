package sam

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/weights"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
	"github.com/rlx-go/rlx/task"
)

const goldens = "../../testdata/goldens/"

// open synthesises the checkpoint of a golden case and builds the model.
func open(t *testing.T, name string) (*arch.Model, weights.Stored, modeltest.SAM) {
	t.Helper()
	c := modeltest.OpenSAM(t, goldens+name)
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+name), dtype.F32)
	return modeltest.Build(t, s, c.Config, c.Set...), s, c
}

// openOriginal is like open for the results of the original code.
func openOriginal(t *testing.T, name string) (*arch.Model, weights.Stored, modeltest.SAM) {
	t.Helper()
	c := modeltest.OpenOriginalSAM(t, goldens+name)
	s := modeltest.Open(t, modeltest.Manifest(t, goldens+name), dtype.F32)
	return modeltest.Build(t, s, c.Config, c.Set...), s, c
}

// method returns a method of a model.
func method(t *testing.T, m *arch.Model, name string) *ir.Graph {
	t.Helper()
	i := slices.IndexFunc(m.Methods, func(g *ir.Graph) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("no method %s", name)
	}
	return m.Methods[i]
}

// TestGolden compares the graphs, as built and run by the reference evaluation, with results of another implementation.
func TestGolden(t *testing.T) {
	for _, name := range []string{"sam_tiny", "sam_iou_head", "sam_flags", "sam_mask_prompt_tiny", "original"} {
		t.Run(name, func(t *testing.T) {
			open := open
			if name == "original" {
				name, open = "sam_mask_prompt_tiny", openOriginal
			}
			m, s, c := open(t, name)
			param := func(name string) (*tensor.Array, error) { return modeltest.Param(s, name) }
			out, err := interp.Run(method(t, m, "encode"), nil, map[string]*tensor.Array{"image": c.Image}, param)
			if err != nil {
				t.Fatal(err)
			}
			embeddings := c.Embeddings(t)
			tensortest.Near(t, "image_embeddings", out["embeddings"], embeddings, 1e-5)
			for _, p := range c.Prompts {
				out, err := interp.Run(method(t, m, "decode"), map[string]int64{"N": int64(p.Points)},
					p.With(embeddings), param)
				if err != nil {
					t.Fatal(err)
				}
				p.Check(t, out, 2e-5)
			}
		})
	}
}

// TestBatch checks that prompts in one run give the same results as each alone.
func TestBatch(t *testing.T) {
	m, s, c := open(t, "sam_tiny")
	points, labels := tensor.NewArray(dtype.F32, 2, 2, 2), tensor.NewArray(dtype.I32, 2, 2)
	var prompts []modeltest.SAMPrompt
	for _, p := range c.Prompts {
		if p.Points == 2 {
			copy(points.Floats[4*len(prompts):], p.Inputs["points"].Floats)
			copy(labels.Ints[2*len(prompts):], p.Inputs["labels"].Ints)
			prompts = append(prompts, p)
		}
	}
	in := map[string]*tensor.Array{"embeddings": c.Embeddings(t), "points": points, "labels": labels}
	out, err := interp.Run(method(t, m, "decode_batch"), map[string]int64{"N": 2, "P": 2}, in,
		func(name string) (*tensor.Array, error) { return modeltest.Param(s, name) })
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range prompts {
		own := map[string]*tensor.Array{}
		for name, x := range out {
			per := x.Len() / 2
			own[name] = &tensor.Array{DType: x.DType, Shape: append([]int{1}, x.Shape[1:]...),
				Floats: x.Floats[i*per:][:per]}
		}
		p.Check(t, own, 2e-5)
	}
}

// TestImages checks that several images in one run give the same embeddings as each image alone, on every target, with
// windows that extend beyond the grid and without tables.
func TestImages(t *testing.T) {
	for _, name := range []string{"sam_tiny", "sam_flags"} {
		c := modeltest.OpenSAM(t, goldens+name)
		s := modeltest.Open(t, modeltest.Manifest(t, goldens+name), dtype.F32)
		compiled := modeltest.Compile(t, modeltest.Build(t, s, c.Config, append(c.Set, keyBatch+"=3")...), s)
		other := &tensor.Array{DType: dtype.F32, Shape: c.Image.Shape, Floats: slices.Clone(c.Image.Floats)}
		slices.Reverse(other.Floats)
		both := &tensor.Array{DType: dtype.F32, Shape: append([]int{2}, c.Image.Shape[1:]...),
			Floats: slices.Concat(other.Floats, c.Image.Floats)}
		for _, target := range modeltest.Targets() {
			run := func(method string, syms map[string]int64, image *tensor.Array) *tensor.Array {
				p := compiled.Find(t, method, target.Name)
				x, err := backend.Backend{}.Load(
					t.Context(), device.Load{Program: p, Weights: compiled.Weights, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				return devicetest.Once(t, x, p, syms, map[string]*tensor.Array{"image": image})["embeddings"]
			}
			got, alone := run("encode_batch", map[string]int64{"B": 2}, both), run("encode", nil, other)
			per := alone.Len()
			for i, want := range []*tensor.Array{alone, c.Embeddings(t)} {
				one := &tensor.Array{DType: dtype.F32, Shape: want.Shape, Floats: got.Floats[i*per:][:per]}
				tensortest.Near(t, name+" on "+target.Name, one, want, 1e-5)
			}
		}
	}
}

// renamed is a checkpoint with other names.
type renamed struct {
	weights.Stored
	rename func(string) string
}

func (r renamed) Names() []string {
	var out []string
	for _, n := range r.Stored.Names() {
		out = append(out, r.rename(n))
	}
	slices.Sort(out)
	return out
}

func (r renamed) Type(name string) (ir.Type, bool) {
	for _, n := range r.Stored.Names() {
		if r.rename(n) == name {
			return r.Stored.Type(n)
		}
	}
	return ir.Type{}, false
}

// TestTransformersNames builds the same graphs from a checkpoint with the names of the Transformers library. The
// decoder's norms must then use that library's epsilon by default.
func TestTransformersNames(t *testing.T) {
	original, s, c := open(t, "sam_tiny")
	theirs := transformersName(3)
	var cfg arch.Config
	if err := cfg.Set(c.Set[0], keys); err != nil {
		t.Fatal(err)
	}
	other, err := build(renamed{s, func(n string) string { return theirs(n)[0] }}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range original.Methods {
		if other.Methods[i].String() != g.String() {
			t.Errorf("%s differs between names", g.Name)
		}
	}
	if len(other.Params) != len(original.Params) {
		t.Errorf("%d params, want %d", len(other.Params), len(original.Params))
	}
	plain, err := build(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if text := method(t, plain, "decode").String(); strings.Count(text, "eps=1e-05") != 9 {
		t.Errorf("%d norms of the decoder have the epsilon of the original code; want 9",
			strings.Count(text, "eps=1e-05"))
	}
}

// edit opens sam_tiny without the tensors for which keep is false, and with the entries in add.
func edit(t *testing.T, keep func(name string) bool, add ...synth.Entry) weights.Stored {
	t.Helper()
	es := modeltest.Manifest(t, goldens+"sam_tiny")
	es = slices.DeleteFunc(es, func(e synth.Entry) bool { return !keep(e.Name) })
	return modeltest.Open(t, append(es, add...), dtype.F32)
}

// TestHalves checks checkpoints with only the encoder or the decoder. Their graphs equal those of the whole, and they
// have no task.
func TestHalves(t *testing.T) {
	whole, _, c := open(t, "sam_tiny")
	for _, half := range []struct {
		name    string
		methods []string
		set     []string
	}{
		{"image_encoder.", []string{"encode"}, nil},
		{"", []string{"decode", "decode_batch"}, append(slices.Clone(c.Set), keyImageSize+"=128", keyGrid+"=8")},
	} {
		s := edit(t, func(n string) bool { return strings.HasPrefix(n, "image_encoder.") == (half.name != "") })
		m := modeltest.Build(t, s, "", half.set...)
		var have []string
		for _, g := range m.Methods {
			have = append(have, g.Name)
			if want := method(t, whole, g.Name); g.String() != want.String() {
				t.Errorf("%s differs from that of the whole model", g.Name)
			}
		}
		if !slices.Equal(have, half.methods) || m.Task != nil {
			t.Errorf("methods %v, task %v; want %v and none", have, m.Task, half.methods)
		}
	}
}

// TestIoUHead checks that the head has as many layers as the checkpoint, with the names of either release.
func TestIoUHead(t *testing.T) {
	const head = "mask_decoder.iou_prediction_head."
	layers := func(sizes ...int) (es []synth.Entry) {
		for i, n := range sizes[1:] {
			prefix := head + "layers." + string(rune('0'+i))
			es = append(es, synth.Entry{Name: prefix + ".weight", Shape: []int{n, sizes[i]}, Scale: 0.3},
				synth.Entry{Name: prefix + ".bias", Shape: []int{n}})
		}
		return es
	}
	for _, sizes := range [][]int{{16, 4}, {16, 5, 4}, {16, 9, 9, 9, 4}} {
		s := edit(t, func(n string) bool { return !strings.HasPrefix(n, head) }, layers(sizes...)...)
		m := modeltest.Build(t, s, "", "mask_decoder_config.num_attention_heads=2")
		n := 0
		for _, p := range m.Params {
			if strings.HasPrefix(p.Name, head) {
				n++
			}
		}
		if n != 2*(len(sizes)-1) {
			t.Errorf("%v: %d tensors of the head; want a weight and a bias for each of %d layers", sizes, n,
				len(sizes)-1)
		}
		if len(sizes) == 2 {
			continue // Transformers has at least two
		}
		theirs := transformersName(int64(len(sizes) - 1))
		if _, err := build(renamed{s, func(n string) string { return theirs(n)[0] }}, arch.Config{}); err != nil {
			t.Errorf("%v: %v", sizes, err)
		}
	}
}

// TestRefused checks checkpoints and configurations that are ambiguous or contradict themselves.
func TestRefused(t *testing.T) {
	all := func(string) bool { return true }
	theirs := transformersName(3)
	noTables := func(n string) bool { return !strings.Contains(n, "rel_pos") }
	encoder := func(n string) bool { return strings.HasPrefix(n, "image_encoder.") }
	for name, c := range map[string]struct {
		keep   func(string) bool
		rename func(string) string
		set    []string
		code   error
		text   string
	}{
		"mixed releases": {all, func(n string) string {
			if encoder(n) {
				return theirs(n)[0]
			}
			return n
		}, nil, arch.ErrTensor, "use the names of one release only"},
		"no tables": {noTables, nil, nil, arch.ErrTensor, "rel_pos_h: tensor is missing"},
		"no heads": {noTables, nil, []string{keyRelPos + "=false", keyWindow + "=3", keyGlobal + "=[1]"},
			arch.ErrConfig, keyEncoderHeads},
		"no window": {noTables, nil,
			[]string{keyRelPos + "=false", keyEncoderHeads + "=2", keyGlobal + "=[1]"}, arch.ErrConfig, keyWindow},
		"no global": {noTables, nil,
			[]string{keyRelPos + "=false", keyEncoderHeads + "=2", keyWindow + "=3"}, arch.ErrConfig, keyGlobal},
		"global of another": {noTables, nil,
			[]string{keyRelPos + "=false", keyEncoderHeads + "=2", keyWindow + "=3", keyGlobal + "=[4]"},
			arch.ErrConfig, "names block 4; there are 0 to 3"},
		"tables without use": {all, nil,
			[]string{keyRelPos + "=false", keyEncoderHeads + "=2", keyWindow + "=3", keyGlobal + "=[1]"},
			arch.ErrTensor, "is not part of the model"},
		"no absolute positions": {func(n string) bool { return n != absPos }, nil, nil, arch.ErrUnknown,
			"missing image_encoder.pos_embed, or a config.json that says model_type sam"},
		"tables of one axis": {func(n string) bool { return !strings.HasSuffix(n, "rel_pos_w") }, nil, nil,
			arch.ErrTensor, "rel_pos_w: tensor is missing"},
		"no bias": {func(n string) bool { return !strings.HasSuffix(n, "qkv.bias") }, nil, nil,
			arch.ErrTensor, "qkv.bias: tensor is missing"},
		"half a mask prompt": {func(n string) bool { return n != "prompt_encoder.mask_downscaling.3.weight" }, nil,
			nil, arch.ErrTensor, "mask_downscaling.3.weight: tensor is missing"},
		"no IoU head": {func(n string) bool { return !strings.Contains(n, "iou_prediction_head") }, nil, nil,
			arch.ErrTensor, "iou_prediction_head.layers.0.weight: tensor is missing"},
		"half an encoder": {func(n string) bool { return n != "image_encoder.neck.0.weight" }, nil, nil,
			arch.ErrUnknown, "image_encoder.neck.0.weight"},
		"a batch of no images": {func(n string) bool { return !encoder(n) }, nil, []string{keyBatch + "=2"},
			arch.ErrConfig, "has no image encoder"},
		"a grid that does not divide": {func(n string) bool { return !encoder(n) }, nil,
			[]string{keyImageSize + "=1000", keyGrid + "=64"}, arch.ErrConfig, "want a whole number of pixels"},
		"another configuration": {all, nil, []string{keyGrid + "=64"}, arch.ErrConfig, "the tensors say 8"},
	} {
		s := edit(t, c.keep)
		set := append([]string{"mask_decoder_config.num_attention_heads=2"}, c.set...)
		var err error
		if c.rename == nil {
			_, err = modeltest.TryBuild(s, "", set...)
		} else {
			_, err = arch.Find("auto", renamed{s, c.rename}, "", "")
			if err == nil {
				_, err = build(renamed{s, c.rename}, arch.Config{})
			}
		}
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.code, c.text)
		}
	}
}

// TestPositions leaves out absolute positions, and relative ones of one axis, and compares the embeddings with those of
// Transformers, on the reference and compiled on every target of the cpu backend. It does so whether the checkpoint has
// the tensors or not.
func TestPositions(t *testing.T) {
	all := func(string) bool { return true }
	config := func(vision string) string {
		path := filepath.Join(t.TempDir(), "config.json")
		text := `{"model_type":"sam","vision_config":{` + vision + `},"mask_decoder_config":{"num_attention_heads":2}}`
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	image := modeltest.OpenSAM(t, goldens+"sam_tiny").Image
	noAbs, noH := func(n string) bool { return n != absPos }, func(n string) bool {
		return !strings.HasSuffix(n, "rel_pos_h")
	}
	for _, c := range []struct {
		golden, name string
		keep         func(string) bool
		config       string
		unused       int
	}{
		{"no_abs_pos", "absent", noAbs, `"use_abs_pos":false,"image_size":128`, 0},
		{"no_abs_pos", "left out", all, `"use_abs_pos":false,"image_size":128`, 1},
		{"no_rel_pos_h", "absent", noH, `"use_rel_pos_h":false`, 0},
		{"no_rel_pos_h", "left out", all, `"use_rel_pos_h":false`, 4},
		{"no_rel_pos_w", "left out", all, `"use_rel_pos_w":false`, 4},
	} {
		t.Run(c.golden+", "+c.name, func(t *testing.T) {
			s := edit(t, c.keep)
			m := modeltest.Build(t, s, config(c.config))
			want := tensortest.Golden(t, goldens+"sam_tiny/positions.safetensors:"+c.golden)
			in := map[string]*tensor.Array{"image": image}
			out, err := interp.Run(method(t, m, "encode"), nil, in,
				func(name string) (*tensor.Array, error) { return modeltest.Param(s, name) })
			if err != nil {
				t.Fatal(err)
			}
			tensortest.Near(t, "on the reference", out["embeddings"], want, 1e-5)
			if len(m.Skipped) != c.unused ||
				c.unused > 0 && !strings.Contains(m.Skipped[0].Reason, "=false leaves out") {
				t.Errorf("unused are %v; want %d, with the reason", m.Skipped, c.unused)
			}
			if !slices.ContainsFunc(m.Facts, func(f arch.Fact) bool { return f.Name == "no positions" }) {
				t.Errorf("the facts %v do not say which positions are left out", m.Facts)
			}
			compiled := modeltest.Compile(t, m, s)
			for _, target := range modeltest.Targets() {
				p := compiled.Find(t, "encode", target.Name)
				x, err := backend.Backend{}.Load(
					t.Context(), device.Load{Program: p, Weights: compiled.Weights, Threads: 2})
				if err != nil {
					t.Fatal(err)
				}
				tensortest.Near(t, "on "+target.Name, devicetest.Once(t, x, p, nil, in)["embeddings"], want, 1e-5)
				x.Close()
			}
		})
	}
	for name, c := range map[string]struct{ config, text string }{
		"no switch": {`"image_size":128`, "say so with --set vision_config.use_abs_pos=false"},
		"patches": {`"use_abs_pos":false,"image_size":120`,
			"vision_config.image_size is 120; want a multiple of the patch, 16"},
		"the default": {`"use_abs_pos":false,"num_hidden_layers":5`, "num_hidden_layers is 5; the tensors say 4"},
	} {
		_, err := modeltest.TryBuild(edit(t, noAbs), config(c.config))
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", name, err, c.text)
		}
	}
	var cfg arch.Config
	if err := cfg.Set(keyAbsPos+"=false", keys); err != nil {
		t.Fatal(err)
	}
	if _, err := build(edit(t, noAbs), cfg); !errors.Is(err, arch.ErrConfig) ||
		!strings.Contains(err.Error(), "vision_config.image_size: is not given") {
		t.Errorf("without a size: %v", err)
	}
}

// TestTask checks that the task offers mask prompts if the checkpoint has weights for them.
func TestTask(t *testing.T) {
	m, _, _ := open(t, "sam_tiny")
	if s := m.Task.(*task.Segment); s.MaskInput != "mask" || s.MaskSide != 32 || s.BatchMethod != "decode_batch" {
		t.Errorf("%+v", s)
	}
	m = modeltest.Build(t, edit(t, func(n string) bool { return !strings.Contains(n, "mask_downscaling") }), "",
		"mask_decoder_config.num_attention_heads=2")
	if s := m.Task.(*task.Segment); s.MaskInput != "" || s.MaskSide != 0 {
		t.Errorf("without weights: %+v", s)
	}
	if slices.ContainsFunc(method(t, m, "decode").Inputs(), func(n *ir.Node) bool { return n.Name == "mask" }) {
		t.Error("decode takes a mask without weights for it")
	}
}
