package task

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// KindTrainSplats is the kind of a TrainSplats in artifacts.
const KindTrainSplats = "train_splats"

var _ = Register(KindTrainSplats, func() Task { return &TrainSplats{} })

// Names of the inputs and results of a TrainSplats besides those of a Train.
const (
	TrainMeta   = "meta"   // f32[23]: the camera, as the op gaussian_splat_render takes it
	TrainPixels = "pixels" // f32[Height,Width,4]: red, green and blue from 0 to 1 as a screen takes them, and a weight
	TrainMSE    = "mse"    // f32[]: mean squared error of the pixels, with both images clamped to 0..1
)

// TrainGrowth is the state f32[Splats,2] of a scene that grows. It has two numbers for each splat. The first is the
// sum, over the steps so far, of the length of the gradient of the loss with respect to the splat's place in the image,
// whose sides are from -1 to 1. The second is the number of steps in which the splat had a gradient.
const TrainGrowth = "growth"

// SplatUnused is the opacity, a logit, of a splat that the scene does not have. Splats below half of it are unused.
const SplatUnused = -1e6

// TrainRate and the name of a trained value are the name of an input f32[] of a step, which multiplies the step size
// and the decay of this value.
const TrainRate = "rate."

// Names of the trained values of a scene. The values have the meaning of the PLY files of 3D Gaussian splatting.
const (
	SplatPosition  = "position"  // f32[N,3]
	SplatScale     = "scale"     // f32[N,3]: logarithms
	SplatRotation  = "rotation"  // f32[N,4]: quaternions w, x, y, z
	SplatOpacity   = "opacity"   // f32[N,1]: logits
	SplatColor     = "color"     // f32[N,3]: the constant terms of the harmonics
	SplatHarmonics = "harmonics" // f32[N,3*(Terms-1)]: the other terms, those of red first; absent if Terms is 1
)

// TrainSplats describes fitting a scene of Gaussian splats to images from known cameras. Package train runs it. The
// trained values and the moments of the optimizer are states.
//
//	Method: meta, pixels, Scalars f32[] -> loss f32[], mse f32[], norm f32[]; updates the states
//	Loss: meta, pixels -> loss f32[], mse f32[], of the current states
//	Init: sets the trained values to those of the checkpoint
type TrainSplats struct {
	Method    string  `json:"method"`    // "train_step"
	Loss      string  `json:"loss"`      // "loss"
	Init      string  `json:"init"`      // "train_init"
	Optimizer string  `json:"optimizer"` // one of Optimizers
	Width     int     `json:"width"`     // of the images in pixels
	Height    int     `json:"height"`
	Splats    int     `json:"splats"`
	Begin     int     `json:"begin,omitempty"` // number of splats at first, if they may grow to Splats; else 0
	Terms     int     `json:"terms"`           // of the harmonics of a colour: 1, 4, 9 or 16
	Radius    float64 `json:"radius"`          // of the scene, in whose unit the rate of positions is given
}

// Kind returns KindTrainSplats.
func (t *TrainSplats) Kind() string { return KindTrainSplats }

// Fields lists the fields, sorted by key.
func (t *TrainSplats) Fields() []Field {
	return []Field{
		{Key: "begin", Value: &t.Begin, Added: true}, {Key: "height", Value: &t.Height},
		{Key: "init", Value: &t.Init}, {Key: "loss", Value: &t.Loss},
		{Key: "method", Value: &t.Method}, {Key: "optimizer", Value: &t.Optimizer}, {Key: "radius", Value: &t.Radius},
		{Key: "splats", Value: &t.Splats}, {Key: "terms", Value: &t.Terms}, {Key: "width", Value: &t.Width},
	}
}

// String describes the inputs.
func (t *TrainSplats) String() string {
	number := fmt.Sprint(t.Splats)
	if t.Begin != 0 {
		number = fmt.Sprintf("%d to %d", t.Begin, t.Splats)
	}
	return fmt.Sprintf("training of %s splats by %s, with images of %d x %d px", number, t.Optimizer, t.Width, t.Height)
}

// Trained lists the names of the trained values.
func (t *TrainSplats) Trained() []string {
	all := []string{SplatPosition, SplatScale, SplatRotation, SplatOpacity, SplatColor, SplatHarmonics}
	if t.Terms == 1 {
		return all[:5]
	}
	return all
}

// Scalars returns the names of the inputs of the optimizer.
func (t *TrainSplats) Scalars() []string {
	out := optimizerScalars(t.Optimizer)
	for _, name := range t.Trained() {
		out = append(out, TrainRate+name)
	}
	return out
}

// Validate checks a description that was read from a file. The error is a *diag.Error with code.TaskSpec.
func (t *TrainSplats) Validate() error {
	bad := func(format string, args ...any) error {
		return diag.New(code.TaskSpec, "task "+KindTrainSplats, format, args...)
	}
	if t.Method == "" || t.Loss == "" || t.Init == "" {
		return bad("method is %q, loss %q and init %q; want all", t.Method, t.Loss, t.Init)
	}
	if !slices.Contains(Optimizers(), t.Optimizer) {
		return bad("optimizer is %q; allowed are %v", t.Optimizer, Optimizers())
	}
	if !slices.Contains([]int{1, 4, 9, 16}, t.Terms) {
		return bad("terms is %d; allowed are 1, 4, 9 and 16", t.Terms)
	}
	if t.Splats < 1 || t.Splats > 1<<27 {
		return bad("splats is %d; allowed are 1 to %d", t.Splats, 1<<27)
	}
	if t.Begin < 0 || t.Begin >= t.Splats {
		return bad("begin is %d; allowed are 0 to %d, fewer than splats", t.Begin, t.Splats-1)
	}
	// the others are those of a scene
	scene := &Splats{Method: t.Method, Meta: TrainMeta, Image: TrainPixels, Width: t.Width, Height: t.Height,
		Radius: t.Radius}
	return scene.Validate()
}

// Check compares the task with the methods that it names.
func (t *TrainSplats) Check(m Methods) error {
	for _, name := range []string{t.Method, t.Loss} {
		inputs := []string{TrainMeta, TrainPixels}
		results := []string{TrainLoss, TrainMSE}
		if name == t.Method {
			inputs, results = append(inputs, t.Scalars()...), append(results, TrainNorm)
		}
		f, err := m.Taking(name, slices.Clone(inputs)...)
		if err != nil {
			return err
		}
		for i, in := range inputs {
			shape := Shape{}
			switch i {
			case 0:
				shape = Shape{Exactly(23)}
			case 1:
				shape = Shape{Exactly(t.Height), Exactly(t.Width), Exactly(4)}
			}
			if _, err := f.Input(in, dtype.F32, shape); err != nil {
				return err
			}
		}
		for _, out := range results {
			if _, err := f.Output(out, dtype.F32, Shape{}); err != nil {
				return err
			}
		}
	}
	_, err := m.Taking(t.Init)
	return err
}

// CheckInput accepts every value; the op refuses cameras that it cannot use.
func (t *TrainSplats) CheckInput(string, string, tensor.Tensor) error { return nil }
