// Package ply opens PLY files of Gaussian splats, as programs for 3D Gaussian splatting write them (Kerbl et al. 2023),
// as checkpoints. The vertices are one tensor, as they are stored, or as they become when a compressed file is
// unpacked; package models/splat knows what they mean.
package ply

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/ply"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/weights"
)

// Is reports whether a path names a PLY file.
func Is(path string) bool { return filepath.Ext(path) == ".ply" }

// Names of what the checkpoint has.
const (
	Vertices = "splat.vertices" // the tensor f32[splats, properties]
	scene    = "config.json"    // with properties, center and radius
)

// Open opens a PLY file and checks all splats. Errors are *diag.Error with code.Splats or code.CheckpointRead.
func Open(path string) (*weights.Checkpoint, error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, diag.New(code.CheckpointRead, path, "%w", err)
	}
	h, err := ply.Parse(f, st.Size())
	var about []byte
	if err == nil {
		about, err = describe(io.NewSectionReader(h.Values, h.Offset, h.Vertices*h.Stride()), h)
	}
	if err != nil {
		f.Close()
		return nil, diag.New(code.Splats, path, "%w", err)
	}
	part := weights.Part{Info: weights.Info{Name: Vertices, DType: dtype.F32, Stored: "float",
		Shape: []int64{h.Vertices, int64(len(h.Properties))}, Size: h.Vertices * h.Stride(),
		File: filepath.Base(path)}, Source: h.Values, Offset: h.Offset}
	return weights.Assemble(path, []weights.File{{Path: path, F: f}}, []weights.Part{part},
		map[string][]byte{scene: about})
}

// maxScale is the largest logarithm of a scale that the ops take.
const maxScale = 80

// describe reads all splats once. It returns the scene's description, with the mean of the positions and their mean
// distance from it.
func describe(r io.Reader, h *ply.Header) ([]byte, error) {
	at := func(name string) (int, error) {
		i := slices.Index(h.Properties, name)
		if i < 0 {
			return 0, fmt.Errorf("has no property %s, so that it has no Gaussian splats", name)
		}
		return i, nil
	}
	place := map[string]int{}
	for _, name := range []string{"x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1",
		"scale_2", "rot_0", "rot_1", "rot_2", "rot_3"} {
		i, err := at(name)
		if err != nil {
			return nil, err
		}
		place[name] = i
	}
	b := bufio.NewReaderSize(r, 1<<20)
	row := make([]byte, h.Stride())
	var sum, squares [3]float64
	for i := range h.Vertices {
		if _, err := io.ReadFull(b, row); err != nil {
			return nil, err
		}
		value := func(k int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4*k:]))) }
		for k, name := range h.Properties {
			if x := value(k); math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("%s of splat %d is %v; want finite numbers", name, i, x)
			}
		}
		turned := 0.0
		for k := range 4 {
			turned = max(turned, math.Abs(value(place[fmt.Sprint("rot_", k)])))
		}
		if turned == 0 {
			return nil, fmt.Errorf("the rotation of splat %d is 0; want a quaternion in rot_0 to rot_3", i)
		}
		for k := range 3 {
			if x := value(place[fmt.Sprint("scale_", k)]); x > maxScale {
				return nil, fmt.Errorf("scale_%d of splat %d is %v; want a logarithm of at most %d", k, i, x, maxScale)
			}
			x := value(place["xyz"[k:k+1]])
			sum[k] += x
			squares[k] += x * x
		}
	}
	n, radius := float64(h.Vertices), 0.0
	for k := range sum {
		sum[k] /= n
		radius += max(squares[k]/n-sum[k]*sum[k], 0)
	}
	return json.Marshal(map[string]any{"properties": h.Properties, "center": sum,
		"radius": max(math.Sqrt(radius), 1e-6)})
}
