package text_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/text"
)

const vlGolden = goldens + "qwen3vl_tiny/"

// vlImage reads an image of the golden for a model.
func vlImage(t *testing.T, m *rlx.Model, name string) *text.Image {
	t.Helper()
	f, err := os.Open(vlGolden + name + ".png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := text.DecodeImage(f)
	if err != nil {
		t.Fatal(err)
	}
	x, err := text.NewImage(m, img)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// vlMessages returns a conversation of the golden.
func vlMessages(t *testing.T, m *rlx.Model, name string) (out []text.Message) {
	t.Helper()
	raw, err := os.ReadFile(vlGolden + "case.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]struct {
		Role    string
		Content json.RawMessage
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, x := range all[name] {
		y := text.Message{Role: x.Role}
		var parts []struct{ Type, Text, Image string }
		if json.Unmarshal(x.Content, &y.Content) != nil {
			if err := json.Unmarshal(x.Content, &parts); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range parts {
			if p.Type == "image" {
				y.Parts = append(y.Parts, text.Part{Image: vlImage(t, m, p.Image)})
			} else {
				y.Parts = append(y.Parts, text.Part{Text: p.Text})
			}
		}
		out = append(out, y)
	}
	return out
}

// TestImages compares prompts, logits and texts with those of Transformers: of a conversation with two images of
// different odd sizes and of one without, computed at once, in pieces, and from a saved state.
func TestImages(t *testing.T) {
	t.Parallel()
	testImages(t, rlx.Options{Threads: 1})
}

func TestImagesOnGPU(t *testing.T) { testImages(t, rlxtest.OnGPU(t)) }

func testImages(t *testing.T, o rlx.Options) {
	m := rlxtest.Open(t, goldenModel(t, "qwen3vl_tiny"))
	g, err := text.NewGenerator(t.Context(), rlxtest.Session(t, m, o))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, prefix string }{{"images", ""}, {"text", "text."}} {
		p, err := text.EncodeMessages(m, vlMessages(t, m, c.name), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := goldenIDs(t, "qwen3vl_tiny", c.prefix+"input_ids"); !slices.Equal(p.IDs, want) {
			t.Fatalf("%s: the prompt is %v; want %v", c.name, p.IDs, want)
		}
		all := goldenIDs(t, "qwen3vl_tiny", c.prefix+"greedy")
		logits := tensortest.Golden(t, vlGolden+"golden.safetensors:"+c.prefix+"logits")
		check := func(what string, p text.Prompt) {
			t.Helper()
			start := len(all) - 16
			r := generate(t, g, p.IDs, text.Options{Tokens: 16, Sampling: &text.Sampling{}, IgnoreEnd: true,
				Logits: true, Images: p.Images})
			if want := all[start:]; !slices.Equal(r.IDs(), want) {
				t.Fatalf("%s, %s: %v; want %v", c.name, what, r.IDs(), want)
			}
			most := 0.0
			for i, v := range r.Logits {
				most = max(most, math.Abs(float64(v)-logits.Floats[(start-1)*263+i]))
			}
			t.Logf("%s, %s: largest difference of a logit %.2g", c.name, what, most)
			if most > 1e-5 {
				t.Errorf("%s, %s: a logit differs by %v", c.name, what, most)
			}
		}
		check("at once", p)
		for _, at := range []int{3, len(p.IDs) - 7} {
			reset(t, g)
			first, rest := text.Prompt{IDs: p.IDs[:at]}, p.Images
			if at > 30 {
				first.Images, rest = p.Images, nil
			}
			if err := g.Append(t.Context(), first.IDs, first.Images...); err != nil {
				t.Fatal(err)
			}
			after, ok := g.After(p)
			if !ok || !slices.Equal(after.IDs, p.IDs[at:]) || !slices.Equal(after.Images, rest) {
				t.Fatalf("%s: after %d tokens come %v, %v", c.name, at, after, ok)
			}
			var file bytes.Buffer
			path := filepath.Join(t.TempDir(), "s.safetensors")
			if err := g.Save(t.Context(), &file); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			check("in pieces", after)
			if err := g.Load(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			if again, ok := g.After(p); !ok || !slices.Equal(again.IDs, after.IDs) {
				t.Fatalf("%s: after loading come %v, %v", c.name, again, ok)
			}
			check("loaded", after)
		}
		reset(t, g)
	}
}

// TestLongImages compares the text after a prompt whose parts, two texts and an image, exceed one run each.
func TestLongImages(t *testing.T) {
	t.Parallel()
	m := rlxtest.Open(t, goldenModel(t, "qwen3vl_tiny", "--set", "max_position_embeddings=4096", "--context", "1800",
		"--set", "max_pixels=65536", "--batch", "2", "--target", "cpu"))
	s := rlxtest.Session(t, m, rlx.Options{Threads: 2})
	g, err := text.NewGenerator(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	pic := image.NewNRGBA(image.Rect(0, 0, 208, 200))
	for i := range pic.Pix {
		pic.Pix[i] = 255
		if c := i % 4; c < 3 {
			pic.Pix[i] = uint8(i/4%208*7 + i/4/208*3 + c*50)
		}
	}
	x, err := text.NewImage(m, pic)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	for i := range 530 {
		ids = append(ids, i%97)
	}
	ids = append(ids, slices.Repeat([]int{261}, x.Tokens())...)
	for i := range 520 {
		ids = append(ids, i%89)
	}
	r := generate(t, g, ids, text.Options{Tokens: 4, Sampling: &text.Sampling{}, IgnoreEnd: true, Logits: true,
		Images: []*text.Image{x}})
	next := goldenIDs(t, "qwen3vl_tiny", "long.greedy")
	if len(ids) != 1700 || !slices.Equal(r.IDs(), next) {
		t.Fatalf("after %d tokens: %v; want %v after 1700", len(ids), r.IDs(), next)
	}
	b, err := text.NewBatch(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Add(t.Context(), ids, text.Options{Tokens: 4, Sampling: &text.Sampling{}, IgnoreEnd: true,
		Images: []*text.Image{x}})
	for err == nil && b.Len() > 0 {
		err = b.Step(t.Context())
	}
	if err != nil || y.Err() != nil || !slices.Equal(y.Result().IDs(), next) {
		t.Fatalf("in a batch: %v, %v, %v; want %v", err, y.Err(), y.Result().IDs(), next)
	}
	for i, want := range tensortest.Golden(t, vlGolden+"golden.safetensors:long.logits").Floats {
		if d := math.Abs(float64(r.Logits[i]) - want); d > 1e-5 {
			t.Fatalf("logit %d is %v; want %v", i, r.Logits[i], want)
		}
	}
}

// TestBatchImages continues texts with and without images together, and compares them with Transformers'. A
// conversation that was computed is used again, and one with another image is not.
func TestBatchImages(t *testing.T) {
	t.Parallel()
	testBatchImages(t, rlx.Options{Threads: 2})
}

func TestBatchImagesOnGPU(t *testing.T) { testBatchImages(t, rlxtest.OnGPU(t)) }

func testBatchImages(t *testing.T, o rlx.Options) {
	m := rlxtest.Open(t, goldenModel(t, "qwen3vl_tiny", "--batch", "3"))
	s := rlxtest.Session(t, m, o)
	for _, alike := range []bool{false, true} {
		b, err := text.NewBatch(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		b.Alike = alike
		run := func(prompts ...text.Prompt) (out []*text.BatchText) {
			t.Helper()
			for _, p := range prompts {
				x, err := b.Add(t.Context(), p.IDs, text.Options{Tokens: 16, Sampling: &text.Sampling{},
					IgnoreEnd: true, Images: p.Images})
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, x)
			}
			for b.Len() > 0 {
				if err := b.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			return out
		}
		var both []text.Prompt
		var want [][]int
		for _, c := range []string{"images", "text"} {
			p, err := text.EncodeMessages(m, vlMessages(t, m, c), nil)
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, p)
			all := goldenIDs(t, "qwen3vl_tiny", map[string]string{"images": "greedy", "text": "text.greedy"}[c])
			want = append(want, all[len(all)-16:])
		}
		check := func(what string, x *text.BatchText, want []int) {
			t.Helper()
			if x.Err() != nil || !slices.Equal(x.Result().IDs(), want) {
				t.Errorf("%s, alike %v: %v, %v; want %v", what, alike, x.Result().IDs(), x.Err(), want)
			}
		}
		for i, x := range run(both[0], both[1], both[0]) {
			check("together", x, want[i%2])
		}
		again := run(both[0])[0]
		check("again", again, want[0])
		if n := again.Result().Cached; !alike && n != len(both[0].IDs)-1 || alike && n != 0 {
			t.Errorf("alike %v: %d tokens were used again", alike, n)
		}
		p := both[0]
		p.Images = []*text.Image{p.Images[0], brighter(t, m, p.Images[1])}
		if n := run(p)[0].Result().Cached; n >= len(p.IDs)-20 {
			t.Errorf("alike %v: %d tokens of another image were used again", alike, n)
		}
		check("after another image", run(both[0])[0], want[0])
		_, err = b.Add(t.Context(), both[0].IDs, text.Options{Tokens: 1})
		rlxtest.WantError(t, "no images", err, text.ErrPrompt)
		b.Close()
	}
	g, err := text.NewGenerator(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := text.EncodeMessages(m, vlMessages(t, m, "images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := generate(t, g, p.IDs, text.Options{Tokens: 16, Sampling: &text.Sampling{}, IgnoreEnd: true, Images: p.Images})
	if all := goldenIDs(t, "qwen3vl_tiny", "greedy"); !slices.Equal(r.IDs(), all[len(all)-16:]) {
		t.Errorf("a generator of the same artifact: %v", r.IDs())
	}
	_, err = text.GenerateBatch(t.Context(), s, [][]int{p.IDs}, text.Options{Images: p.Images}, nil)
	rlxtest.WantError(t, "images of all prompts", err, rlx.ErrUsage)
}

// TestQuantizedImages checks that a packed encoder of images gives the same first tokens.
func TestQuantizedImages(t *testing.T) {
	t.Parallel()
	m := rlxtest.Open(t, goldenModel(t, "qwen3vl_tiny", "--quantize", "q8_0", "--target", "cpu"))
	g, err := text.NewGenerator(t.Context(), rlxtest.Session(t, m, rlx.Options{Threads: 1}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := text.EncodeMessages(m, vlMessages(t, m, "images"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := generate(t, g, p.IDs, text.Options{Tokens: 4, Sampling: &text.Sampling{}, IgnoreEnd: true, Images: p.Images})
	if want := goldenIDs(t, "qwen3vl_tiny", "greedy")[len(p.IDs):][:4]; !slices.Equal(r.IDs(), want) {
		t.Errorf("%v; want %v", r.IDs(), want)
	}
}

func reset(t *testing.T, g *text.Generator) {
	t.Helper()
	if err := g.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestImageErrors checks prompts whose images do not fit, and that a sequence with another image is no beginning.
func TestImageErrors(t *testing.T) {
	t.Parallel()
	m := rlxtest.Open(t, goldenModel(t, "qwen3vl_tiny"))
	g, err := text.NewGenerator(t.Context(), rlxtest.Session(t, m, rlx.Options{Threads: 1}))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := text.NewTokenizer(m)
	if err != nil {
		t.Fatal(err)
	}
	wide, small := vlImage(t, m, "wide"), vlImage(t, m, "small")
	for s, images := range map[string][]*text.Image{
		"<|image_pad|>?": nil, "?": {wide}, "<|image_pad|><|image_pad|>?": {wide}, "<|video_pad|>?": nil,
		"<|image_pad|>": {wide},
	} {
		ids, err := tok.Encode(s, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = text.PlaceImages(m, ids, images)
		rlxtest.WantError(t, s, err, text.ErrPrompt)
		_, err = g.Generate(t.Context(), ids, text.Options{Tokens: 1, Images: images})
		rlxtest.WantError(t, s, err, text.ErrPrompt)
	}
	ask := func(x *text.Image) text.Prompt {
		p, err := text.EncodeMessages(m, []text.Message{{Role: "user",
			Parts: []text.Part{{Image: x}, {Text: "What?"}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := ask(wide)
	if err := g.Append(t.Context(), p.IDs[:len(p.IDs)-1], p.Images...); err != nil {
		t.Fatal(err)
	}
	if rest, ok := g.After(p); !ok || len(rest.IDs) != 1 || len(rest.Images) != 0 {
		t.Errorf("after all but one: %v, %v", rest, ok)
	}
	same, err := text.NewImage(m, wide.Picture())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := g.After(ask(same)); !ok {
		t.Error("the resized image is another")
	}
	other := brighter(t, m, wide)
	if _, ok := g.After(ask(other)); ok || other.Tokens() != wide.Tokens() {
		t.Error("a sequence with another image of the same size is taken for a beginning")
	}
	if _, ok := g.After(ask(small)); ok {
		t.Error("a sequence with another image is taken for a beginning")
	}
	var file bytes.Buffer
	if err := g.Save(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.safetensors")
	i := bytes.Index(file.Bytes(), []byte(`images":"`))
	if i < 0 {
		t.Fatal("the state does not name its images")
	}
	bad := bytes.Clone(file.Bytes())
	bad[i+len(`images":"`)] = '9'
	sum := sha256.Sum256(bad[:len(bad)-sha256.Size])
	copy(bad[len(bad)-sha256.Size:], sum[:])
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	rlxtest.WantError(t, "another place", g.Load(t.Context(), path), rlx.ErrInput)

	parts := []text.Message{{Role: "user", Parts: []text.Part{{Text: "a"}, {Text: "b"}}}}
	plain := []text.Message{{Role: "user", Content: "ab"}}
	one, err1 := text.ChatPrompt(m, parts)
	if two, err2 := text.ChatPrompt(m, plain); err1 != nil || err2 != nil || one != two {
		t.Errorf("parts of text give %q, %v; want %q, %v", one, err1, two, err2)
	}
	llama := rlxtest.Open(t, goldenModel(t, "llama_tiny"))
	_, err = text.NewImage(llama, wide.Picture())
	rlxtest.WantError(t, "a model without images", err, text.ErrPrompt)
	other2, err := text.NewGenerator(t.Context(), rlxtest.Session(t, llama, rlx.Options{Threads: 1}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = other2.Generate(t.Context(), []int{1, 2}, text.Options{Tokens: 1, Images: []*text.Image{wide}})
	rlxtest.WantError(t, "images for a model without", err, text.ErrPrompt)
	if _, err := text.DecodeImage(strings.NewReader("no image")); err == nil {
		t.Error("a text is taken for an image")
	}
}

// brighter returns an image with another colour in one pixel.
func brighter(t *testing.T, m *rlx.Model, x *text.Image) *text.Image {
	t.Helper()
	pic := *x.Picture().(*image.NRGBA)
	pic.Pix = slices.Clone(pic.Pix)
	pic.Pix[40] ^= 1
	y, err := text.NewImage(m, &pic)
	if err != nil {
		t.Fatal(err)
	}
	return y
}
