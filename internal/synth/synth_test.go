package synth_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/models/weights"
)

const tiny = "../../testdata/goldens/sam_tiny/"

// TestImageOfGolden checks the image of a golden, which was computed by the same formula in another language.
func TestImageOfGolden(t *testing.T) {
	want := tensortest.Golden(t, tiny+"golden.safetensors:image")
	got := tensortest.F32(want.Shape, synth.Tensor("sam_tiny.image", want.Shape, 2, 0))
	tensortest.Near(t, "image", got, want, 0)
	path := filepath.Join(t.TempDir(), "image.npy")
	if err := synth.WriteNpy(path, synth.Entry{Name: "sam_tiny.image", Shape: want.Shape, Scale: 2}); err != nil {
		t.Fatal(err)
	}
	tensortest.Near(t, "image.npy", tensortest.Golden(t, path), want, 0)
}

// TestCheckpointOfGolden checks the digests of the files from which the goldens were computed, and of their 16-bit
// forms by the same writer.
func TestCheckpointOfGolden(t *testing.T) {
	es, err := synth.ReadManifest(tiny + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	for d, want := range map[dtype.DType]string{
		dtype.F32:  "a18743ba1c8feaeffe4021662810a62e8c87bb4b0f60ac54b72983194f960b1f",
		dtype.F16:  "472333a83b1dd64c14e0d652c5c56d5f5d36f8dbaac94b10b89b8c8205d2d606",
		dtype.BF16: "53f4a8d01ed6d796130f174e8dc136d9622b8c92730c3690bfd59bee5e91be83",
	} {
		path := filepath.Join(t.TempDir(), "m.safetensors")
		if err := synth.Write(path, es, d); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: sha256 %x, want %s", d, sum, want)
		}
		c, err := weights.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Names()) != len(es) {
			t.Errorf("%s: %d tensors, manifest has %d", d, len(c.Names()), len(es))
		}
		c.Close()
	}
	if err := synth.Write(filepath.Join(t.TempDir(), "x"), es, dtype.I8); err == nil {
		t.Error("i8 accepted")
	}
}

// TestLongTensor checks that writing in parts gives the same values as the formula at once.
func TestLongTensor(t *testing.T) {
	e := synth.Entry{Name: "long", Shape: []int{3, 50001}, Scale: 0.5, Shift: 1}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := synth.Write(path, []synth.Entry{e}, dtype.F32); err != nil {
		t.Fatal(err)
	}
	got := tensortest.Golden(t, path)
	if !slices.Equal(got.Floats, tensortest.F32(e.Shape, synth.Tensor(e.Name, e.Shape, e.Scale, e.Shift)).Floats) {
		t.Error("the file differs from the tensor")
	}
}
