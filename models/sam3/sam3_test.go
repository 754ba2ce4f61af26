package sam3

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/modeltest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/models/weights"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

const (
	tiny  = "../../testdata/goldens/sam3_vision_tiny/"
	neck8 = "../../testdata/goldens/sam3_neck/"
)

var image = synth.Tensor("sam3_vision_tiny.image", []int{1, 3, 112, 112}, 1.7, 0)

// check compares results with a golden.
func check(t *testing.T, out map[string]*tensor.Array, golden string, tol float64) {
	t.Helper()
	for name, x := range out {
		tensortest.Near(t, name, x, tensortest.Golden(t, golden+"golden.safetensors:"+name), tol)
	}
}

// TestGolden runs the trunk with the neck, as built on the reference and compiled on the cpu backend.
func TestGolden(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32)
	m := modeltest.Build(t, s, tiny+"config.json")
	in := map[string]*tensor.Array{"image": tensortest.F32([]int{1, 3, 112, 112}, image)}
	out, err := interp.Run(m.Methods[1], nil, in, func(name string) (*tensor.Array, error) {
		return modeltest.Param(s, originalPrefixes[0]+name)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 9 {
		t.Errorf("%d results; want tokens, and features and positions of 4 levels", len(out))
	}
	check(t, out, tiny, 1e-5)
	c := modeltest.Compile(t, m, s)
	for _, target := range modeltest.Targets() {
		p := c.Find(t, "encode", target.Name)
		x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		check(t, devicetest.Once(t, x, p, nil, in), tiny, 1e-5)
		x.Close()
		if target.Name != "portable" {
			copies(t, p)
		}
	}
}

// copies checks the number of steps that copy tokens to reorder them by windows or heads: two for the image, one for
// the tokens of all blocks, one for each level. It also checks that no value is as large as the scores of a global
// layer.
func copies(t *testing.T, p *program.Program) {
	t.Helper()
	n := 0
	for _, x := range p.Graph.Nodes {
		if x.Is(op.TransposeDef) {
			n++
		}
		if s := x.Type.Shape; len(s) >= 4 && s[len(s)-1].Is(64) && s[len(s)-2].Is(64) {
			t.Errorf("%s: %v is a matrix of scores for each head", p.Target, x)
		}
	}
	if n != 7 {
		t.Errorf("%s: %d transposes; want 7", p.Target, n)
	}
}

// TestNeck runs the neck at its published width, from a checkpoint without a trunk.
func TestNeck(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, neck8), dtype.F32)
	m := modeltest.Build(t, s, "", keyImage+"=112")
	if len(m.Methods) != 1 {
		t.Fatalf("%d methods; want neck alone", len(m.Methods))
	}
	target := modeltest.Targets()[:1]
	c := modeltest.Compile(t, m, s, target...)
	p := c.Find(t, "neck", target[0].Name)
	x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	shape := []int{1, 64, 1024}
	out := devicetest.Once(
		t, x, p, nil,
		map[string]*tensor.Array{"tokens": tensortest.F32(shape, synth.Tensor("sam3_neck.tokens", shape, 1, 0))})
	check(t, out, neck8, 1e-5)
}

// edit opens the tiny model after changing its manifest.
func edit(t *testing.T, change func([]synth.Entry) []synth.Entry) weights.Stored {
	t.Helper()
	return modeltest.Open(t, change(modeltest.Manifest(t, tiny)), dtype.F32)
}

// library is the naming of Transformers.
var library = naming{prefix: transformersPrefixes[0], transformers: true}

// theirs renames a manifest to the names of Transformers, which has separate q, k and v and no class token.
func theirs(es []synth.Entry) (out []synth.Entry) {
	for _, e := range es {
		name := strings.TrimPrefix(e.Name, originalPrefixes[0])
		e.Shape = slices.Clone(e.Shape)
		switch {
		case name == "trunk.pos_embed":
			e.Shape[1]--
		case strings.Contains(name, ".qkv."):
			e.Shape[0] /= 3
		}
		for _, part := range arch.Parts(library.names(name)[0]) {
			one := e
			one.Name = part
			out = append(out, one)
		}
	}
	return out
}

// index returns the place of the entry whose name ends in suffix.
func index(es []synth.Entry, suffix string) int {
	return slices.IndexFunc(es, func(e synth.Entry) bool { return strings.HasSuffix(e.Name, suffix) })
}

// withTracker adds the detector's heads under the names of those of the tracker.
func withTracker(es []synth.Entry) []synth.Entry {
	for _, e := range es {
		if head, ok := strings.CutPrefix(e.Name, originalPrefixes[0]+"convs."); ok {
			e.Name = originalPrefixes[0] + "sam2_convs." + head
			es = append(es, e)
		}
	}
	return es
}

// prefixed replaces the prefix of the whole checkpoint.
func prefixed(es []synth.Entry, prefix string) []synth.Entry {
	for i, e := range es {
		es[i].Name = prefix + strings.TrimPrefix(e.Name, originalPrefixes[0])
	}
	return es
}

// TestPrefixes builds the same graphs from checkpoints of the detector and of its backbone. Other parts of these are
// listed with the reason.
func TestPrefixes(t *testing.T) {
	whole := modeltest.Build(t, modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32), tiny+"config.json")
	for _, prefix := range originalPrefixes {
		others := []string{strings.TrimSuffix(prefix, "vision_backbone.") + "language_backbone.w", prefix +
			"sam2_convs.0.conv_1x1.weight"}
		s := edit(t, func(es []synth.Entry) []synth.Entry {
			es = prefixed(es, prefix)
			for _, n := range others {
				es = append(es, synth.Entry{Name: n, Shape: []int{2}})
			}
			return es
		})
		family, err := arch.Find("auto", s, "x", "")
		if err != nil || family.Name != "sam3" {
			t.Fatalf("%s: recognised as %q, %v", prefix, family.Name, err)
		}
		m := modeltest.Build(t, s, tiny+"config.json")
		for i, g := range whole.Methods {
			if m.Methods[i].String() != g.String() {
				t.Errorf("%s: %s differs from that of the whole checkpoint", prefix, g.Name)
			}
		}
		if len(m.Skipped) != 2 || m.Skipped[0].Reason == "" || m.Skipped[1].Reason == "" {
			t.Errorf("%s: unused are %v; want %v", prefix, m.Skipped, others)
		}
	}
}

// TestOddGrids compares grids of 5x5 and 7x7 tokens, whose smallest level rounds down, with Transformers, as built on
// the reference and compiled on the cpu backend. Windows of 4 extend beyond both.
func TestOddGrids(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32)
	for _, grid := range []int{5, 7} {
		side := 14 * grid
		m := modeltest.Build(t, s, tiny+"config.json", fmt.Sprintf("%s=%d", keyImage, side))
		shape := []int{1, 3, side, side}
		in := map[string]*tensor.Array{
			"image": tensortest.F32(shape, synth.Tensor("sam3_vision_tiny.image", shape, 1.7, 0))}
		compare := func(where string, out map[string]*tensor.Array) {
			for _, name := range []string{"tokens", "level2.features", "level3.features", "level3.pos"} {
				golden := tensortest.Golden(t, fmt.Sprintf("%sodd.safetensors:%d.%s", tiny, grid, name))
				tensortest.Near(t, fmt.Sprint(name, " of ", grid, " on ", where), out[name], golden, 1e-5)
			}
		}
		out, err := interp.Run(m.Methods[1], nil, in, func(name string) (*tensor.Array, error) {
			return modeltest.Param(s, originalPrefixes[0]+name)
		})
		if err != nil {
			t.Fatal(err)
		}
		compare("the reference", out)
		c := modeltest.Compile(t, m, s)
		for _, target := range modeltest.Targets() {
			p := c.Find(t, "encode", target.Name)
			x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			compare(target.Name, devicetest.Once(t, x, p, nil, in))
			x.Close()
		}
	}
}

// TestTransformersNames checks that a checkpoint with the names of the library gives the results of the original for
// equal tensors.
func TestTransformersNames(t *testing.T) {
	original := modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32)
	m := modeltest.Build(t, edit(t, theirs), tiny+"config.json")
	param := func(name string) (*tensor.Array, error) {
		a, err := modeltest.Param(original, originalPrefixes[0]+name)
		if name == "trunk.pos_embed" && err == nil {
			a.Shape, a.Floats = []int{1, 16, 64}, a.Floats[64:]
		}
		return a, err
	}
	out, err := interp.Run(
		m.Methods[1], nil, map[string]*tensor.Array{"image": tensortest.F32([]int{1, 3, 112, 112}, image)}, param)
	if err != nil {
		t.Fatal(err)
	}
	check(t, out, tiny, 1e-5)
	at := transformersPrefixes[0] + "backbone.layers.2.attention."
	want := arch.Param{Name: "trunk.blocks.2.attn.qkv.bias", Source: at + "q_proj.bias|" + at + "k_proj.bias|" + at +
		"v_proj.bias"}
	if !slices.Contains(m.Params, want) {
		t.Errorf("the model's parameters lack %+v", want)
	}
}

// TestUnused checks that tensors of a SAM 3 that are not used are listed with a reason, and that foreign tensors are
// refused.
func TestUnused(t *testing.T) {
	other := []string{"detector.transformer.encoder.w", originalPrefixes[0] + "sam2_convs.0.conv_1x1.weight",
		"tracker.memory.w", originalPrefixes[0] + "trunk.blocks.0.attn.freqs_cis"}
	add := func(names ...string) func([]synth.Entry) []synth.Entry {
		return func(es []synth.Entry) []synth.Entry {
			for _, n := range names {
				es = append(es, synth.Entry{Name: n, Shape: []int{2}})
			}
			return es
		}
	}
	m := modeltest.Build(t, edit(t, add(other...)), tiny+"config.json")
	var have []string
	for _, u := range m.Skipped {
		have = append(have, u.Tensor)
		if u.Reason == "" {
			t.Errorf("%s is unused without a reason", u.Tensor)
		}
	}
	slices.Sort(other)
	if !slices.Equal(have, other) {
		t.Errorf("unused are %v; want %v", have, other)
	}
	if !strings.Contains(m.Skipped[0].Reason, "--set sam2_convs=true") {
		t.Errorf("%v; want how the heads of the tracker are built", m.Skipped[0])
	}
	if _, err := modeltest.TryBuild(edit(t, add(originalPrefixes[0]+"trunk.extra")), tiny+"config.json"); !errors.Is(
		err, arch.ErrTensor) || !strings.Contains(err.Error(), "trunk.extra: tensor f32[2] is not part of the model") {
		t.Errorf("an alien tensor: %v", err)
	}
}

// TestSAM2 builds the heads of the tracker, with the names of either release. With the detector's weights they must
// give the detector's results.
func TestSAM2(t *testing.T) {
	original := modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32)
	for i, rename := range []func([]synth.Entry) []synth.Entry{func(es []synth.Entry) []synth.Entry { return es },
		theirs} {
		s := edit(t, func(es []synth.Entry) []synth.Entry { return rename(withTracker(es)) })
		m := modeltest.Build(t, s, tiny+"config.json", keySAM2+"=true")
		if len(m.Methods) != 3 || m.Methods[2].Name != "sam2_neck" || len(m.Skipped) != 0 {
			t.Fatalf("naming %d: %d methods, unused are %v; want neck, encode and sam2_neck, and none", i,
				len(m.Methods), m.Skipped)
		}
		tokens := tensortest.Golden(t, tiny+"golden.safetensors:tokens")
		out, err := interp.Run(m.Methods[2], nil, map[string]*tensor.Array{"tokens": tokens},
			func(name string) (*tensor.Array, error) {
				return modeltest.Param(original, strings.Replace(originalPrefixes[0]+name, "sam2_", "", 1))
			})
		if err != nil {
			t.Fatal(err)
		}
		check(t, out, tiny, 1e-5)
	}
	if _, err := modeltest.TryBuild(edit(t, func(es []synth.Entry) []synth.Entry { return es }), tiny+"config.json",
		keySAM2+"=true"); !errors.Is(err, arch.ErrTensor) || !strings.Contains(err.Error(),
		"sam2_convs.0.dconv_2x2_0.weight: tensor is missing") {
		t.Errorf("without the heads: %v", err)
	}
}

// TestRefused checks that checkpoints and configurations that do not fit are refused.
func TestRefused(t *testing.T) {
	without := func(part string) func([]synth.Entry) []synth.Entry {
		return func(es []synth.Entry) []synth.Entry {
			return slices.DeleteFunc(es, func(e synth.Entry) bool { return strings.Contains(e.Name, part) })
		}
	}
	same := func(es []synth.Entry) []synth.Entry { return es }
	for name, c := range map[string]struct {
		change func([]synth.Entry) []synth.Entry
		set    string
		code   error
		text   string
	}{
		"a missing level": {without("convs.2."), "", arch.ErrTensor,
			"convs.2.conv_1x1.weight: tensor is missing; expected [32,64,1,1], in the detector's neck, scale 1"},
		"a missing first level": {without("convs.0.conv_3x3.w"), "", arch.ErrTensor,
			"tensor is missing; expected [channels, channels, 3, 3], in the detector's neck, scale 4"},
		"a narrow level": {func(es []synth.Entry) []synth.Entry {
			es[index(es, "convs.3.conv_3x3.weight")].Shape = []int{16, 32, 3, 3}
			return es
		}, "", arch.ErrTensor,
			"tensor is f32[16,32,3,3]; expected [32,32,3,3], in the detector's neck, scale 0.5"},
		"a level of the tracker": {func(es []synth.Entry) []synth.Entry {
			return without("sam2_convs.1.conv_3x3.bias")(withTracker(es))
		}, keySAM2 + "=true", arch.ErrTensor,
			"sam2_convs.1.conv_3x3.bias: tensor is missing; expected [32], in the tracker's neck, scale 2"},
		"two prefixes": {func(es []synth.Entry) []synth.Entry {
			return append(es, prefixed(slices.Clone(es), originalPrefixes[2])...)
		}, "", arch.ErrTensor, "with prefix vision_backbone.; use the names of one release only"},
		"mixed releases": {func(es []synth.Entry) []synth.Entry {
			return append(without("convs.")(slices.Clone(es)),
				theirs(
					slices.DeleteFunc(es, func(e synth.Entry) bool { return strings.Contains(e.Name, "trunk.") }))...)
		}, "", arch.ErrTensor, "use the names of one release only"},
		"no neck":                  {without("convs."), "", arch.ErrUnknown, "none, such as detector.backbone"},
		"an image of half a patch": {same, keyImage + "=91", arch.ErrConfig, "want a multiple of the patch, 14"},
		"an image below a patch":   {same, keyImage + "=7", arch.ErrConfig, "want a multiple of the patch, 14"},
		"an image of a patch":      {same, keyImage + "=14", arch.ErrConfig, "and two patches at least"},
		"heads":                    {same, keyHeads + "=5", arch.ErrConfig, "must be multiples of 4"},
		"a global block":           {same, keyGlobal + "=[4]", arch.ErrConfig, "names block 4; there are 0 to 3"},
		"scales":                   {same, keyScales + "=[4.0,2.0,1.0]", arch.ErrConfig, "want [4, 2, 1, 0.5]"},
		"theta":                    {same, keyTheta + "=0", arch.ErrConfig, "want 1 or more"},
		"activation":               {same, keyAct + "=nothing", arch.ErrConfig, "want one of"},
		"q without k": {func(es []synth.Entry) []synth.Entry { return without("3.attention.k_proj.w")(theirs(es)) }, "",
			arch.ErrTensor,
			"layers.3.attention.k_proj.weight: tensor is missing; expected [64,64]"},
		"a narrow v": {func(es []synth.Entry) []synth.Entry {
			es = theirs(es)
			es[slices.IndexFunc(
				es, func(e synth.Entry) bool {
					return strings.Contains(e.Name, "1.attention.v_proj.w")
				})].Shape = []int{32, 64}
			return es
		}, "", arch.ErrTensor, "layers.1.attention.v_proj.weight: tensor is f32[32,64]; expected [64,64]"},
		"another patch": {same, keyPatch + "=16", arch.ErrConfig, "the tensors say 14"},
		"position embeddings": {func(es []synth.Entry) []synth.Entry {
			es[0].Shape = []int{1, 15, 64}
			return es
		}, "", arch.ErrTensor, "or one row more for a class token"},
	} {
		set := []string{}
		if c.set != "" {
			set = append(set, c.set)
		}
		_, err := modeltest.TryBuild(edit(t, c.change), tiny+"config.json", set...)
		if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.code, c.text)
		}
	}
}

// TestWindows checks windows that extend beyond the grid against their definition, which pads with zeros.
func TestWindows(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32)
	in := map[string]*tensor.Array{"image": tensortest.F32([]int{1, 3, 112, 112}, image)}
	run := func(set string) (*ir.Graph, map[string]*tensor.Array) {
		m := modeltest.Build(t, s, tiny+"config.json", keyWindow+"="+set)
		c := modeltest.Compile(t, m, s, modeltest.Targets()[:1]...)
		p := c.Find(t, "encode", modeltest.Targets()[0].Name)
		x, err := backend.Backend{}.Load(t.Context(), device.Load{Program: p, Weights: c.Weights, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		return m.Methods[1], devicetest.Once(t, x, p, nil, in)
	}
	g, got := run("3")
	want, err := interp.Run(g, nil, in, func(name string) (*tensor.Array, error) {
		return modeltest.Param(s, originalPrefixes[0]+name)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range got {
		tensortest.Near(t, name, x, want[name], 1e-5)
	}
}

// TestTiled checks that tokens stored window by window give the same results as windows cut in each block.
func TestTiled(t *testing.T) {
	s := modeltest.Open(t, modeltest.Manifest(t, tiny), dtype.F32)
	in := map[string]*tensor.Array{"image": tensortest.F32([]int{1, 3, 112, 112}, image)}
	var out [2]map[string]*tensor.Array
	for i := range out {
		var cfg arch.Config
		if err := errors.Join(cfg.Load(tiny+"config.json"), cfg.Set(keyWindow+"=2", keys)); err != nil {
			t.Fatal(err)
		}
		w := nn.NewWeights(s, namings()[0].names)
		c, err := readConfig(w, naming{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !c.tiled {
			t.Fatal("windows of 2 do not tile a grid of 8")
		}
		c.tiled = i == 0
		g, err := w.Graph("encode", nil, func(root nn.Scope) { encode(c, root) })
		if err != nil {
			t.Fatal(err)
		}
		out[i], err = interp.Run(g, nil, in, func(name string) (*tensor.Array, error) {
			return modeltest.Param(s, originalPrefixes[0]+name)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range out[0] {
		tensortest.Near(t, name, x, out[1][name], 1e-6)
	}
}
