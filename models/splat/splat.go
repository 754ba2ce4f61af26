// Package splat builds a renderer for a scene of Gaussian splats from a PLY file that package models/ply opened. Its
// method render has the input meta f32[23], the camera, and the output image f32[height,width,4]. The method preview is
// the same with a smaller image.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package splat

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

var _ = arch.Register(arch.Architecture{
	Name: "gaussian_splats", Title: "Gaussian splats (PLY)", Recognise: recognise, Build: build,
	Keys: map[string]string{"width": "of the images (default 800)", "height": "of the images (default 600)"},
})

const vertices = "splat.vertices"

func recognise(c arch.Checkpoint) (e arch.Evidence) {
	if _, ok := c.Type(vertices); !ok {
		return arch.Evidence{Missing: []string{vertices}}
	}
	return arch.Evidence{Found: []string{vertices}}
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	w := nn.NewWeights(ckpt, func(name string) []string { return []string{name} })
	size := map[string]int64{"width": 800, "height": 600}
	for key := range size {
		if v, ok, err := cfg.Int(key, 1, 1<<15); err != nil {
			return nil, err
		} else if ok {
			size[key] = v
		}
	}
	t, ok := w.Type(vertices)
	properties, _, err := cfg.Strings("properties")
	if err != nil {
		return nil, err
	}
	if !ok || t.Rank() != 2 || t.DType != dtype.F32 || t.Shape[1] != ir.Static(int64(len(properties))) {
		return nil, diag.New(arch.ErrTensor, w.Source(vertices), "tensor is %v; expected f32[splats,%d]", t,
			len(properties))
	}
	n := t.Shape[0].Const
	terms, err := harmonics(properties, w.Source(vertices))
	if err != nil {
		return nil, err
	}
	about := &task.Splats{Method: "render", Meta: "meta", Image: "image", Width: int(size["width"]),
		Height: int(size["height"])}
	center, err := cfg.Floats("center")
	if err != nil {
		return nil, err
	}
	radius, _, err := cfg.Float("radius")
	if err != nil {
		return nil, err
	}
	copy(about.Center[:], center)
	about.Radius = radius
	if err := about.Validate(); err != nil {
		return nil, err
	}

	x := scene{n: n, terms: terms, properties: properties, width: about.Width, height: about.Height}
	m := &arch.Model{Arch: "gaussian_splats", Task: about, Facts: []arch.Fact{
		{Name: "splats", Value: fmt.Sprint(n)},
		{Name: "harmonics", Value: fmt.Sprintf("degree %d", int(math.Sqrt(float64(terms)))-1)},
		{Name: "image", Value: fmt.Sprintf("%d x %d px", about.Width, about.Height)},
	}}
	method := func(name string, x scene) error {
		g, err := w.Graph(name, nil, func(root nn.Scope) {
			meta := op.Input(root.Graph, about.Meta, ir.TypeOf(dtype.F32, 23))
			parts := x.columns(root.Param(vertices, n, int64(len(properties))))
			root.Graph.Return(about.Image, x.render(meta, parts).Named(about.Image))
		})
		m.Methods = append(m.Methods, g)
		return err
	}
	if err := method(about.Method, x); err != nil {
		return nil, err
	}
	if small, ok := x.preview(); ok {
		if err := method("preview", small); err != nil {
			return nil, err
		}
		m.Facts = append(m.Facts,
			arch.Fact{Name: "preview", Value: fmt.Sprintf("%d x %d px", small.width, small.height)})
	}
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	m.Train = func(o arch.TrainOptions) (*arch.Training, error) { return x.training(o, about.Radius) }
	return m, nil
}

// harmonics returns the number of coefficients of each colour: f_dc, and a third of f_rest.
func harmonics(properties []string, source string) (int, error) {
	rest := 0
	for slices.Contains(properties, fmt.Sprint("f_rest_", rest)) {
		rest++
	}
	for _, terms := range []int{1, 4, 9, 16} {
		if rest == 3*(terms-1) {
			return terms, nil
		}
	}
	return 0, diag.New(arch.ErrTensor, source, "has %d properties f_rest; want 0, 9, 24 or 45, for degree 0 to 3", rest)
}

// scene describes the vertices of a file, and the images of it.
type scene struct {
	n             int64
	terms         int // of the harmonics of each colour
	properties    []string
	width, height int
}

// previewed is the least number of pixels of an image of which there is a preview.
const previewed = 1 << 16

// preview returns the scene with images of a third of the width and height, for views that move.
func (s scene) preview() (scene, bool) {
	if s.width*s.height < previewed || min(s.width, s.height) < 3 {
		return s, false
	}
	s.width, s.height = (s.width+1)/3, (s.height+1)/3
	return s, true
}

// names returns the properties of one of the parts that can be trained, task.SplatPosition and so on.
func (s *scene) names(part string) []string {
	numbered := func(name string, n int) (out []string) {
		for k := range n {
			out = append(out, fmt.Sprint(name, k))
		}
		return out
	}
	switch part {
	case task.SplatPosition:
		return []string{"x", "y", "z"}
	case task.SplatScale:
		return numbered("scale_", 3)
	case task.SplatRotation:
		return numbered("rot_", 4)
	case task.SplatOpacity:
		return []string{"opacity"}
	case task.SplatColor:
		return numbered("f_dc_", 3)
	}
	return numbered("f_rest_", 3*(s.terms-1))
}

// parts lists the names of the scene's values.
func (s *scene) parts() []string { return (&task.TrainSplats{Terms: s.terms}).Trained() }

// columns divides the vertices into parts [n, properties of the part].
func (s *scene) columns(vertices *ir.Node) map[string]*ir.Node {
	out := map[string]*ir.Node{}
	for _, part := range s.parts() {
		out[part] = s.matrix(vertices, s.names(part))
	}
	return out
}

// matrix returns columns as [n, len(names)].
func (s *scene) matrix(vertices *ir.Node, names []string) *ir.Node {
	var parts []*ir.Node
	for i := 0; i < len(names); {
		at := slices.Index(s.properties, names[i])
		run := 1
		for i+run < len(names) && at+run < len(s.properties) && s.properties[at+run] == names[i+run] {
			run++
		}
		parts = append(parts, op.Narrow(vertices, 1, at, run))
		i += run
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return op.Concat(1, parts...)
}

// render returns the image [height,width,4] of the parts.
func (s *scene) render(meta *ir.Node, parts map[string]*ir.Node) *ir.Node {
	flat := func(part string) *ir.Node {
		return op.Reshape(parts[part], ir.ShapeOf(s.n*int64(len(s.names(part)))))
	}
	return op.GaussianSplatRender(s.width, s.height, meta, flat(task.SplatPosition), flat(task.SplatScale),
		flat(task.SplatRotation), op.Sigmoid(flat(task.SplatOpacity)),
		// colors count only if all of f_dc is 0, where the colour is 0.5
		op.Const(meta.Graph, 0.5, ir.TypeOf(dtype.F32, 3*s.n)), s.sh(parts))
}

// sh returns the harmonics, flat. The file has f_rest by colour, and its direction points away from the camera, where
// the op's points to it: functions of odd degree change their sign.
func (s *scene) sh(parts map[string]*ir.Node) *ir.Node {
	constant := parts[task.SplatColor]
	if s.terms == 1 {
		return op.Reshape(constant, ir.ShapeOf(3*s.n))
	}
	rest := op.Transpose(op.Reshape(parts[task.SplatHarmonics], ir.ShapeOf(s.n, 3, int64(s.terms-1))), 0, 2, 1)
	all := []*ir.Node{op.Reshape(constant, ir.ShapeOf(s.n, 1, 3))}
	for degree := 1; degree*degree < s.terms; degree++ {
		part := op.Narrow(rest, 1, degree*degree-1, 2*degree+1)
		if degree%2 == 1 {
			part = op.Neg(part)
		}
		all = append(all, part)
	}
	return op.Reshape(op.Concat(1, all...), ir.ShapeOf(s.n*int64(s.terms)*3))
}
