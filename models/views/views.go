// Package views opens a folder of images from known cameras as a checkpoint: a scene of Gaussian splats with which
// training begins. The splats are at the points that COLMAP found, or at random places that the cameras see. Package
// models/splat knows the meaning of the columns.
package views

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/views"
	"github.com/rlx-go/rlx/models/ply"
	"github.com/rlx-go/rlx/models/weights"
)

// Is reports whether a path is a folder with cameras.
func Is(path string) bool { return views.Is(path) }

// MayBe reports whether a path is a folder, with cameras or without, that has no checkpoint.
func MayBe(path string) bool {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return false
	}
	for _, name := range []string{"config.json", "model.safetensors", "model.safetensors.index.json"} {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return false
		}
	}
	return true
}

// Bytes returns the memory that Open needs for n splats with harmonics of a degree.
func Bytes(n, degree int) int64 {
	terms := max(degree, 0) + 1
	return int64(n) * int64(4*(11+3*terms*terms)+128)
}

// Open opens a folder. The scene has n splats, or one for each of COLMAP's points if n is 0. degree is the degree of
// the harmonics, from 0 to 3; -1 means 0. The images have the size of the first camera. Errors are *diag.Error with
// code.Views.
func Open(path string, n, degree int) (*weights.Checkpoint, error) {
	set, err := views.Open(path)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if n = len(set.Points); n == 0 {
			return nil, diag.New(code.Views, path, "has no points to begin with").
				WithHint("say how many splats the scene has: --train splats=5000")
		}
	}
	points := begin(set, n)
	properties := []string{"x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2"}
	for k := range 3 * ((max(degree, 0)+1)*(max(degree, 0)+1) - 1) {
		properties = append(properties, fmt.Sprint("f_rest_", k))
	}
	properties = append(properties, "opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3")
	values, center, radius := rows(points, spacing(points), properties)
	about, err := json.Marshal(map[string]any{"properties": properties, "center": center, "radius": radius,
		"width": set.Views[0].Lens.Width, "height": set.Views[0].Lens.Height})
	if err != nil {
		return nil, err
	}
	var files []weights.File
	for _, name := range set.Files {
		f, _, err := regular.Open(name)
		if err != nil {
			for _, open := range files {
				open.F.Close()
			}
			return nil, diag.New(code.Views, name, "%w", err)
		}
		files = append(files, weights.File{Path: name, F: f})
	}
	part := weights.Part{Info: weights.Info{Name: ply.Vertices, DType: dtype.F32, Stored: "float",
		Shape: []int64{int64(n), int64(len(properties))}, Size: int64(len(values)),
		File: filepath.Base(set.Files[0])}, Source: bytes.NewReader(values)}
	return weights.Assemble(path, files, []weights.Part{part}, map[string][]byte{"config.json": about})
}

// begin returns the first n places and colours.
func begin(set *views.Set, n int) []views.Point {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	points := slices.Clone(set.Points)
	if len(points) == 0 {
		return random(set.Views, n, r)
	}
	if len(points) >= n {
		for i := range n { // a choice without repetition
			k := i + r.IntN(len(points)-i)
			points[i], points[k] = points[k], points[i]
		}
		return points[:n]
	}
	// copies near the points replace points that are lacking
	near := spacing(points)
	for have := len(points); len(points) < n; {
		i := r.IntN(have)
		p := points[i]
		for k := range p.At {
			p.At[k] += near[i] * (r.Float64() - 0.5)
		}
		points = append(points, p)
	}
	return points
}

// random returns points in a cube about the place at which the cameras look. The cube has the size of the part that
// they see there.
func random(all []views.View, n int, r *rand.Rand) (out []views.Point) {
	center, half := seen(all)
	for range n {
		var p views.Point
		for k := range p.At {
			p.At[k] = center[k] + half*(2*r.Float64()-1)
			p.Color[k] = 0.4 + 0.2*r.Float64()
		}
		out = append(out, p)
	}
	return out
}

// seen returns the point that is nearest to the axes of all cameras, and how far from it they see on average. A single
// direction has no nearest point, so that the point is drawn slightly to the cameras' mean.
func seen(all []views.View) (center [3]float64, half float64) {
	const pull = 1e-3
	var a [3][4]float64
	for _, v := range all {
		for i := range 3 {
			for k := range 3 {
				m := -v.Forward[i] * v.Forward[k]
				if i == k {
					m += 1 + pull
				}
				a[i][k] += m
				a[i][3] += m * v.Position[k]
			}
		}
	}
	center = solve(a)
	for _, v := range all {
		away := 0.0
		for k := range center {
			away += (center[k] - v.Position[k]) * (center[k] - v.Position[k])
		}
		half += math.Sqrt(away) * 0.5 * float64(min(v.Lens.Width, v.Lens.Height)) / v.Lens.Fy / float64(len(all))
	}
	return center, max(half, 1e-3)
}

// solve solves a system of three equations, which is positive definite, by Gauss and Jordan.
func solve(a [3][4]float64) (x [3]float64) {
	for i := range 3 {
		for k := range 3 {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i]
			for c := range 4 {
				a[k][c] -= f * a[i][c]
			}
		}
	}
	for i := range x {
		x[i] = a[i][3] / a[i][i]
	}
	return x
}

// constant is the first of the spherical harmonics, which a file's colours are divided by.
const constant = 0.28209479

// rows returns the splats as bytes, with their mean and their mean distance from it. They begin round, as large as the
// distance of their neighbours, and with an opacity of 0.1.
func rows(points []views.Point, size []float64, properties []string) (out []byte, center [3]float64, radius float64) {
	put := func(x float64) { out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x))) }
	n := float64(len(points))
	for i, p := range points {
		for _, x := range p.At {
			put(x)
		}
		for _, x := range p.Color {
			put((x - 0.5) / constant)
		}
		for range len(properties) - 14 {
			put(0)
		}
		put(math.Log(0.1 / 0.9))
		for range 3 {
			put(math.Log(max(size[i], 1e-7)))
		}
		for _, x := range []float64{1, 0, 0, 0} {
			put(x)
		}
		for k := range center {
			center[k] += p.At[k] / n
		}
	}
	for _, p := range points {
		for k := range center {
			radius += (p.At[k] - center[k]) * (p.At[k] - center[k]) / n
		}
	}
	return out, center, max(math.Sqrt(radius), 1e-6)
}
