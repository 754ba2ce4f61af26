package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/ply"
	"github.com/rlx-go/rlx/internal/views"
	"github.com/rlx-go/rlx/task"
)

// ErrViews is a case of rlx.ErrUsage: a folder of images has no cameras, a camera that is not supported, or images that
// do not fit their cameras.
var ErrViews error = code.Views

// SplatOptions holds the options of NewSplats.
type SplatOptions struct {
	Settings
	// Rates multiply the learning rate for each kind of value: position (in units of the scene's radius), scale,
	// rotation, opacity, color and harmonics. A missing rate is that of SplatRates.
	Rates map[string]float64
	// Background is the colour behind the scene, red, green and blue from 0 to 1. Transparent images are put before it.
	Background [3]float64
	// HoldOut keeps every image whose number is a multiple of it for evaluation, and trains on the others. 0 trains on
	// all images.
	HoldOut int
	// Densify says how a scene that was compiled with room grows. Nil means DensifyDefaults. Without room, nil means
	// that the scene does not grow.
	Densify *Densify
}

// SplatRates returns the rates with which scenes are fitted, for a learning rate of 1.
func SplatRates() map[string]float64 {
	return map[string]float64{task.SplatPosition: 8e-3, task.SplatScale: 4e-2, task.SplatRotation: 2e-2,
		task.SplatOpacity: 0.2, task.SplatColor: 4e-2, task.SplatHarmonics: 4e-3}
}

// SplatDefaults returns settings for a number of steps: a learning rate of 1 that falls with a cosine from the first
// step on, no decay, no clipping, and an epsilon of 1e-15.
func SplatDefaults(steps int) Settings {
	s := Defaults(steps)
	s.LearningRate, s.Warmup, s.WeightDecay, s.Clip, s.Epsilon = 1, 0, 0, 0, 1e-15
	return s
}

// check checks the options. Errors name their flags of rlxrun train.
func (o *SplatOptions) check(about *task.TrainSplats) error {
	for name, v := range o.Rates {
		if !slices.Contains(about.Trained(), name) {
			return diag.New(diag.Usage, "rates", "%q is unknown; the scene has %s", name,
				strings.Join(about.Trained(), ", "))
		}
		if !(v >= 0 && v <= 1e6) {
			return diag.New(diag.Usage, "rates", "%s is %v; allowed are 0 to 1e6", name, v)
		}
	}
	for _, x := range o.Background {
		if !(x >= 0 && x <= 1) {
			return diag.New(diag.Usage, "background", "is %v; allowed are 0 to 1", o.Background)
		}
	}
	if o.HoldOut < 0 || o.HoldOut == 1 {
		return diag.New(diag.Usage, "hold-out", "is %d; allowed are 0 (none) and 2 or more", o.HoldOut)
	}
	if o.Densify != nil {
		if err := o.Densify.check(about); err != nil {
			return err
		}
	}
	return o.Settings.check()
}

// Splats fits a scene of Gaussian splats to images from known cameras, one image in each step. It owns a State. It is
// for one goroutine at a time.
type Splats struct {
	Loop
	task       *task.TrainSplats
	set        *views.Set
	meta       [][]float32
	pixels     [][]byte // red, green, blue and weight
	train      []int    // views to train on
	held       []int    // views to evaluate
	order      order
	background [3]float64
	grows      *Densify
}

// NewSplats reads the images of a folder with COLMAP's text files or transforms.json, and begins with the scene of the
// artifact, compiled with rlxc --train splats=N. Close it after use.
//
// Errors match rlx.ErrUsage, ErrViews, or are those of images, of rlx.Session.Load and of rlx.Session.NewState.
func NewSplats(ctx context.Context, s *rlx.Session, folder string, o SplatOptions) (*Splats, error) {
	about, ok := s.Model().Task().(*task.TrainSplats)
	if !ok {
		return nil, diag.New(diag.Usage, s.Model().Path(), "was not compiled to fit a scene of splats").
			WithHint("compile the folder of images with rlxc --train splats=5000")
	}
	if err := o.check(about); err != nil {
		return nil, err
	}
	set, err := views.Open(folder)
	if err != nil {
		return nil, err
	}
	if o.Densify == nil && about.Begin > 0 {
		o.Densify = DensifyDefaults(o.Steps)
	}
	t := &Splats{task: about, set: set, background: o.Background, grows: cmp.Or(o.Densify, &Densify{}),
		Loop: Loop{session: s, settings: o.Settings, method: about.Method, optimizer: about.Optimizer,
			scalars: about.Scalars(), rates: SplatRates()}}
	maps.Copy(t.rates, o.Rates)
	identity := splatIdentity{Settings: o.Settings, Rates: maps.Clone(t.rates), HoldOut: o.HoldOut, Densify: o.Densify}
	t.rates[task.SplatPosition] *= about.Radius
	if err := t.divide(o.HoldOut); err != nil {
		return nil, diag.New(code.Views, folder, "%w", err)
	}
	if identity.Images, err = t.read(ctx); err != nil {
		return nil, err
	}
	t.identity = encoded(identity)
	t.order = order{n: len(t.train), seed: o.Seed}
	return t, t.open(ctx, func(ctx context.Context) error {
		_, err := s.Run(ctx, rlx.Request{Method: about.Init, State: t.state})
		return err
	})
}

// divide chooses the views to train on and those to evaluate.
func (t *Splats) divide(every int) error {
	for i := range t.set.Views {
		if every > 0 && i%every == 0 {
			t.held = append(t.held, i)
		} else {
			t.train = append(t.train, i)
		}
	}
	if len(t.train) == 0 {
		return fmt.Errorf("has %d images, and none is left to train on", len(t.set.Views))
	}
	return nil
}

// splatIdentity identifies the training to which a checkpoint belongs, besides its artifact.
type splatIdentity struct {
	Settings
	Rates   map[string]float64 `json:"rates"`
	HoldOut int                `json:"hold_out"`
	Densify *Densify           `json:"densify,omitempty"`
	Images  string             `json:"images"` // digest of cameras and pixels
}

// read reads all images. It returns their digest.
func (t *Splats) read(ctx context.Context) (string, error) {
	h := sha256.New()
	for i := range t.set.Views {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		pixels, err := t.set.Pixels(i, t.task.Width, t.task.Height, t.background)
		if err != nil {
			return "", err
		}
		t.pixels, t.meta = append(t.pixels, pixels), append(t.meta, t.set.Meta(i, t.background))
		h.Write(pixels)
		h.Write(tensor.Bytes(t.meta[i]))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Views returns the number of images to train on, and the number that is kept for evaluation.
func (t *Splats) Views() (train, held int) { return len(t.train), len(t.held) }

// inputs returns the camera and the image of a view.
func (t *Splats) inputs(view int) map[string]rlx.Tensor {
	values := make([]float32, len(t.pixels[view]))
	for i, v := range t.pixels[view] {
		values[i] = float32(v) / 255
	}
	return map[string]rlx.Tensor{
		task.TrainMeta: {DType: rlx.F32, Shape: []int{len(t.meta[view])}, Data: tensor.Bytes(t.meta[view])},
		task.TrainPixels: {DType: rlx.F32, Shape: []int{t.task.Height, t.task.Width, 4},
			Data: tensor.Bytes(values)},
	}
}

// Step trains on one image. Each pass through the images has an order of its own, which follows from the seed. Errors
// are those of Trainer.Step.
func (t *Splats) Step(ctx context.Context) (Step, error) {
	x, err := t.step(ctx, t.inputs(t.train[t.order.at(t.Done())]))
	if err == nil && t.grows.due(t.Done()) {
		start := time.Now()
		err = t.densify(ctx)
		x.Duration += time.Since(start)
	}
	return x, err
}

// Count returns the number of splats that the scene has now, and the most that it can have.
func (t *Splats) Count(ctx context.Context) (now, most int, err error) {
	if t.task.Begin == 0 {
		return t.task.Splats, t.task.Splats, nil
	}
	r, err := t.state.Tensor(task.TrainParam + task.SplatOpacity)
	if err != nil {
		return 0, 0, err
	}
	v, err := r.Read(ctx)
	return len(usedSplats(tensor.View[float32](v.Data))), t.task.Splats, err
}

// usedSplats lists the splats that a scene has.
func usedSplats(opacity []float32) (out []int) {
	for i, x := range opacity {
		if x > task.SplatUnused/2 {
			out = append(out, i)
		}
	}
	return out
}

// Evaluate returns the mean loss and the mean peak signal-to-noise ratio in dB of the held-out images. If no images are
// held out, it takes those that are trained on.
func (t *Splats) Evaluate(ctx context.Context) (loss, psnr float64, err error) {
	all := t.held
	if len(all) == 0 {
		all = t.train
	}
	for _, view := range all {
		res, err := t.session.Run(ctx, rlx.Request{Method: t.task.Loss, Inputs: t.inputs(view), State: t.state})
		if err != nil {
			return 0, 0, err
		}
		loss += number(res, task.TrainLoss) / float64(len(all))
		psnr += -10 * math.Log10(max(number(res, task.TrainMSE), 1e-10)) / float64(len(all))
	}
	return loss, psnr, nil
}

// SavePLY writes the scene in the format of 3D Gaussian splatting (Kerbl et al. 2023).
func (t *Splats) SavePLY(ctx context.Context, path string) error {
	values, err := t.Values(ctx)
	if err != nil {
		return err
	}
	numbered := func(name string, n int) (out []string) {
		for k := range n {
			out = append(out, fmt.Sprint(name, k))
		}
		return out
	}
	properties := slices.Concat([]string{"x", "y", "z", "nx", "ny", "nz"}, numbered("f_dc_", 3),
		numbered("f_rest_", 3*(t.task.Terms-1)), []string{"opacity"}, numbered("scale_", 3), numbered("rot_", 4))
	column := func(part string) func(i int) []float32 {
		v := values[part]
		if part == "" { // the normals, which nobody reads
			return func(int) []float32 { return make([]float32, 3) }
		}
		n, all := v.Shape[1], tensor.View[float32](v.Data)
		return func(i int) []float32 { return all[n*i:][:n] }
	}
	used := usedSplats(tensor.View[float32](values[task.SplatOpacity].Data))
	var columns []func(i int) []float32
	for _, part := range []string{task.SplatPosition, "", task.SplatColor, task.SplatHarmonics, task.SplatOpacity,
		task.SplatScale, task.SplatRotation} {
		if part != task.SplatHarmonics || t.task.Terms > 1 {
			columns = append(columns, column(part))
		}
	}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		return ply.Write(w, properties, len(used), func(i int, row []float32) {
			at := 0
			for _, c := range columns {
				at += copy(row[at:], c(used[i]))
			}
		})
	})
}
