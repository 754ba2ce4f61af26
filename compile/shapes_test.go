package compile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/models/arch"
)

// shapes is a checkpoint that has only types and no values.
type shapes map[string]ir.Type

func (s shapes) Names() []string { return slices.Sorted(maps.Keys(s)) }

func (s shapes) Type(name string) (ir.Type, bool) {
	t, ok := s[name]
	return t, ok
}

func tinyShapes(t testing.TB) shapes {
	es, err := synth.ReadManifest("../testdata/goldens/sam_tiny/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	s := shapes{}
	for _, e := range es {
		typ := ir.Type{DType: dtype.F32}
		for _, d := range e.Shape {
			typ.Shape = append(typ.Shape, ir.Static(int64(d)))
		}
		s[e.Name] = typ
	}
	return s
}

var expected = regexp.MustCompile(`expected (\[[0-9,]*\])$`)

// buildRepaired builds the model. As long as an error says which shape a tensor should have, it gives the tensor that
// shape and tries again. So one changed size spreads to all tensors that depend on it, and the builder gets past its
// first check.
func buildRepaired(s shapes, heads int64) (*arch.Model, error) {
	family, err := arch.Find("sam", s, "test", "")
	if err != nil {
		return nil, err
	}
	var cfg arch.Config
	if err := cfg.Set(fmt.Sprintf("mask_decoder_config.num_attention_heads=%d", heads), family.Keys); err != nil {
		return nil, err
	}
	var m *arch.Model
	for range 2 * len(s) {
		m, err = family.Build(s, cfg)
		e, ok := errors.AsType[*diag.Error](err)
		if !ok {
			return m, err
		}
		want := expected.FindStringSubmatch(e.Msg)
		if want == nil {
			return m, err
		}
		shape, perr := ir.ParseShape(want[1])
		if perr != nil || s[e.Subject].Shape.Equal(shape) {
			return m, err
		}
		s[e.Subject] = ir.Type{DType: dtype.F32, Shape: shape}
	}
	return m, err
}

// compileShapes compiles a model without constant folding, because there are no values.
func compileShapes(m *arch.Model) error {
	_, err := driver.Compile(context.Background(), m.Methods,
		driver.Options{Targets: driver.Defaults(), Layout: layout})
	return (&Model{path: "test", blame: badSizes("test")}).withCode(context.Background(), err)
}

// TestBadSizes checks that the error has a code if the tensors agree on sizes that the compiler cannot represent.
func TestBadSizes(t *testing.T) {
	s := tinyShapes(t)
	for i := range 4 { // with four heads; with two, the scores of a window are just within the limits
		for _, axis := range []string{"h", "w"} {
			name := fmt.Sprintf("image_encoder.blocks.%d.attn.rel_pos_%s", i, axis)
			s[name] = ir.TypeOf(dtype.F32, s[name].Shape[0].Const, 8)
		}
	}
	s["image_encoder.blocks.0.attn.rel_pos_h"] = ir.TypeOf(dtype.F32, 2999, 8)
	s["image_encoder.blocks.0.attn.rel_pos_w"] = ir.TypeOf(dtype.F32, 2999, 8)
	m, err := buildRepaired(s, 2)
	if err == nil {
		err = compileShapes(m)
	}
	if !errors.Is(err, arch.ErrTensor) {
		t.Errorf("a window of 1500 tokens: %v", err)
	}
}

// asked counts how often the checkpoint is asked for a tensor.
type asked struct {
	shapes
	times *int
}

func (a asked) Type(name string) (ir.Type, bool) {
	*a.times++
	return a.shapes.Type(name)
}

// TestCubic checks that a builder stops at the first missing tensor, even if the names promise many more layers. It
// once built them all, in time that grew with the cube of their number.
func TestCubic(t *testing.T) {
	family, err := arch.Find("sam", nil, "test", "")
	if err != nil {
		t.Fatal(err)
	}
	times := func(layers int) (n int) {
		s := tinyShapes(t)
		for i := 2; i < layers; i++ {
			s[fmt.Sprintf("mask_decoder.transformer.layers.%d.norm1.weight", i)] = ir.TypeOf(dtype.F32, 16)
		}
		var cfg arch.Config
		if err := cfg.Set("mask_decoder_config.num_attention_heads=2", family.Keys); err != nil {
			t.Fatal(err)
		}
		if _, err := family.Build(asked{s, &n}, cfg); !errors.Is(err, arch.ErrTensor) {
			t.Fatal(err)
		}
		return n
	}
	if few, many := times(100), times(2100); many-few > 2*2000 {
		t.Errorf("100 layers are %d look-ups, 2100 are %d: more than two for each layer that is not complete", few,
			many)
	}
}

var sizes = []int64{0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 64, 255, 999, 2999, 4096, 1 << 16, 1<<20 - 1, 1 << 20,
	1<<31 - 1, 1 << 32, 1<<40 - 1, 1 << 40, 1 << 44, 1<<62 - 1, 1<<63 - 1}

// resize changes model sizes at the tensors that determine them. buildRepaired changes the others.
func resize(s shapes, rng *rand.Rand) {
	pick := func(usual int64) int64 {
		if rng.IntN(3) > 0 {
			return usual
		}
		return sizes[rng.IntN(len(sizes))]
	}
	grid, patch, width, embed := pick(8), pick(16), pick(32), pick(16)
	set := func(name string, dims ...int64) { s[name] = ir.TypeOf(dtype.F32, dims...) }
	set("image_encoder.pos_embed", 1, grid, grid, width)
	set("image_encoder.patch_embed.proj.weight", width, 3, patch, patch)
	head := pick(width / 2)
	for i, window := range []int64{pick(3), grid, pick(3), grid} {
		set(fmt.Sprintf("image_encoder.blocks.%d.attn.rel_pos_h", i), 2*window-1, head)
		set(fmt.Sprintf("image_encoder.blocks.%d.mlp.lin1.weight", i), pick(128), width)
	}
	set("image_encoder.neck.0.weight", embed, width, 1, 1)
	set("mask_decoder.mask_tokens.weight", pick(4), embed)
	set("mask_decoder.transformer.layers.0.mlp.lin1.weight", pick(64), embed)
	set("mask_decoder.iou_prediction_head.layers.0.weight", pick(16), embed)
}

// damage makes one tensor invalid.
func damage(s shapes, rng *rand.Rand) {
	name := s.Names()[rng.IntN(len(s))]
	t := ir.Type{DType: s[name].DType, Shape: slices.Clone(s[name].Shape)}
	switch k := rng.IntN(5); {
	case k == 0:
		t.Shape = append(t.Shape, ir.Static(sizes[rng.IntN(len(sizes))]))
	case k == 1:
		t.Shape = t.Shape[:len(t.Shape)-1]
	case k == 2:
		t.DType = []dtype.DType{dtype.Invalid, dtype.F64, dtype.F16, dtype.BF16, dtype.I32, dtype.Bool}[rng.IntN(6)]
	case k == 3:
		delete(s, name)
		return
	default:
		t.Shape[rng.IntN(len(t.Shape))] = ir.Static(sizes[rng.IntN(len(sizes))])
	}
	s[name] = t
}

// mutate makes a checkpoint with other sizes, an invalid tensor, or both.
func mutate(s shapes, rng *rand.Rand) {
	how := rng.IntN(6)
	if how > 0 {
		resize(s, rng)
	}
	if how < 2 {
		damage(s, rng)
	}
}

// FuzzShapes checks that building and compiling give a model or an error with a code, for all shapes of the tensors.
func FuzzShapes(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	tiny := tinyShapes(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := maps.Clone(tiny)
		mutate(s, rng)
		m, err := buildRepaired(s, []int64{1, 2, 2, 2, 3, 8}[rng.IntN(6)])
		if err == nil {
			err = compileShapes(m)
		}
		if _, coded := diag.CodeOf(err); err != nil && !coded || errors.Is(err, diag.Internal) {
			t.Errorf("seed %d: %v", seed, err)
		}
	})
}
