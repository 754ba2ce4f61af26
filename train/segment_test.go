package train_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/train"
)

const samCase = goldens + "sam_mask_prompt_tiny/"

// samTrainer compiles the golden SAM to train its decoder, in batches of two prompts.
func samTrainer(t *testing.T) *rlx.Model {
	t.Helper()
	es, err := synth.ReadManifest(samCase + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ckpt, out := filepath.Join(dir, "sam.safetensors"), filepath.Join(dir, "t.rlx")
	if err := synth.Write(ckpt, es, dtype.F32); err != nil {
		t.Fatal(err)
	}
	rlxtest.Compile(out, ckpt, "--target", "cpu", "--model-config", samCase+"config.json", "--set",
		"mask_decoder_config.layer_norm_eps=1e-6", "--train", "decoder", "--train-batch", "2")
	return rlxtest.Open(t, out)
}

// TestSegmentGolden trains the mask decoder beside PyTorch, with the same examples (bench/goldens/sam_train.py).
func TestSegmentGolden(t *testing.T) {
	s := rlxtest.Session(t, samTrainer(t), rlx.Options{})
	st, err := s.NewState(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := s.Run(t.Context(), rlx.Request{Method: "train_init", State: st}); err != nil {
		t.Fatal(err)
	}
	golden := func(name string) *tensor.Array { return tensortest.Golden(t, samCase+"train.safetensors:"+name) }
	embeddings, points, labels, masks := golden("embeddings"), golden("points"), golden("labels"), golden("masks")
	losses, norms, ious := golden("losses").Floats, golden("norms").Floats, golden("ious").Floats
	const examples = 5
	for step := range losses {
		var e, p, m []float32
		var l []int32
		floats := func(to []float32, a *tensor.Array, i int) []float32 {
			n := len(a.Floats) / a.Shape[0]
			for _, x := range a.Floats[i*n:][:n] {
				to = append(to, float32(x))
			}
			return to
		}
		for k := range 2 {
			i := (2*step + k) % examples
			e, p, m = floats(e, embeddings, i%2), floats(p, points, i), floats(m, masks, i)
			l = append(l, int32(labels.Ints[2*i]), int32(labels.Ints[2*i+1]))
		}
		f32 := func(x []float32, shape ...int) rlx.Tensor {
			return rlx.Tensor{DType: rlx.F32, Shape: shape, Data: tensor.Bytes(x)}
		}
		in := map[string]rlx.Tensor{"embeddings": f32(e, 2, 24, 6, 6), "points": f32(p, 2, 2, 2),
			"mask": f32(m, 2, 2, 24, 24), "labels": {DType: rlx.I32, Shape: []int{2, 2}, Data: tensor.Bytes(l)}}
		const rate, beta1, beta2 = 1e-3, 0.9, 0.999
		n := float64(step + 1)
		for name, v := range map[string]float64{"step_size": rate / (1 - math.Pow(beta1, n)), "decay": rate * 0.1,
			"clip": 1, "beta1": beta1, "beta1_rest": 1 - beta1, "beta2": beta2, "beta2_rest": 1 - beta2,
			"beta2_scale": 1 / (1 - math.Pow(beta2, n)), "epsilon": 1e-8} {
			in[name] = f32([]float32{float32(v)})
		}
		r, err := s.Run(t.Context(), rlx.Request{Method: "train_step", Inputs: in, State: st})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			want float64
			tol  float64
		}{{"loss", losses[step], 1e-4}, {"norm", norms[step], 1e-3}, {"iou", ious[step], 1e-3}} {
			got := float64(tensor.View[float32](r.Outputs[c.name].Data)[0])
			if !(math.Abs(got-c.want) <= c.tol*c.want) {
				t.Errorf("step %d: %s is %v; want %v", step, c.name, got, c.want)
			}
		}
	}
}

// shapes writes n images of bright rectangles on a dark ground, with masks of one colour each.
func shapes(t *testing.T, n int) (images, masks string) {
	t.Helper()
	images, masks = t.TempDir(), t.TempDir()
	for i := range n {
		w, h := 90+10*i, 70
		img, mask := image.NewNRGBA(image.Rect(0, 0, w, h)), image.NewNRGBA(image.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				img.Set(x, y, color.NRGBA{30, uint8(40 + i), 50, 255})
				mask.Set(x, y, color.Black)
				switch {
				case x >= 10 && x < 40 && y >= 10+i && y < 50:
					img.Set(x, y, color.NRGBA{220, 200, 60, 255})
					mask.Set(x, y, color.NRGBA{255, 0, 0, 255})
				case x >= 50 && x < 80 && y >= 30 && y < 65-i:
					img.Set(x, y, color.NRGBA{60, 200, 220, 255})
					mask.Set(x, y, color.NRGBA{1, 1, 1, 255})
				case x == 0 && y < 3: // too small
					mask.Set(x, y, color.White)
				}
			}
		}
		for path, m := range map[string]image.Image{filepath.Join(images, fmt.Sprint(i, ".png")): img,
			filepath.Join(masks, fmt.Sprint(i, ".png")): mask} {
			var b bytes.Buffer
			if err := png.Encode(&b, m); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return images, masks
}

func segment(t *testing.T, m *rlx.Model, images, masks string, threads int, o train.SegmentOptions) *train.Segment {
	t.Helper()
	s := rlxtest.Session(t, m, rlx.Options{Threads: threads})
	tr, err := train.NewSegment(t.Context(), s, images, masks, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestSegment trains on pictures: the loss falls, a resumed training has the same bits, and the saved weights give the
// model that was compiled for use the same decoder.
func TestSegment(t *testing.T) {
	images, masks := shapes(t, 3)
	m := samTrainer(t)
	o := train.SegmentOptions{Settings: train.SegmentDefaults(30), HoldOut: 3}
	o.LearningRate = 2e-3
	whole := segment(t, m, images, masks, 1, o)
	if i, n, held := whole.Examples(); i != 3 || n != 4 || held != 2 {
		t.Errorf("%d images with %d objects, %d held out; want 3, 4, 2", i, n, held)
	}
	run := func(tr *train.Segment, n int) {
		for tr.Done() < n {
			if _, err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	before, _, err := whole.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := segment(t, m, images, masks, 2, o)
	run(whole, 30)
	run(first, 11)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	if err := first.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	second := segment(t, m, images, masks, 2, o)
	if err := second.Resume(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	run(second, 30)
	if !slices.Equal(whole.Losses(), second.Losses()) {
		t.Errorf("losses %v; want %v", second.Losses(), whole.Losses())
	}
	after, _, err := whole.Evaluate(t.Context())
	if err != nil || !(after < 0.8*before) {
		t.Errorf("the loss falls from %v to %v, %v", before, after, err)
	}
	saved := filepath.Join(t.TempDir(), "decoder.safetensors")
	if err := whole.SaveWeights(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	values, err := whole.Values(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const name = "mask_decoder.mask_tokens.weight"
	got := tensortest.Golden(t, saved+":"+name)
	for i, want := range tensor.View[float32](values[name].Data) {
		if got.Floats[i] != float64(want) {
			t.Fatalf("%s[%d] is %v; want %v", name, i, got.Floats[i], want)
		}
	}
}

// TestSegmentBad checks folders that cannot be trained on.
func TestSegmentBad(t *testing.T) {
	images, masks := shapes(t, 1)
	s := rlxtest.Session(t, samTrainer(t), rlx.Options{Threads: 1})
	write := func(w, h int, at func(x, y int) color.Color) string {
		dir := t.TempDir()
		img := image.NewNRGBA(image.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				img.Set(x, y, at(x, y))
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "0.png"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	black := func(int, int) color.Color { return color.Black }
	good := train.SegmentOptions{Settings: train.SegmentDefaults(3)}
	for what, c := range map[string]struct {
		images, masks string
		o             train.SegmentOptions
		want          error
		text          string
	}{
		"no folder": {filepath.Join(images, "x"), masks, good, train.ErrMasks, "cannot be read"},
		"no images": {t.TempDir(), masks, good, train.ErrMasks, "has no images"},
		"no mask":   {images, t.TempDir(), good, train.ErrMasks, "0.png: cannot be read"},
		"size":      {images, write(91, 70, black), good, train.ErrMasks, "has 91 x 70 px; its image has 90 x 70"},
		"empty":     {images, write(90, 70, black), good, train.ErrMasks, "has no objects to train on"},
		"smooth": {images, write(90, 70, func(x, y int) color.Color {
			return color.NRGBA{uint8(x), uint8(y), 1, 255}
		}), good, train.ErrMasks, "has more than 1024 colours"},
		"hold-out": {images, masks, train.SegmentOptions{Settings: good.Settings, HoldOut: -1}, rlx.ErrUsage,
			"hold-out"},
		"all held": {images, masks, train.SegmentOptions{Settings: good.Settings, HoldOut: 2}, train.ErrMasks,
			"no objects to train on"},
	} {
		_, err := train.NewSegment(t.Context(), s, c.images, c.masks, c.o, nil)
		rlxtest.WantError(t, what, err, c.want)
		if err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", what, err, c.text)
		}
	}
}
