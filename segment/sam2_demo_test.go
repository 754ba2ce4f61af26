package segment_test

import (
	"context"
	"image"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/segment"
)

// sam2 returns the SAM 2 of a golden case, compiled once.
var sam2 = sync.OnceValues(func() (string, error) {
	const golden = "../testdata/goldens/sam2_tiny/"
	es, err := synth.ReadManifest(golden + "manifest.json")
	if err != nil {
		return "", err
	}
	path := rlxtest.Scratch("sam2.rlx")
	checkpoint := rlxtest.Scratch("sam2.safetensors")
	if err := synth.Write(checkpoint, es, dtype.F32); err != nil {
		return "", err
	}
	rlxtest.Compile(path, checkpoint, "--model-config", golden+"config.json")
	return path, nil
})

// open decodes an image.
func open(t *testing.T, path string) image.Image {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	img, err := segment.DecodeImage(in)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestSAM2 compares masks of a photograph with those of Transformers, from the image to the mask, and checks that the
// other ways to ask for masks agree.
func TestSAM2(t *testing.T) {
	path, err := sam2()
	if err != nil {
		t.Fatal(err)
	}
	model, err := rlx.Open(t.Context(), path, rlx.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	segmenter, err := segment.New(rlxtest.Session(t, model, rlx.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	img, err := segmenter.Encode(t.Context(), open(t, "../demo/coins.png"))
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Features) != 2 {
		t.Errorf("%d further tensors of the image; want 2", len(img.Features))
	}
	at := []segment.Point{{X: 100, Y: 140, Foreground: true}}
	box := &segment.Box{X0: 60, Y0: 40, X1: 200, Y1: 160}
	prompts := []segment.Prompts{{Points: at}, {Points: at, Box: box}}
	for i, c := range []struct {
		golden string
		choice segment.Choice
	}{{"point", segment.Best}, {"box", "0"}} {
		masks, err := img.Masks(t.Context(), prompts[i], c.choice)
		if err != nil {
			t.Fatal(err)
		}
		want, both, either := open(t, filepath.Join("testdata", "sam2."+c.golden+".png")), 0, 0
		for k, v := range masks[0].Image.Pix {
			r, _, _, _ := want.At(k%masks[0].Image.Stride, k/masks[0].Image.Stride).RGBA()
			if v != 0 && r != 0 {
				both++
			}
			if v != 0 || r != 0 {
				either++
			}
		}
		iou := float64(both) / float64(either)
		t.Logf("%s: IoU with the mask of Transformers %.5f", c.golden, iou)
		if !(iou >= 0.999) {
			t.Errorf("%s: IoU %v with the mask of Transformers", c.golden, iou)
		}
		err = img.MasksOf(t.Context(), prompts, c.choice, func(prompt int, m []segment.Mask) error {
			if prompt == i && !slices.Equal(m[0].Image.Pix, masks[0].Image.Pix) {
				t.Errorf("%s: another mask beside another prompt", c.golden)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	everything(t.Context(), t, img)
}

// everything checks that all objects of an image are found without prompts.
func everything(ctx context.Context, t *testing.T, img *segment.Image) {
	t.Helper()
	o := segment.EverythingOptions{MinIoU: 0.1, MinStability: 0.1}
	o.Side = 4
	found, err := img.Everything(ctx, o)
	if err != nil || len(found.Regions) == 0 {
		t.Errorf("%+v, %v; want regions", found, err)
	}
}
