package task

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// KindTrainSegment is the kind of a TrainSegment in artifacts.
const KindTrainSegment = "train_segment"

var _ = Register(KindTrainSegment, func() Task { return &TrainSegment{} })

// Names of the inputs and results of a TrainSegment besides those of a Train.
const (
	TrainEmbeddings = "embeddings" // f32[Batch,Channels,Grid,Grid]
	TrainPoints     = "points"     // f32[Batch,2,2]: x and y in pixels of the square
	TrainLabels     = "labels"     // i32[Batch,2], as in Segment
	TrainMask       = "mask"       // f32[Batch,2,4*Grid,4*Grid]: the mask, 0 and 1, and where the square has an image
	TrainIoU        = "iou"        // f32[]: mean quality of the masks that the model takes for the best
)

// MaxTrainPrompts is the largest Batch.
const MaxTrainPrompts = 1 << 10

// TrainSegment describes the training of the mask decoder of a model for promptable segmentation, whose image encoder
// stays as it is. Package train runs it. The trained values and the moments of the optimizer are states.
//
//	Encode: image f32[1,3,Size,Size] -> embeddings f32[1,Channels,Grid,Grid]
//	Method: embeddings, points, labels, mask, Scalars f32[] -> loss f32[], iou f32[], norm f32[]; updates the states
//	Loss: embeddings, points, labels, mask -> loss f32[], iou f32[], of the current states
//	Init: sets the trained values to those of the checkpoint
type TrainSegment struct {
	Method    string     `json:"method"`    // "train_step"
	Loss      string     `json:"loss"`      // "loss"
	Init      string     `json:"init"`      // "train_init"
	Encode    string     `json:"encode"`    // "encode"
	Optimizer string     `json:"optimizer"` // one of Optimizers
	Batch     int        `json:"batch"`     // prompts of a step, each with an image of its own
	Channels  int        `json:"channels"`
	Grid      int        `json:"grid"`
	Size      int        `json:"size"` // side of the square input in pixels
	Mean      [3]float64 `json:"mean"` // of R, G, B, from 0 to 255
	Std       [3]float64 `json:"std"`
}

// Kind returns KindTrainSegment.
func (t *TrainSegment) Kind() string { return KindTrainSegment }

// Fields lists the fields, sorted by key.
func (t *TrainSegment) Fields() []Field {
	return []Field{
		{Key: "batch", Value: &t.Batch}, {Key: "channels", Value: &t.Channels}, {Key: "encode", Value: &t.Encode},
		{Key: "grid", Value: &t.Grid}, {Key: "init", Value: &t.Init}, {Key: "loss", Value: &t.Loss},
		{Key: "mean", Value: t.Mean[:]}, {Key: "method", Value: &t.Method}, {Key: "optimizer", Value: &t.Optimizer},
		{Key: "size", Value: &t.Size}, {Key: "std", Value: t.Std[:]},
	}
}

// String describes the inputs.
func (t *TrainSegment) String() string {
	return fmt.Sprintf("training of the mask decoder by %s, in batches of %d prompts", t.Optimizer, t.Batch)
}

// Scalars returns the names of the inputs of the optimizer.
func (t *TrainSegment) Scalars() []string { return optimizerScalars(t.Optimizer) }

// Validate checks a description that was read from a file. The error is a *diag.Error with code.TaskSpec.
func (t *TrainSegment) Validate() error {
	bad := func(format string, args ...any) error {
		return diag.New(code.TaskSpec, "task "+KindTrainSegment, format, args...)
	}
	if t.Method == "" || t.Loss == "" || t.Init == "" || t.Encode == "" {
		return bad("method is %q, loss %q, init %q and encode %q; want all", t.Method, t.Loss, t.Init, t.Encode)
	}
	if !slices.Contains(Optimizers(), t.Optimizer) {
		return bad("optimizer is %q; allowed are %v", t.Optimizer, Optimizers())
	}
	for _, n := range []struct {
		field       string
		value, most int
	}{{"batch", t.Batch, MaxTrainPrompts}, {"channels", t.Channels, 1 << 16}, {"grid", t.Grid, 1 << 12},
		{"size", t.Size, 1 << 16}} {
		if n.value < 1 || n.value > n.most {
			return bad("%s is %d; allowed are 1 to %d", n.field, n.value, n.most)
		}
	}
	for _, x := range t.Std {
		if !(x > 0 && x < 1e9) {
			return bad("std is %v; want numbers above 0", t.Std)
		}
	}
	for _, x := range t.Mean {
		if !(x > -1e9 && x < 1e9) {
			return bad("mean is %v; want finite numbers", t.Mean)
		}
	}
	return nil
}

// Check compares the task with the methods that it names.
func (t *TrainSegment) Check(m Methods) error {
	b, g := Exactly(t.Batch), Exactly(t.Grid)
	values := []struct {
		name  string
		dtype dtype.DType
		shape Shape
	}{
		{TrainEmbeddings, dtype.F32, Shape{b, Exactly(t.Channels), g, g}},
		{TrainPoints, dtype.F32, Shape{b, Exactly(2), Exactly(2)}},
		{TrainLabels, dtype.I32, Shape{b, Exactly(2)}},
		{TrainMask, dtype.F32, Shape{b, Exactly(2), Exactly(4 * t.Grid), Exactly(4 * t.Grid)}},
	}
	for _, name := range []string{t.Method, t.Loss} {
		inputs, results := []string{}, []string{TrainLoss, TrainIoU}
		for _, v := range values {
			inputs = append(inputs, v.name)
		}
		if name == t.Method {
			inputs, results = append(inputs, t.Scalars()...), append(results, TrainNorm)
		}
		f, err := m.Taking(name, inputs...)
		if err != nil {
			return err
		}
		for _, v := range values {
			if _, err := f.Input(v.name, v.dtype, v.shape); err != nil {
				return err
			}
		}
		for _, out := range results {
			if _, err := f.Output(out, dtype.F32, Shape{}); err != nil {
				return err
			}
		}
		if name == t.Method {
			for _, in := range t.Scalars() {
				if _, err := f.Input(in, dtype.F32, Shape{}); err != nil {
					return err
				}
			}
		}
	}
	return t.checkEncode(m)
}

// checkEncode checks the method of the encoder, and the method Init.
func (t *TrainSegment) checkEncode(m Methods) error {
	f, err := m.Taking(t.Encode, "image")
	if err == nil {
		_, err = f.Input("image", dtype.F32, Shape{Exactly(1), Exactly(3), Exactly(t.Size), Exactly(t.Size)})
	}
	if err == nil {
		_, err = f.Output(TrainEmbeddings, dtype.F32,
			Shape{Exactly(1), Exactly(t.Channels), Exactly(t.Grid), Exactly(t.Grid)})
	}
	if err == nil {
		_, err = m.Taking(t.Init)
	}
	return err
}

// CheckInput checks labels.
func (t *TrainSegment) CheckInput(_, name string, x tensor.Tensor) error {
	if name != TrainLabels || x.DType != dtype.I32 {
		return nil
	}
	for i, v := range tensor.View[int32](x.Data) {
		if v < -1 || v > 3 {
			return fmt.Errorf("label %d is %d; allowed are -1 to 3", i, v)
		}
	}
	return nil
}
