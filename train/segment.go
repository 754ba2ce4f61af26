package train

import (
	"context"
	"image"
	"math/rand/v2"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// ErrMasks is a case of rlx.ErrUsage: an image has no mask or one of another size, or masks do not show objects.
var ErrMasks error = code.TrainMasks

// SegmentOptions holds the options of NewSegment.
type SegmentOptions struct {
	Settings
	// HoldOut keeps every image whose number, in the order of their names, is a multiple of it for evaluation, and
	// trains on the others. 0 trains on all images.
	HoldOut int
}

// SegmentDefaults returns settings for a number of steps: those of Defaults, with a learning rate of 1e-4 and a decay
// of 0.1.
func SegmentDefaults(steps int) Settings {
	s := Defaults(steps)
	s.LearningRate, s.WeightDecay = 1e-4, 0.1
	return s
}

// Segment trains the mask decoder of a segmentation model on images and masks. Each example is an object with a prompt,
// which follows from the seed: a point of the object or its box. It owns a State. It is for one goroutine at a time.
type Segment struct {
	Loop
	task        *task.TrainSegment
	pictures    []*picture
	embeddings  [][]float32 // of the pictures
	train, held []example
	order       order
	seed        uint64
}

// example is an object of a picture.
type example struct{ picture, object int }

// NewSegment encodes all images of a folder once and keeps their embeddings. The folder of masks has a PNG of the same
// name for each, in which black is the background and each other colour an object; objects of less than 16 pixels are
// left out. The artifact was compiled with rlxc --train decoder. progress, if not nil, is called after each image.
// Close the result after use.
//
// Errors match rlx.ErrUsage, ErrMasks, or are those of images, of rlx.Session.Load and of rlx.Session.NewState.
func NewSegment(ctx context.Context, s *rlx.Session, images, masks string, o SegmentOptions,
	progress func(done int)) (*Segment, error) {
	about, ok := s.Model().Task().(*task.TrainSegment)
	if !ok {
		return nil, diag.New(diag.Usage, s.Model().Path(), "was not compiled to train a mask decoder").
			WithHint("compile the checkpoint with rlxc --train decoder")
	}
	if o.HoldOut < 0 || o.HoldOut == 1 {
		return nil, diag.New(diag.Usage, "hold-out", "is %d; allowed are 0 (none) and 2 or more", o.HoldOut)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	t := &Segment{task: about, seed: o.Seed, Loop: Loop{session: s, settings: o.Settings, method: about.Method,
		optimizer: about.Optimizer, scalars: about.Scalars()}}
	identity := segmentIdentity{Settings: o.Settings, HoldOut: o.HoldOut}
	var err error
	t.pictures, identity.Images, err = readPictures(ctx, images, masks, about.Size,
		func(img image.Image, p *picture) error {
			if err := t.encode(ctx, img, p); err != nil {
				return err
			}
			if progress != nil {
				progress(len(t.embeddings))
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	for i, p := range t.pictures {
		to := &t.train
		if o.HoldOut > 0 && i%o.HoldOut == 0 {
			to = &t.held
		}
		for k := range p.objects {
			*to = append(*to, example{i, k})
		}
	}
	if len(t.train) == 0 {
		return nil, diag.New(code.TrainMasks, masks, "has no objects to train on")
	}
	t.identity = encoded(identity)
	t.order = order{n: len(t.train), seed: o.Seed}
	return t, t.open(ctx, func(ctx context.Context) error {
		_, err := s.Run(ctx, rlx.Request{Method: about.Init, State: t.state})
		return err
	})
}

// segmentIdentity identifies the training to which a checkpoint belongs, besides its artifact.
type segmentIdentity struct {
	Settings
	HoldOut int    `json:"hold_out"`
	Images  string `json:"images"` // digest of names and masks
}

// encode computes the embeddings of an image.
func (t *Segment) encode(ctx context.Context, img image.Image, p *picture) error {
	n := t.task.Size
	in := rlx.Tensor{DType: rlx.F32, Shape: []int{1, 3, n, n},
		Data: tensor.Bytes(p.square.Pixels(img, t.task.Mean, t.task.Std))}
	res, err := t.session.Run(ctx, rlx.Request{Method: t.task.Encode, Inputs: map[string]rlx.Tensor{"image": in}})
	if err != nil {
		return err
	}
	t.embeddings = append(t.embeddings, tensor.View[float32](res.Outputs[task.TrainEmbeddings].Data))
	return nil
}

// Examples returns the number of images, and of the objects to train on and of those kept for evaluation.
func (t *Segment) Examples() (images, train, held int) {
	return len(t.pictures), len(t.train), len(t.held)
}

// inputs returns the batch of examples, with prompts that follow from the seeds.
func (t *Segment) inputs(batch []example, seeds func(k int) *rand.PCG) map[string]rlx.Tensor {
	b, g := t.task.Batch, t.task.Grid
	var embeddings, points, target []float32
	var labels []int32
	for k, e := range batch {
		p := t.pictures[e.picture]
		o := &p.objects[e.object]
		at, kinds := p.prompt(o, seeds(k))
		embeddings = append(embeddings, t.embeddings[e.picture]...)
		points, labels = append(points, at[:]...), append(labels, kinds[:]...)
		target = p.target(target, o, 4*g)
	}
	f32 := func(x []float32, shape ...int) rlx.Tensor {
		return rlx.Tensor{DType: rlx.F32, Shape: shape, Data: tensor.Bytes(x)}
	}
	return map[string]rlx.Tensor{
		task.TrainEmbeddings: f32(embeddings, b, t.task.Channels, g, g), task.TrainPoints: f32(points, b, 2, 2),
		task.TrainLabels: {DType: rlx.I32, Shape: []int{b, 2}, Data: tensor.Bytes(labels)},
		task.TrainMask:   f32(target, b, 2, 4*g, 4*g),
	}
}

// Step trains on one batch of prompts. Errors are those of Trainer.Step.
func (t *Segment) Step(ctx context.Context) (Step, error) {
	var batch []example
	first := t.Done() * t.task.Batch
	for k := range t.task.Batch {
		batch = append(batch, t.train[t.order.at(first+k)])
	}
	return t.step(ctx, t.inputs(batch, func(k int) *rand.PCG { return rand.NewPCG(t.seed, uint64(first+k)+1) }))
}

// Evaluate returns the mean loss of the objects that are held out, and the mean IoU of the masks that the model ranks
// first, at the resolution of its logits. If no objects are held out, it takes those that are trained on. The prompts
// are the same in each call.
func (t *Segment) Evaluate(ctx context.Context) (loss, iou float64, err error) {
	all := t.held
	if len(all) == 0 {
		all = t.train
	}
	batches := (len(all) + t.task.Batch - 1) / t.task.Batch
	for i := range batches {
		var batch []example
		for k := range t.task.Batch { // the last batch is filled with the first examples
			batch = append(batch, all[(i*t.task.Batch+k)%len(all)])
		}
		in := t.inputs(batch, func(k int) *rand.PCG { return rand.NewPCG(1, uint64(i*t.task.Batch+k)) })
		res, err := t.session.Run(ctx, rlx.Request{Method: t.task.Loss, Inputs: in, State: t.state})
		if err != nil {
			return 0, 0, err
		}
		loss += number(res, task.TrainLoss) / float64(batches)
		iou += number(res, task.TrainIoU) / float64(batches)
	}
	return loss, iou, nil
}

// SaveWeights writes the trained weights to a safetensors file, in the types that they have in the checkpoint and with
// the names of the original release. rlxrun --weights reads it, and so does rlx.Session.SetWeights, for an artifact of
// the same checkpoint that was compiled with rlxc --mutable-weights 'mask_decoder.*'.
func (t *Segment) SaveWeights(ctx context.Context, path string) error {
	values, err := t.Values(ctx)
	if err != nil {
		return err
	}
	stored := map[string]rlx.DType{}
	for _, w := range t.session.Model().Weights() {
		stored[w.Name] = w.DType
	}
	names := map[string]string{}
	for name, v := range values {
		names[name] = name
		if to, ok := stored[name]; ok {
			values[name] = converted(v, to)
		}
	}
	return save(ctx, path, values, names)
}

// converted returns a tensor of f32 in F16 or BF16. For another type it returns the tensor itself.
func converted(x rlx.Tensor, to rlx.DType) rlx.Tensor {
	round := dtype.F32ToF16
	switch to {
	case rlx.F16:
	case rlx.BF16:
		round = dtype.F32ToBF16
	default:
		return x
	}
	var out []uint16
	for _, v := range tensor.View[float32](x.Data) {
		out = append(out, round(v))
	}
	return rlx.Tensor{DType: to, Shape: x.Shape, Data: tensor.Bytes(out)}
}
