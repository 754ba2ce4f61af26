package train

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// Densify says how a scene grows (Kerbl et al. 2023, section 5.2). After every Every-th step from From to Until, splats
// whose gradient with respect to the place in the image was large on average are doubled: a small one is copied, and a
// large one is replaced by two smaller ones. Splats that are nearly transparent or huge are removed, unless no other
// would stay. If Every is 0, the number of splats does not change.
type Densify struct {
	Every int `json:"every"`
	From  int `json:"from"`
	Until int `json:"until"`
	// Gradient is the least mean length of the gradient with which a splat is doubled. The image's sides are from -1 to
	// 1.
	Gradient float64 `json:"gradient"`
	// Size is the largest deviation, in units of the scene's radius, with which a splat is copied and not split.
	Size float64 `json:"size"`
	// Opacity is the least opacity, and Huge the largest deviation in units of the scene's radius, of splats that stay.
	Opacity float64 `json:"opacity"`
	Huge    float64 `json:"huge"`
}

// DensifyDefaults returns how a scene grows in a number of steps: every 100 steps in the first half of them.
func DensifyDefaults(steps int) *Densify {
	return &Densify{Every: 100, From: 100, Until: steps / 2, Gradient: 2e-4, Size: 0.03, Opacity: 0.005, Huge: 1}
}

func (d *Densify) check(about *task.TrainSplats) error {
	bad := func(format string, args ...any) *diag.Error {
		return diag.New(diag.Usage, "densify", format, args...)
	}
	switch {
	case d.Every == 0:
		return nil
	case about.Begin == 0:
		return bad("the scene has %d splats and cannot grow", about.Splats).
			WithHint("compile it with room: rlxc --train splats=%d,begin=%d", about.Splats, (about.Splats+3)/4)
	case d.Every < 0 || d.From < 0 || d.Until < 0:
		return bad("every is %d, from %d and until %d; allowed are 0 and more", d.Every, d.From, d.Until)
	}
	for name, v := range map[string]float64{"gradient": d.Gradient, "size": d.Size, "huge": d.Huge} {
		if !(v >= 0) {
			return bad("%s is %v; allowed are 0 and more", name, v)
		}
	}
	if !(d.Opacity >= 0 && d.Opacity < 1) {
		return bad("opacity is %v; allowed are 0 and more, less than 1", d.Opacity)
	}
	return nil
}

// due reports whether the splats change after a number of steps.
func (d *Densify) due(done int) bool {
	return d.Every > 0 && done%d.Every == 0 && done >= d.From && done <= d.Until
}

// A crowd has all splats of a scene on the host, including unused ones.
type crowd struct {
	about  *task.TrainSplats
	parts  map[string][]float32   // by the name of the part
	kept   map[string][][]float32 // the moments of the optimizer
	growth []float32
	rand   *rand.Rand
}

// each calls f with each tensor of the state that has a row for each splat, and its name.
func (c *crowd) each(f func(name string, x *[]float32) error) error {
	for _, part := range c.about.Trained() {
		moments := []string{task.TrainFirst, task.TrainSecond}
		if c.about.Optimizer == task.SGD {
			moments = moments[:1]
		}
		if c.kept[part] == nil {
			c.kept[part] = make([][]float32, len(moments))
		}
		x := c.parts[part]
		if err := f(task.TrainParam+part, &x); err != nil {
			return err
		}
		c.parts[part] = x
		for k, prefix := range moments {
			if err := f(prefix+part, &c.kept[part][k]); err != nil {
				return err
			}
		}
	}
	return f(task.TrainGrowth, &c.growth)
}

// used reports whether the scene has splat i.
func (c *crowd) used(i int) bool { return c.parts[task.SplatOpacity][i] > task.SplatUnused/2 }

// row returns the values of a part of splat i.
func (c *crowd) row(part string, i int) []float32 {
	x := c.parts[part]
	n := len(x) / c.about.Splats
	return x[n*i:][:n]
}

// deviation returns the largest deviation of splat i in units of the scene's radius.
func (c *crowd) deviation(i int) float64 {
	return math.Exp(float64(slices.Max(c.row(task.SplatScale, i)))) / c.about.Radius
}

// forget clears the moments of splat i.
func (c *crowd) forget(i int) {
	for _, moments := range c.kept {
		for _, m := range moments {
			n := len(m) / c.about.Splats
			clear(m[n*i:][:n])
		}
	}
}

// place copies splat i to the unused splat j.
func (c *crowd) place(i, j int) {
	for part := range c.parts {
		copy(c.row(part, j), c.row(part, i))
	}
	c.forget(j)
}

// prune removes the splats that are nearly transparent or huge, unless that are all.
func (c *crowd) prune(d *Densify) {
	var gone []int
	stay := 0
	for i := range c.about.Splats {
		opacity := 1 / (1 + math.Exp(-float64(c.row(task.SplatOpacity, i)[0])))
		switch {
		case !c.used(i):
		case opacity < d.Opacity || c.deviation(i) > d.Huge:
			gone = append(gone, i)
		default:
			stay++
		}
	}
	if stay == 0 {
		return
	}
	for _, i := range gone {
		c.row(task.SplatOpacity, i)[0] = task.SplatUnused
		c.forget(i)
	}
}

// grow doubles splats with large gradients, the largest first, as long as there is room.
func (c *crowd) grow(d *Densify) {
	var room, chosen []int
	mean := make([]float64, c.about.Splats)
	for i := range mean {
		mean[i] = float64(c.growth[2*i]) / max(1, float64(c.growth[2*i+1]))
		if !c.used(i) {
			room = append(room, i)
		} else if mean[i] >= d.Gradient && mean[i] > 0 {
			chosen = append(chosen, i)
		}
	}
	slices.SortStableFunc(chosen, func(i, j int) int { return cmp.Compare(mean[j], mean[i]) })
	for k, i := range chosen[:min(len(chosen), len(room))] {
		if c.deviation(i) > d.Size {
			c.split(i, room[k])
		} else {
			c.clone(i, room[k])
		}
	}
}

// clone makes splat j a copy of i, half a deviation away where the last steps moved it.
func (c *crowd) clone(i, j int) {
	c.place(i, j)
	m := c.kept[task.SplatPosition][0][3*i:][:3]
	length := math.Sqrt(float64(m[0])*float64(m[0]) + float64(m[1])*float64(m[1]) + float64(m[2])*float64(m[2]))
	if length == 0 {
		return
	}
	away := 0.5 * c.deviation(i) * c.about.Radius / length
	for k, p := 0, c.row(task.SplatPosition, j); k < 3; k++ {
		p[k] -= float32(float64(m[k]) * away)
	}
}

// The deviations of a splat that is split are divided by smaller.
const smaller = 1.6

// split divides splat i into splats i and j, smaller ones at random places, drawn from the distribution of splat i.
func (c *crowd) split(i, j int) {
	for k, s := 0, c.row(task.SplatScale, i); k < 3; k++ {
		s[k] -= float32(math.Log(smaller))
	}
	c.place(i, j)
	c.forget(i)
	q := c.row(task.SplatRotation, i)
	w, x, y, z := float64(q[0]), float64(q[1]), float64(q[2]), float64(q[3])
	n := 2 / (w*w + x*x + y*y + z*z)
	axes := [3][3]float64{
		{1 - n*(y*y+z*z), n * (x*y + w*z), n * (x*z - w*y)},
		{n * (x*y - w*z), 1 - n*(x*x+z*z), n * (y*z + w*x)},
		{n * (x*z + w*y), n * (y*z - w*x), 1 - n*(x*x+y*y)},
	}
	for _, to := range []int{i, j} {
		p := c.row(task.SplatPosition, to)
		var at [3]float64
		for k, s := range c.row(task.SplatScale, i) {
			far := c.rand.NormFloat64() * smaller * math.Exp(float64(s))
			for axis := range at {
				at[axis] += far * axes[k][axis]
			}
		}
		for axis := range at {
			p[axis] += float32(at[axis])
		}
	}
}

// densify changes the splats after a step. It writes all or nothing of them, unless the device fails.
func (t *Splats) densify(ctx context.Context) error {
	c := &crowd{about: t.task, parts: map[string][]float32{}, kept: map[string][][]float32{},
		rand: rand.New(rand.NewPCG(t.settings.Seed, uint64(t.Done())))}
	err := c.each(func(name string, x *[]float32) error {
		r, err := t.state.Tensor(name)
		if err != nil {
			return err
		}
		v, err := r.Read(ctx)
		*x = tensor.View[float32](v.Data)
		return err
	})
	if err != nil {
		return err
	}
	c.prune(t.grows)
	c.grow(t.grows)
	clear(c.growth)
	ctx = context.WithoutCancel(ctx)
	return c.each(func(name string, x *[]float32) error {
		r, err := t.state.Tensor(name)
		if err != nil {
			return err
		}
		return r.Write(ctx, rlx.Tensor{DType: rlx.F32, Shape: r.Shape, Data: tensor.Bytes(*x)})
	})
}
