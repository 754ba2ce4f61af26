package train_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/ply"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/train"
)

const (
	viewWidth, viewHeight = 48, 36
	viewCount             = 6
	viewFov               = 50.0
)

// viewAt returns a camera on a circle around the origin as a matrix for transforms.json, and as meta.
func viewAt(k int) (matrix [4][4]float64, meta []float32) {
	angle := 2 * math.Pi * float64(k) / viewCount
	position := [3]float64{3 * math.Sin(angle), -1, -3 * math.Cos(angle)} // y points down
	n := math.Sqrt(10.0)
	forward := [3]float64{-position[0] / n, -position[1] / n, -position[2] / n}
	right := [3]float64{math.Cos(angle), 0, math.Sin(angle)}
	down := [3]float64{forward[1]*right[2] - forward[2]*right[1], forward[2]*right[0] - forward[0]*right[2],
		forward[0]*right[1] - forward[1]*right[0]}
	for i := range 3 {
		matrix[i] = [4]float64{right[i], -down[i], -forward[i], position[i]}
	}
	matrix[3][3] = 1
	meta = make([]float32, 23)
	for i := range 3 {
		meta[i], meta[6+i] = float32(position[i]), float32(down[i])
	}
	meta[9], meta[18], meta[19], meta[21] = viewFov, 1, 1.0/255, 1e-3
	return matrix, meta
}

// scene writes a PLY file of n random splats in a box.
func scene(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scene.ply")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	names := strings.Fields("x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3")
	err = ply.Write(f, names, n, func(_ int, row []float32) {
		for k := range row {
			row[k] = float32(rng.Float64()*2 - 1)
		}
		for k := 3; k < 6; k++ {
			row[k] *= 1.7
		}
		for k := 7; k < 10; k++ {
			row[k] = row[k]*0.5 - 1.7
		}
		row[6] += 2
	})
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pictures renders views of a scene into a folder with transforms.json.
func pictures(t *testing.T, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scene.rlx")
	rlxtest.Compile(path, file, "--target", "cpu", "--set", fmt.Sprint("width=", viewWidth), "--set",
		fmt.Sprint("height=", viewHeight))
	s := rlxtest.Session(t, rlxtest.Open(t, path), rlx.Options{})
	dir := t.TempDir()
	var frames []map[string]any
	for k := range viewCount {
		matrix, meta := viewAt(k)
		r, err := s.Run(t.Context(), rlx.Request{Method: "render", Inputs: map[string]rlx.Tensor{
			"meta": {DType: rlx.F32, Shape: []int{23}, Data: tensor.Bytes(meta)}}})
		if err != nil {
			t.Fatal(err)
		}
		img := image.NewNRGBA(image.Rect(0, 0, viewWidth, viewHeight))
		for i, v := range tensor.View[float32](r.Outputs["image"].Data) {
			img.Pix[i] = uint8(math.Round(255 * min(math.Pow(float64(v), 1/2.2), 1)))
			if i%4 == 3 {
				img.Pix[i] = 255
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("v%d.png", k)
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, map[string]any{"file_path": name, "transform_matrix": matrix})
	}
	text, err := json.Marshal(map[string]any{"camera_angle_y": viewFov * math.Pi / 180, "frames": frames})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "transforms.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func splats(t *testing.T, m *rlx.Model, dir string, threads int, o train.SplatOptions) *train.Splats {
	t.Helper()
	tr, err := train.NewSplats(t.Context(), rlxtest.Session(t, m, rlx.Options{Threads: threads}), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func compiledViews(t *testing.T, folder, mode string) *rlx.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fit.rlx")
	rlxtest.Compile(path, folder, "--target", "cpu", "--train", mode)
	return rlxtest.Open(t, path)
}

// TestSplats renders a scene, fits another to the pictures from random points, and begins with the file that it saves:
// the pictures then differ as little as at the end of the training.
func TestSplats(t *testing.T) {
	dir := pictures(t, scene(t, 30))
	m := compiledViews(t, dir, "splats=150,degree=1")
	const n = 400
	o := train.SplatOptions{Settings: train.SplatDefaults(n)}
	tr := splats(t, m, dir, 0, o)
	_, before, err := tr.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for tr.Done() < n {
		if _, err := tr.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	loss, psnr, err := tr.Evaluate(t.Context())
	if err != nil || !(psnr > 30) || !(before < 20) {
		t.Fatalf("PSNR %.2f dB, loss %v, %v; want more than 30 dB, at first %.2f", psnr, loss, err, before)
	}
	saved := filepath.Join(t.TempDir(), "saved.ply")
	if err := tr.SavePLY(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "again.rlx")
	rlxtest.Compile(path, saved, "--target", "cpu", "--train", "splats", "--set", fmt.Sprint("width=", viewWidth),
		"--set", fmt.Sprint("height=", viewHeight))
	again := splats(t, rlxtest.Open(t, path), dir, 0, o)
	if x, _, err := again.Evaluate(t.Context()); err != nil || x != loss {
		t.Errorf("the saved scene has the loss %v, %v; want %v", x, err, loss)
	}
}

// TestSplatsResume goes on from a checkpoint, with another number of threads: losses and values have the same bits.
func TestSplatsResume(t *testing.T) {
	dir := pictures(t, scene(t, 10))
	m := compiledViews(t, dir, "splats=40")
	o := train.SplatOptions{Settings: train.SplatDefaults(14), HoldOut: 3}
	run := func(tr *train.Splats, n int) {
		for tr.Done() < n {
			if _, err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, first := splats(t, m, dir, 1, o), splats(t, m, dir, 2, o)
	if n, held := whole.Views(); n != 4 || held != 2 {
		t.Errorf("%d images to train on, %d held out", n, held)
	}
	run(whole, 14)
	run(first, 6)
	path := filepath.Join(t.TempDir(), "c.safetensors")
	if err := first.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	second := splats(t, m, dir, 1, o)
	if err := second.Resume(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	run(second, 14)
	if !slices.Equal(whole.Losses(), second.Losses()) {
		t.Errorf("losses %v; want %v", second.Losses(), whole.Losses())
	}
	other := o
	other.Rates = map[string]float64{"position": 1e-3}
	rlxtest.WantError(t, "other rates", splats(t, m, dir, 1, other).Resume(t.Context(), path), train.ErrResume)
	other = o
	other.Background = [3]float64{1, 1, 1}
	rlxtest.WantError(t, "another background", splats(t, m, dir, 1, other).Resume(t.Context(), path), train.ErrResume)
}

// TestSplatsBad checks options and folders that cannot be trained on.
func TestSplatsBad(t *testing.T) {
	dir := pictures(t, scene(t, 5))
	s := rlxtest.Session(t, compiledViews(t, dir, "splats=20"), rlx.Options{Threads: 1})
	gone := t.TempDir()
	text, err := os.ReadFile(filepath.Join(dir, "transforms.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(gone, "transforms.json"), text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(gone, "v0.png"), []byte("no picture"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	good := train.SplatDefaults(3)
	for what, c := range map[string]struct {
		dir  string
		o    train.SplatOptions
		want error
		text string
	}{
		"no folder":  {filepath.Join(dir, "x"), train.SplatOptions{Settings: good}, train.ErrViews, "transforms.json"},
		"no cameras": {t.TempDir(), train.SplatOptions{Settings: good}, train.ErrViews, "transforms.json"},
		"no image":   {gone, train.SplatOptions{Settings: good}, rlx.ErrUsage, "v0.png"},
		"rates": {dir, train.SplatOptions{Settings: good, Rates: map[string]float64{"harmonics": 1}}, rlx.ErrUsage,
			`"harmonics" is unknown`},
		"a NaN rate": {dir, train.SplatOptions{Settings: good, Rates: map[string]float64{"scale": math.NaN()}},
			rlx.ErrUsage, "scale is NaN"},
		"background": {dir, train.SplatOptions{Settings: good, Background: [3]float64{2}}, rlx.ErrUsage, "background"},
		"hold-out":   {dir, train.SplatOptions{Settings: good, HoldOut: 1}, rlx.ErrUsage, "hold-out"},
		"no steps":   {dir, train.SplatOptions{}, rlx.ErrUsage, "steps"},
	} {
		_, err := train.NewSplats(t.Context(), s, c.dir, c.o)
		if what == "no image" && err != nil && strings.Contains(err.Error(), c.text) {
			continue // this code is the code of images
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", what, err, c.text)
		}
	}
	_, err = train.NewSplats(t.Context(), rlxtest.Session(t, rlxtest.Open(t, artifact()), rlx.Options{}), dir,
		train.SplatOptions{Settings: good})
	rlxtest.WantError(t, "a language model", err, rlx.ErrUsage)
}
