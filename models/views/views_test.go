package views

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/views"
)

// TestSpacing compares the distances with the result of trying all pairs, also for points in one place.
func TestSpacing(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{1, 2, 3, 4, 5, 50, 333} {
		points := make([]views.Point, n)
		for i := range points {
			for k := range 3 {
				points[i].At[k] = math.Round(rng.Float64()*20) / 10
			}
		}
		for i, got := range spacing(points) {
			var all []float64
			for j := range points {
				d := 0.0
				for k := range 3 {
					d += (points[i].At[k] - points[j].At[k]) * (points[i].At[k] - points[j].At[k])
				}
				if i != j {
					all = append(all, d)
				}
			}
			slices.Sort(all)
			all = all[:min(3, len(all))]
			sum := 0.0
			for _, d := range all {
				sum += d
			}
			if want := math.Sqrt(sum / float64(max(len(all), 1))); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%d points, point %d: %v; want %v", n, i, got, want)
			}
		}
	}
}

// colmap writes a folder with two cameras that look at (0,0,5), one from the origin and one from (5,0,5).
func colmap(t *testing.T, points string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cameras.txt":  "1 SIMPLE_PINHOLE 60 40 50 30 20\n",
		"images.txt":   "1 1 0 0 0 0 0 0 1 a.png\n\n2 0.7071067811865476 0 0.7071067811865476 0 -5 0 5 1 b.png\n\n",
		"points3D.txt": points,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOpen opens folders with and without points.
func TestOpen(t *testing.T) {
	const three = "1 1 2 3 255 0 0 0.1\n2 1 2 4 0 255 0 0.1\n5 1 3 3 0 0 255 0.1\n"
	for _, c := range []struct {
		points        string
		n, degree     int
		rows, columns int64
	}{
		{three, 0, -1, 3, 14}, {three, 2, 0, 2, 14}, {three, 10, 1, 10, 23}, {"# none\n", 100, 3, 100, 59},
	} {
		ckpt, err := Open(colmap(t, c.points), c.n, c.degree)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := ckpt.Bytes("splat.vertices", dtype.F32)
		if err != nil {
			t.Fatal(err)
		}
		about, _ := ckpt.Own("config.json")
		if !strings.Contains(string(about), `"height":40`) || len(raw) != int(4*c.rows*c.columns) {
			t.Errorf("%+v: %d bytes, %s", c, len(raw), about)
		}
		values := tensor.View[float32](raw)
		for i := range c.rows {
			row := values[i*c.columns:][:c.columns]
			if c.points != three {
				for k, center := range []float64{0, 0, 5} {
					if math.Abs(float64(row[k])-center) > 2.1 { // 5 * 20/50, what a camera sees
						t.Errorf("%+v: splat %d is at %v", c, i, row[:3])
					}
				}
			}
			if q := row[c.columns-4:]; q[0] != 1 || q[1] != 0 || math.IsInf(float64(row[c.columns-5]), 0) {
				t.Errorf("%+v: splat %d has %v", c, i, row)
			}
		}
		if c.n == 0 && (values[0] != 1 || values[1] != 2 || values[2] != 3 ||
			math.Abs(float64(values[3])-1.7725) > 1e-3) {
			t.Errorf("the first splat is %v", values[:6])
		}
		ckpt.Close()
	}
	_, err := Open(colmap(t, ""), 0, 0)
	if !errors.Is(err, code.Views) || !strings.Contains(err.Error(), "has no points to begin with") {
		t.Error(err)
	}
}
