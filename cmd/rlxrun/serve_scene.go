package main

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/scenepage"
	"github.com/rlx-go/rlx/task"
)

// servedScene is a scene that the page shows.
type servedScene struct {
	*lasting
	task    *task.Splats
	camera  camera                      // the background and the scale of all frames
	methods map[image.Point]*rlx.Method // by the size of the image
}

// sceneMethods returns the methods that render a scene as t.Method does, by the size of the image. The image of others
// is smaller; the page uses them while the camera moves.
func sceneMethods(m *rlx.Model, t *task.Splats) map[image.Point]*rlx.Method {
	out := map[image.Point]*rlx.Method{}
	for _, x := range m.Methods() {
		if len(x.Inputs) != 1 || len(x.Outputs) != 1 || x.Stateful || !fits(x.Inputs[0], t.Meta, 23) {
			continue
		}
		y := x.Outputs[0]
		if len(y.Shape) != 3 || !fits(y, t.Image, y.Shape[0].Max, y.Shape[1].Max, 4) {
			continue
		}
		size := image.Pt(int(y.Shape[1].Max), int(y.Shape[0].Max))
		if x.Name == t.Method || size.X < t.Width && size.Y < t.Height {
			out[size] = x
		}
	}
	return out
}

// fits reports whether a value has a name, the type f32 and a fixed shape.
func fits(v rlx.Value, name string, shape ...int64) bool {
	return v.Name == name && v.DType == rlx.F32 && slices.EqualFunc(v.Shape, shape,
		func(d rlx.Dim, n int64) bool { return d.Min == n && d.Max == n })
}

// serveScene serves the page with a scene until ctx ends.
func (s *session) serveScene(ctx context.Context, f *serveFlags, t *task.Splats, listener net.Listener) error {
	c, err := parseCamera(f.camera, t)
	if err != nil {
		return err
	}
	l := &lasting{s: s, ctx: ctx}
	v := &servedScene{lasting: l, task: t, camera: c, methods: sceneMethods(s.model, t)}
	// a picture, and room to encode it
	if err := s.need("picture", 8*int64(t.Width)*int64(t.Height)); err != nil {
		return err
	}
	o := scenepage.Options{Model: filepath.Base(s.model.Path()), Radius: t.Radius, Render: v.render,
		Camera: scenepage.Camera{Pos: c.pos, Target: c.target, Up: c.up, FOV: c.fov}, Rest: c.rest(),
		Failed: func(err error) { s.env.Notef("%v", inFlags(err)) }}
	var methods []*rlx.Method
	for size, m := range v.methods {
		o.Sizes, methods = append(o.Sizes, size), append(methods, m)
	}
	slices.SortFunc(o.Sizes, func(a, b image.Point) int { return cmp.Compare(b.X, a.X) })
	if err := s.readyToServe(ctx, methods); err != nil {
		return err
	}
	return s.serveUntil(ctx, f, listener, scenepage.New(o), l)
}

// rest returns the parts of --camera that the page does not change, unless they have the default.
func (c camera) rest() string {
	var parts []string
	if b := c.background; b != [3]float64{} {
		parts = append(parts, fmt.Sprintf("background=%v,%v,%v", float32(b[0]), float32(b[1]), float32(b[2])))
	}
	if c.scale != 1 {
		parts = append(parts, fmt.Sprint("scale=", float32(c.scale)))
	}
	return strings.Join(parts, ";")
}

// render renders a frame.
func (v *servedScene) render(ctx context.Context, c scenepage.Camera, size image.Point) (*image.RGBA, error) {
	at := v.camera
	at.pos, at.target, at.up, at.fov = c.Pos, c.Target, c.Up, c.FOV
	if err := at.check("camera"); err != nil {
		return nil, err
	}
	m := v.methods[size]
	r, err := v.Run(ctx, rlx.Request{Method: m.Name, Inputs: map[string]rlx.Tensor{v.task.Meta: at.meta()}})
	if err != nil {
		return nil, inFlags(err)
	}
	return screen(tensor.View[float32](r.Outputs[v.task.Image].Data), size), nil
}
