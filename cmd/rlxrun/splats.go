package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/task"
)

var _ = registerTask(taskKind{
	name: task.KindSplats, takes: "a camera", usage: "--camera or --turntable",
	example: "--camera 'pos=0,0,-4;fov=60' -o view.png",
	examples: []cli.Example{
		{About: "a view of a scene of Gaussian splats",
			Line: "rlxrun scene.rlx --camera 'pos=0,-1,-4;target=0,0,0;fov=60' -o view.png"},
		{About: "60 views around a scene: frames/000.png, frames/001.png and so on",
			Line: "rlxrun scene.rlx --turntable 60 -o frames"},
	},
	flags: func(*imageFlag) taskFlags { return &splatsFlags{} },
})

// splatsFlags are the flags of the task "splats".
type splatsFlags struct {
	camera string
	views  int
}

func (f *splatsFlags) declare(fs *cli.FlagSet) {
	fs.Group("Viewing a scene (artifacts that declare the task " + task.KindSplats + ")")
	fs.StringVar(&f.camera, "camera", "", cameraUsage)
	fs.IntVar(&f.views, "turntable", 0, "`N` views on a circle about the target; -o names a folder for them and for their cameras, transforms.json")
}

// cameraUsage explains --camera.
const cameraUsage = "`KEY=VALUE;...` where to look from: pos=X,Y,Z, target=X,Y,Z (the middle of the scene), fov=DEGREES (60, vertical), up=X,Y,Z (0,-1,0: up in the picture; in most files y points down), background=R,G,B (0,0,0), scale=FACTOR of all splats (1)"

func (f *splatsFlags) settle() error {
	if f.views < 0 || f.views > maxViews {
		return cli.Usagef(fmt.Sprintf("--turntable %d", f.views), "allowed are 1 to %d views", maxViews)
	}
	_, err := parseCamera(f.camera, &task.Splats{Radius: 1})
	return err
}

// maxViews is the largest number of frames, which have names of three digits.
const maxViews = 1000

func (f *splatsFlags) given() (out []string) {
	if f.camera != "" {
		out = append(out, "--camera")
	}
	if f.views > 0 {
		out = append(out, "--turntable")
	}
	return out
}

// camera is the value of --camera.
type camera struct {
	pos, target, up, background [3]float64
	fov, scale                  float64
}

// parseCamera parses the value of --camera. Values that it leaves out follow from the scene.
func parseCamera(text string, t *task.Splats) (c camera, err error) {
	c = camera{target: t.Center, up: [3]float64{0, -1, 0}, fov: 60, scale: 1}
	vectors := map[string]*[3]float64{"pos": &c.pos, "target": &c.target, "up": &c.up, "background": &c.background}
	numbers := map[string]*float64{"fov": &c.fov, "scale": &c.scale}
	given := map[string]bool{}
	for item := range strings.SplitSeq(text, ";") {
		if text == "" {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		var to []*float64
		if v := vectors[key]; v != nil {
			to = []*float64{&v[0], &v[1], &v[2]}
		} else if n := numbers[key]; n != nil {
			to = []*float64{n}
		}
		parts := strings.Split(value, ",")
		switch {
		case to == nil:
			return c, cli.Usagef("--camera "+text,
				"%q is unknown; allowed are pos, target, up, fov, background and scale", key)
		case given[key]:
			return c, cli.Usagef("--camera "+text, "%s is given twice", key)
		case len(parts) != len(to):
			return c, cli.Usagef("--camera "+text, "%s is %q; want %d numbers, separated by commas", key, value,
				len(to))
		}
		given[key] = true
		for i, p := range parts {
			if *to[i], err = strconv.ParseFloat(strings.TrimSpace(p), 32); err != nil || math.IsNaN(*to[i]) ||
				math.IsInf(*to[i], 0) {
				return c, cli.Usagef("--camera "+text, "%s has %q; want a finite number", key, p)
			}
		}
	}
	if !given["pos"] {
		c.pos = c.target
		c.pos[2] -= 2.5 * t.Radius
	}
	return c, c.check("--camera " + text)
}

// check checks the numbers of a camera together. subject is the subject of the error.
func (c camera) check(subject string) error {
	switch {
	case !(c.fov >= 1 && c.fov <= 170):
		return cli.Usagef(subject, "fov is %v degrees; allowed are 1 to 170", c.fov)
	case !(c.scale > 0 && c.scale <= 100):
		return cli.Usagef(subject, "scale is %v; allowed are numbers above 0 up to 100", c.scale)
	case c.pos == c.target:
		return cli.Usagef(subject, "pos and target are one point; want a camera beside its target")
	case parallel(c.up, sub(c.target, c.pos)):
		return cli.Usagef(subject, "up is %v, along the view; want another direction", c.up).
			WithHint("add up=X,Y,Z, for example up=0,0,1")
	}
	return nil
}

func sub(a, b [3]float64) [3]float64 { return [3]float64{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

func dot(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func cross(a, b [3]float64) [3]float64 {
	return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func parallel(a, b [3]float64) bool {
	x := cross(a, b)
	return dot(x, x) <= 1e-8*dot(a, a)*dot(b, b)
}

// turned returns the camera, rotated by an angle around its target, about the direction up.
func (c camera) turned(angle float64) camera {
	n := math.Sqrt(dot(c.up, c.up))
	axis := [3]float64{c.up[0] / n, c.up[1] / n, c.up[2] / n}
	arm := sub(c.pos, c.target)
	side, along := cross(axis, arm), dot(axis, arm)
	for i := range c.pos { // Rodrigues' formula
		c.pos[i] = c.target[i] + arm[i]*math.Cos(angle) + side[i]*math.Sin(angle) + axis[i]*along*(1-math.Cos(angle))
	}
	return c
}

// meta returns the input of the model. The up vector is negated, because it points to the bottom of the model's image.
func (c camera) meta() rlx.Tensor {
	m := make([]float32, 23)
	for i := range 3 {
		m[i], m[3+i], m[6+i] = float32(c.pos[i]), float32(c.target[i]), float32(-c.up[i])
		m[12+i] = float32(c.background[i])
	}
	m[9], m[18], m[19], m[21] = float32(c.fov), float32(c.scale), 1.0/255, 1e-3
	return rlx.Tensor{DType: rlx.F32, Shape: []int{len(m)}, Data: tensor.Bytes(m)}
}

// A splatsJob renders views of a scene.
type splatsJob struct {
	task   *task.Splats
	camera camera
	views  int // 0 for one picture
	method *rlx.Method
	dir    string
}

func (f *splatsFlags) job(_ context.Context, s *session) (job, error) {
	t := s.model.Task().(*task.Splats)
	c, err := parseCamera(f.camera, t)
	if err != nil {
		return nil, err
	}
	if err := s.need("picture", 8*int64(t.Width)*int64(t.Height)); err != nil {
		return nil, err
	}
	m, err := s.model.Method(t.Method)
	return &splatsJob{task: t, camera: c, views: f.views, method: m}, err
}

func (j *splatsJob) methods() []*rlx.Method { return []*rlx.Method{j.method} }
func (j *splatsJob) primary() string        { return j.offers()[0].name }
func (j *splatsJob) inputs() []string       { return nil }
func (j *splatsJob) outputs() []string      { return nil }
func (j *splatsJob) streams() bool          { return false }
func (j *splatsJob) json(sum *summary) any  { return sum }

func (j *splatsJob) offers() []offer {
	if j.views > 0 {
		return []offer{{name: "frames", about: "the views as files in a folder", folder: true}}
	}
	return []offer{{name: j.task.Image, about: "the view (PNG)", pictures: []string{""}}}
}

// prepare creates the folder of a turntable.
func (j *splatsJob) prepare(_ *session, sinks []sink) error {
	if j.views == 0 {
		return nil
	}
	if len(sinks) != 1 {
		return cli.Usagef("-o", "name one folder for the frames").WithHint("for example -o frames")
	}
	j.dir = sinks[0].dest
	if err := os.Mkdir(j.dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return writeFailed(j.dir, err)
	}
	if st, err := os.Stat(j.dir); err != nil || !st.IsDir() {
		return cli.Usagef("-o "+j.dir, "is a file; --turntable needs a folder")
	}
	return nil
}

func (j *splatsJob) run(ctx context.Context, s *session) (map[string]product, error) {
	if err := s.load(ctx, j.method); err != nil {
		return nil, err
	}
	if j.views == 0 {
		img, err := j.view(ctx, s, j.camera)
		return map[string]product{j.task.Image: {image: func(int) image.Image { return img }}}, err
	}
	s.bar = s.env.Progress("views", int64(j.views))
	defer func() { s.bar.Clear() }()
	for k := range j.views {
		img, err := j.view(ctx, s, j.turn(k))
		if err != nil {
			return nil, err
		}
		err = j.write(ctx, frameName(k), func(to io.Writer) error { return png.Encode(to, img) })
		if err != nil {
			return nil, err
		}
		s.bar.Set(int64(k + 1))
		for i := range s.runs {
			s.runs[i].Outputs = nil // the outputs of many views would fill the memory
		}
	}
	return nil, j.write(ctx, "transforms.json", j.cameras)
}

// cameras writes the cameras of a turntable in the form of programs for NeRF.
func (j *splatsJob) cameras(w io.Writer) error {
	type frame struct {
		Path   string        `json:"file_path"`
		Matrix [4][4]float64 `json:"transform_matrix"`
	}
	focal := 0.5 * float64(j.task.Height) / math.Tan(j.camera.fov*math.Pi/360)
	var frames []frame
	for k := range j.views {
		frames = append(frames, frame{frameName(k), j.turn(k).matrix()})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"camera_model": "PINHOLE", "w": j.task.Width, "h": j.task.Height, "fl_x": focal,
		"fl_y": focal, "frames": frames})
}

// turn returns the camera of a frame.
func (j *splatsJob) turn(k int) camera {
	return j.camera.turned(2 * math.Pi * float64(k) / float64(j.views))
}

func frameName(k int) string { return fmt.Sprintf("%03d.png", k) }

// matrix returns the matrix from the camera's coordinates, with y up and z back, to the world.
func (c camera) matrix() (m [4][4]float64) {
	unit := func(a [3]float64) [3]float64 {
		n := math.Sqrt(dot(a, a))
		return [3]float64{a[0] / n, a[1] / n, a[2] / n}
	}
	back := unit(sub(c.pos, c.target))
	right := unit(cross(c.up, back))
	for k, axis := range [][3]float64{right, cross(back, right), back, c.pos} {
		for i := range axis {
			m[i][k] = axis[i]
		}
	}
	m[3][3] = 1
	return m
}

// write writes a file of a turntable.
func (j *splatsJob) write(ctx context.Context, name string, to func(io.Writer) error) error {
	var w files
	defer w.abort()
	err := w.add(ctx, filepath.Join(j.dir, name), to)
	if err == nil {
		err = w.commit()
	}
	return err
}

// view renders one view.
func (j *splatsJob) view(ctx context.Context, s *session, c camera) (image.Image, error) {
	r, err := s.Run(ctx, rlx.Request{Method: j.method.Name, Inputs: map[string]rlx.Tensor{j.task.Meta: c.meta()}})
	if err != nil {
		return nil, err
	}
	size := image.Pt(j.task.Width, j.task.Height)
	return screen(tensor.View[float32](r.Outputs[j.task.Image].Data), size), nil
}

// help explains the flags for an artifact with this task.
func (f *splatsFlags) help(m *rlx.Model) string {
	t := m.Task().(*task.Splats)
	return fmt.Sprintf("Task %s: --camera or --turntable, %v.\nOutputs for -o:\n  %-16s %s\n", task.KindSplats, t,
		t.Image, "the view, or with --turntable a folder of views")
}
