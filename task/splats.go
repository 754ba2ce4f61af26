package task

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// KindSplats is the kind of Splats in artifacts.
const KindSplats = "splats"

var _ = Register(KindSplats, func() Task { return &Splats{} })

// Splats describes a scene that can be seen from any side. One method computes
//
//	Meta f32 [23] -> Image f32 [Height,Width,4]
//
// Meta is a camera, and Image has linear red, green and blue, and alpha, as the op gaussian_splat_render defines them.
type Splats struct {
	Method string     `json:"method"` // "render"
	Meta   string     `json:"meta"`   // "meta"
	Image  string     `json:"image"`  // "image"
	Width  int        `json:"width"`  // of the image in pixels
	Height int        `json:"height"`
	Center [3]float64 `json:"center"` // of the scene
	Radius float64    `json:"radius"` // of the scene: how far its splats are from the center, on average
}

// Kind returns KindSplats.
func (t *Splats) Kind() string { return KindSplats }

// Fields lists the fields, sorted by key.
func (t *Splats) Fields() []Field {
	return []Field{
		{Key: "center", Value: t.Center[:]}, {Key: "height", Value: &t.Height}, {Key: "image", Value: &t.Image},
		{Key: "meta", Value: &t.Meta}, {Key: "method", Value: &t.Method}, {Key: "radius", Value: &t.Radius},
		{Key: "width", Value: &t.Width},
	}
}

// String describes the scene.
func (t *Splats) String() string {
	return fmt.Sprintf("a scene around %.3g, %.3g, %.3g with a radius of %.3g, as an image of %d x %d px", t.Center[0],
		t.Center[1], t.Center[2], t.Radius, t.Width, t.Height)
}

// maxSplatSide is the largest width and height of an image.
const maxSplatSide = 1 << 15

// Validate checks a description that was read from a file. The error is a *diag.Error with code.TaskSpec.
func (t *Splats) Validate() error {
	bad := func(format string, args ...any) error {
		return diag.New(code.TaskSpec, "task "+KindSplats, format, args...)
	}
	for field, name := range map[string]string{"method": t.Method, "meta": t.Meta, "image": t.Image} {
		if name == "" {
			return bad("%s is empty", field)
		}
	}
	if t.Width < 1 || t.Width > maxSplatSide || t.Height < 1 || t.Height > maxSplatSide {
		return bad("the image has %d x %d px; allowed are 1 to %d", t.Width, t.Height, maxSplatSide)
	}
	for _, x := range t.Center {
		if !(math.Abs(x) <= math.MaxFloat32) {
			return bad("center is %v; want finite numbers", t.Center)
		}
	}
	if !(t.Radius > 0 && t.Radius <= math.MaxFloat32) {
		return bad("radius is %v; want a finite number above 0", t.Radius)
	}
	return nil
}

// Check compares the task with the method that it names.
func (t *Splats) Check(m Methods) error {
	f, err := m.Taking(t.Method, t.Meta)
	if err != nil {
		return err
	}
	if _, err := f.Input(t.Meta, dtype.F32, Shape{Exactly(23)}); err != nil {
		return err
	}
	_, err = f.Output(t.Image, dtype.F32, Shape{Exactly(t.Height), Exactly(t.Width), Exactly(4)})
	return err
}

// CheckInput accepts every value; the op refuses cameras that it cannot use.
func (t *Splats) CheckInput(string, string, tensor.Tensor) error { return nil }
