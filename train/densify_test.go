package train_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/train"
)

func stepTo(t *testing.T, tr *train.Splats, n int) {
	t.Helper()
	for tr.Done() < n {
		if _, err := tr.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t *testing.T, tr *train.Splats) int {
	t.Helper()
	n, _, err := tr.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDensify fits a scene that begins with few splats: the number grows to the bound and no further, more splats fit
// better than the few, and the file has those that are used.
func TestDensify(t *testing.T) {
	dir := pictures(t, scene(t, 30))
	m := compiledViews(t, dir, "splats=60,degree=1,begin=12")
	const n = 300
	psnr := func(d *train.Densify) (psnr float64, number int) {
		tr := splats(t, m, dir, 0, train.SplatOptions{Settings: train.SplatDefaults(n), Densify: d})
		if x := count(t, tr); x != 12 {
			t.Errorf("begins with %d splats; want 12", x)
		}
		stepTo(t, tr, n)
		_, psnr, err := tr.Evaluate(t.Context())
		saved := filepath.Join(t.TempDir(), "saved.ply")
		if err == nil {
			err = tr.SavePLY(t.Context(), saved)
		}
		if err != nil {
			t.Fatal(err)
		}
		rlxtest.Compile(saved+".rlx", saved, "--target", "cpu", "--train", fmt.Sprint("splats=", count(t, tr)))
		return psnr, count(t, tr)
	}
	d := train.DensifyDefaults(n)
	d.Every, d.From = 20, 20
	few, fixed := psnr(&train.Densify{})
	more, grown := psnr(d)
	if fixed != 12 || grown <= 40 || grown > 60 || !(more > few+2) {
		t.Errorf("PSNR %.2f dB with %d splats, %.2f dB with %d; want 12, and 2 dB more with 41 to 60", few, fixed, more,
			grown)
	}
}

// TestDensifyPrune removes splats that are nearly transparent or huge, and leaves the others as they are.
func TestDensifyPrune(t *testing.T) {
	dir := pictures(t, scene(t, 10))
	m := compiledViews(t, dir, "splats=20,begin=12")
	o := train.SplatOptions{Settings: train.SplatDefaults(5), Densify: &train.Densify{Every: 1, Until: 1, Gradient: 1e9,
		Size: 0.03, Opacity: 0.005, Huge: 5}}
	o.LearningRate = 0
	tr := splats(t, m, dir, 0, o)
	change := func(name string, at int, value float32) {
		r, err := tr.State().Tensor(task.TrainParam + name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Read(t.Context())
		if err == nil {
			tensor.View[float32](v.Data)[at] = value
			err = r.Write(t.Context(), v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change(task.SplatOpacity, 3, -6)
	change(task.SplatScale, 3*7+1, float32(math.Log(100)))
	before, err := tr.Values(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stepTo(t, tr, 1)
	after, err := tr.Values(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, y := tensor.View[float32](before[task.SplatOpacity].Data), tensor.View[float32](after[task.SplatOpacity].Data)
	for i := range x {
		if gone := i == 3 || i == 7 || i >= 12; gone != (y[i] < task.SplatUnused/2) || !gone && x[i] != y[i] {
			t.Errorf("the opacity of splat %d was %v and is %v", i, x[i], y[i])
		}
	}
	if n := count(t, tr); n != 10 {
		t.Errorf("%d splats; want 10", n)
	}
}

// TestDensifyGradient compares the lengths of the gradients that a step adds up with those that follow from the
// gradients by the positions, which are in AdamW's first moments, and the axes of the camera.
func TestDensifyGradient(t *testing.T) {
	dir := pictures(t, scene(t, 10))
	m := compiledViews(t, dir, "splats=42,begin=40")
	matrix, meta := viewAt(1)
	text, err := json.Marshal(map[string]any{"camera_angle_y": viewFov * math.Pi / 180, "frames": []any{
		map[string]any{"file_path": "v1.png", "transform_matrix": matrix}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "transforms.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := train.SplatOptions{Settings: train.SplatDefaults(5), Densify: &train.Densify{}}
	o.LearningRate = 0
	tr := splats(t, m, dir, 0, o)
	read := func(name string) []float32 {
		r, err := tr.State().Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return tensor.View[float32](v.Data)
	}
	stepTo(t, tr, 1)
	got, at, by := read(task.TrainGrowth), read(task.TrainParam+task.SplatPosition), read(task.TrainFirst+"position")
	stepTo(t, tr, 2)
	twice, some := read(task.TrainGrowth), false
	for i := range 42 {
		var along [3]float64 // the gradient by a step to the right, up and back
		depth := 0.0
		for k := range 3 {
			for axis := range along {
				along[axis] += float64(by[3*i+k]) / (1 - o.Beta1) * matrix[k][axis]
			}
			depth -= float64(at[3*i+k]-meta[k]) * matrix[k][2]
		}
		want := math.Hypot(along[0]*viewWidth/viewHeight, along[1]) * depth * math.Tan(viewFov*math.Pi/360)
		if math.Abs(float64(got[2*i])-want) > 1e-5*want || math.Abs(float64(twice[2*i])-2*want) > 2e-5*want {
			t.Errorf("splat %d: %v, %v after two steps; want %v and twice as much", i, got[2*i], twice[2*i], want)
		}
		if n := got[2*i+1]; n != 0 && n != 1 || (n == 1) != (want > 0) || twice[2*i+1] != 2*n || i >= 40 && n != 0 {
			t.Errorf("splat %d: in %v steps of 1, %v of 2", i, n, twice[2*i+1])
		}
		some = some || want > 1e-3
	}
	if !some {
		t.Error("no splat has a gradient")
	}
}

// TestDensifyResume goes on from a checkpoint between two changes of the splats, with another number of threads: the
// losses and the values have the same bits. Another seed gives another scene.
func TestDensifyResume(t *testing.T) {
	dir := pictures(t, scene(t, 10))
	m := compiledViews(t, dir, "splats=40,begin=10")
	o := train.SplatOptions{Settings: train.SplatDefaults(16), Densify: &train.Densify{Every: 4, Until: 12,
		Gradient: 1e-5, Size: 0.1, Opacity: 0.005, Huge: 2}}
	whole, first := splats(t, m, dir, 1, o), splats(t, m, dir, 2, o)
	stepTo(t, whole, 16)
	stepTo(t, first, 8)
	if n := count(t, first); n <= 10 {
		t.Errorf("%d splats after 8 steps; want more than 10", n)
	}
	path := filepath.Join(t.TempDir(), "c.safetensors")
	if err := first.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	second := splats(t, m, dir, 1, o)
	if err := second.Resume(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	stepTo(t, second, 16)
	if !slices.Equal(whole.Losses(), second.Losses()) {
		t.Errorf("losses %v; want %v", second.Losses(), whole.Losses())
	}
	x, err := whole.Values(t.Context())
	y, other := second.Values(t.Context())
	if err != nil || other != nil {
		t.Fatal(err, other)
	}
	for name := range x {
		if !slices.Equal(x[name].Data, y[name].Data) {
			t.Errorf("%s differs after the checkpoint", name)
		}
	}
	changed := o
	changed.Densify = &train.Densify{}
	rlxtest.WantError(t, "another growth", splats(t, m, dir, 1, changed).Resume(t.Context(), path), train.ErrResume)
}

// TestDensifyBad checks options that cannot be.
func TestDensifyBad(t *testing.T) {
	dir := pictures(t, scene(t, 5))
	room := rlxtest.Session(t, compiledViews(t, dir, "splats=20,begin=5"), rlx.Options{Threads: 1})
	full := rlxtest.Session(t, compiledViews(t, dir, "splats=20"), rlx.Options{Threads: 1})
	for what, c := range map[string]struct {
		s    *rlx.Session
		d    train.Densify
		text string
	}{
		"no room":     {full, *train.DensifyDefaults(9), "cannot grow"},
		"every":       {room, train.Densify{Every: -1}, "every is -1"},
		"a NaN":       {room, train.Densify{Every: 1, Gradient: math.NaN()}, "gradient is NaN"},
		"all opacity": {room, train.Densify{Every: 1, Opacity: 1}, "opacity is 1"},
	} {
		_, err := train.NewSplats(t.Context(), c.s, dir, train.SplatOptions{Settings: train.SplatDefaults(3),
			Densify: &c.d})
		if !errors.Is(err, rlx.ErrUsage) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", what, err, c.text)
		}
	}
}
