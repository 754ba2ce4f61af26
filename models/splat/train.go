package splat

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/task"
)

// Fit has the options of a scene from rlxc --train: splats=N,degree=D,dssim=X,begin=M.
type Fit struct {
	Splats int // the most that the scene can have; 0 for those of the file
	Begin  int // how many there are at first, at most Splats; 0 for all
	// Degree is the degree of the harmonics of a colour, 0 to 3. -1 means the degree of the file.
	Degree int
	// DSSIM is the share of the structural dissimilarity in the loss; the rest is the mean absolute difference.
	DSSIM float64
}

// MaxFit is the largest number of splats that training may begin with.
const MaxFit = 1 << 24

// ParseFit parses the value of --train. The error is a *diag.Error about the flag.
func ParseFit(mode string) (Fit, error) {
	f := Fit{Degree: -1, DSSIM: 0.2}
	bad := func(format string, args ...any) error {
		return diag.New(diag.Usage, "--train "+mode, format, args...).
			WithHint("for example --train splats=5000,degree=1,dssim=0.2,begin=1000")
	}
	given := map[string]bool{}
	for i, part := range strings.Split(mode, ",") {
		key, value, valued := strings.Cut(part, "=")
		if given[key] || (i == 0) != (key == "splats") {
			return f, bad("%q; a scene of splats takes splats=N first, then degree=D, dssim=X and begin=M, each once", part)
		}
		given[key] = true
		var err error
		switch {
		case key == "splats" && !valued:
		case key == "splats":
			if f.Splats, err = strconv.Atoi(value); err != nil || f.Splats < 1 || f.Splats > MaxFit {
				return f, bad("%q is not a number of splats; allowed are 1 to %d", value, MaxFit)
			}
		case key == "degree":
			if f.Degree, err = strconv.Atoi(value); err != nil || f.Degree < 0 || f.Degree > 3 {
				return f, bad("degree is %q; allowed are 0 to 3", value)
			}
		case key == "begin":
			if f.Begin, err = strconv.Atoi(value); err != nil || f.Begin < 1 || f.Begin > f.Splats {
				return f, bad("begin is %q; allowed are 1 to N of splats=N", value)
			}
		case key == "dssim":
			if f.DSSIM, err = strconv.ParseFloat(value, 64); err != nil || !(f.DSSIM >= 0 && f.DSSIM <= 1) {
				return f, bad("dssim is %q; allowed are 0 to 1", value)
			}
		default:
			return f, bad("%q is unknown; allowed are splats=N, degree=D, dssim=X and begin=M", part)
		}
	}
	return f, nil
}

// training builds the graphs that fit the scene to images.
func (s *scene) training(o arch.TrainOptions, radius float64) (*arch.Training, error) {
	f, err := ParseFit(o.Mode)
	if err != nil {
		return nil, err
	}
	degree := int(math.Sqrt(float64(s.terms))) - 1
	first := s.n // the others are unused until the scene grows
	if n := cmp.Or(f.Begin, f.Splats); n != 0 && int64(n) != s.n || f.Degree >= 0 && f.Degree != degree {
		return nil, diag.New(diag.Usage, "--train "+o.Mode, "the file has %d splats and harmonics of degree %d", s.n,
			degree).WithHint(
			"give --train splats; only a folder of images can begin with another number (splats=N,begin=%d may grow)", s.n)
	}
	if f.Begin != 0 {
		grows := *s
		s, grows.n = &grows, int64(f.Splats)
	}
	about := &task.TrainSplats{Method: o.Method, Loss: "loss", Init: "train_init", Optimizer: o.Optimizer,
		Width: s.width, Height: s.height, Splats: int(s.n), Terms: s.terms, Radius: radius}
	if first < s.n {
		about.Begin = int(first)
	}
	loss := ir.NewGraph(about.Loss)
	err = loss.Build(func() {
		meta := op.Input(loss, task.TrainMeta, ir.TypeOf(dtype.F32, 23))
		pixels := op.Input(loss, task.TrainPixels, ir.TypeOf(dtype.F32, int64(s.height), int64(s.width), 4))
		parts := map[string]*ir.Node{}
		for _, part := range s.parts() {
			parts[part] = s.state(loss, part)
		}
		l := pictures{target: op.Narrow(pixels, 2, 0, 3), weight: op.Narrow(pixels, 2, 3, 1),
			got: screen(op.Narrow(s.render(meta, parts), 2, 0, 3))}
		loss.Return(task.TrainLoss, l.loss(f.DSSIM))
		loss.Return(task.TrainMSE, l.squares())
	})
	if err != nil {
		return nil, err
	}
	start := ir.NewGraph(about.Init)
	err = start.Build(func() {
		columns := s.columns(op.Param(start, vertices, ir.TypeOf(dtype.F32, first, int64(len(s.properties)))))
		zero := op.Const(start, 0, ir.TypeOf(dtype.I32))
		for _, part := range s.parts() {
			x := columns[part]
			if first < s.n {
				x = op.Concat(0, x, s.unused(start, part, s.n-first))
			}
			op.KVAppend(s.state(start, part), x, zero, 0).Named(part + ".first")
		}
		start.Return("done", zero)
	})
	t := &arch.Training{Loss: loss, Init: start, Rates: true, Task: about}
	if about.Begin != 0 {
		t.Observe = s.observe
	}
	return t, err
}

// unused returns n rows of a part for splats that the scene does not have yet.
func (s *scene) unused(g *ir.Graph, part string, n int64) *ir.Node {
	rows := func(value float64, width int64) *ir.Node { return op.Const(g, value, ir.TypeOf(dtype.F32, n, width)) }
	switch part {
	case task.SplatOpacity:
		return rows(task.SplatUnused, 1)
	case task.SplatRotation:
		return op.Concat(1, rows(1, 1), rows(0, 3))
	}
	return rows(0, int64(len(s.names(part))))
}

// state declares the state of a part.
func (s *scene) state(g *ir.Graph, part string) *ir.Node {
	return op.State(g, task.TrainParam+part, ir.TypeOf(dtype.F32, s.n, int64(len(s.names(part)))), 0)
}

// darkest is the least linear colour whose gradient counts. The slope of the power at it still fits into f32.
const darkest = 1e-12

// screen returns linear colours as a screen takes them, which undoes the power of 2.2 of gaussian_splat_render.
func screen(x *ir.Node) *ir.Node {
	least := op.Const(x.Graph, darkest, ir.TypeOf(dtype.F32))
	power := op.Const(x.Graph, 1/2.2, ir.TypeOf(dtype.F32))
	return op.Exp(op.Mul(op.Log(op.Max(x, least)), power))
}

// pictures compares two images [H,W,3] with a weight [H,W,1] of each pixel.
type pictures struct{ got, target, weight *ir.Node }

func (p *pictures) number(v float64) *ir.Node { return op.Const(p.got.Graph, v, ir.TypeOf(dtype.F32)) }

func mean(x *ir.Node) *ir.Node {
	axes := make([]int, x.Type.Rank())
	for i := range axes {
		axes[i] = i
	}
	return op.ReduceMean(x, false, axes...)
}

// weighted returns the weighted mean of x [H,W,3].
func (p *pictures) weighted(x *ir.Node) *ir.Node {
	return op.Div(mean(op.Mul(x, p.weight)), op.Max(mean(p.weight), p.number(1e-8)))
}

// loss returns (1-share) times the mean absolute difference plus share times 1-SSIM, as Kerbl et al. 2023.
func (p *pictures) loss(share float64) *ir.Node {
	absolute := p.weighted(op.Abs(op.Sub(p.got, p.target)))
	if share == 0 {
		return absolute
	}
	similar := op.Sub(p.number(1), p.similarity())
	return op.Add(op.Mul(absolute, p.number(1-share)), op.Mul(similar, p.number(share)))
}

// squares returns the mean squared difference of the parts of the colours that a screen can show.
func (p *pictures) squares() *ir.Node {
	return p.weighted(op.Square(op.Sub(op.Clamp(p.got, 0, 1), op.Clamp(p.target, 0, 1))))
}

// Constants of the structural similarity, for values of 0 to 1.
const (
	window    = 11 // side in pixels
	deviation = 1.5
	stable1   = 0.01 * 0.01
	stable2   = 0.03 * 0.03
)

// similarity returns the mean structural similarity (Wang et al. 2004) of the images, with a Gaussian window and zeros
// around the images. Pixels without weight count as equal.
func (p *pictures) similarity() *ir.Node {
	h, w := p.got.Type.Shape[0].Const, p.got.Type.Shape[1].Const
	plane := func(x *ir.Node) *ir.Node { return op.Transpose(op.Mul(x, p.weight), 2, 0, 1) }
	x, y := plane(p.got), plane(p.target)
	all := op.Reshape(op.Concat(0, x, y, op.Mul(x, x), op.Mul(y, y), op.Mul(x, y)), ir.ShapeOf(15, 1, h, w))
	all = blur(blur(all, 2), 3)
	part := func(i int) *ir.Node { return op.Narrow(all, 0, 3*i, 3) }
	mx, my := part(0), part(1)
	xx, yy, xy := op.Mul(mx, mx), op.Mul(my, my), op.Mul(mx, my)
	vx, vy, cov := op.Sub(part(2), xx), op.Sub(part(3), yy), op.Sub(part(4), xy)
	twice := func(x *ir.Node, c float64) *ir.Node { return op.Add(op.Mul(x, p.number(2)), p.number(c)) }
	sum := func(a, b *ir.Node, c float64) *ir.Node { return op.Add(op.Add(a, b), p.number(c)) }
	return mean(op.Div(op.Mul(twice(xy, stable1), twice(cov, stable2)),
		op.Mul(sum(xx, yy, stable1), sum(vx, vy, stable2))))
}

// blur convolves images [N,1,H,W] with the Gaussian window along an axis.
func blur(x *ir.Node, axis int) *ir.Node {
	shape, padding := []int64{1, 1, 1, 1}, []int{0, 0}
	shape[axis], padding[axis-2] = window, window/2
	scale := 0.0
	for i := range window {
		scale += math.Exp(-float64((i-window/2)*(i-window/2)) / (2 * deviation * deviation))
	}
	number := func(v float64) *ir.Node { return op.Const(x.Graph, v, ir.TypeOf(dtype.F32)) }
	at := op.Cast(op.Iota(x.Graph, axis, ir.TypeOf(dtype.I32, shape...)), dtype.F32)
	weights := op.Exp(op.Mul(op.Square(op.Sub(at, number(window/2))), number(-1/(2*deviation*deviation))))
	return op.Conv2D(x, op.Mul(weights, number(1/scale)), nil, op.ConvAttrs{Stride: []int{1, 1}, Padding: padding,
		Dilation: []int{1, 1}, Layout: "nchw"}).Named(fmt.Sprint("window.", axis))
}
