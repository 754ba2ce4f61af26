// Package train trains models that were compiled with rlxc --train. A Trainer trains a language model: low-rank
// adapters beside it, or all of its weights. A Segment trains the mask decoder of a segmentation model, and Splats a
// scene of Gaussian splats. Each keeps the trained values in a State of a session:
//
//	session, err := rlx.Load(ctx, "train.rlx", "cpu")
//	t, err := train.New(ctx, session, ids, train.Options{Settings: train.Defaults(300)})
//	for t.Done() < 300 {
//		step, err := t.Step(ctx)
//		fmt.Println(step.Number, step.Loss)
//	}
//	err = t.SaveAdapter(ctx, "my-adapter")
//
// Errors are those of package rlx, and the cases below.
package train

import (
	"context"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

// Errors for errors.Is.
var (
	// ErrText is a case of rlx.ErrUsage: a text has too few tokens for one sequence of a step.
	ErrText error = code.TrainData
	// ErrResume is a case of rlx.ErrUsage: a checkpoint was made with other settings or another text.
	ErrResume error = code.TrainResume
	// ErrAdapter reports an adapter that cannot be read, or that does not fit the model.
	ErrAdapter error = code.Adapter
)

// Options holds the options of New.
type Options struct {
	Settings
	// Scratch begins with random weights instead of the checkpoint's weights: matrices from a normal distribution of
	// deviation 0.02, and gains of 1. It is for models that are trained as a whole.
	Scratch bool
	// Adapter is the folder of an adapter, in PEFT's format, to begin with. Without one, the matrices A are random and
	// B are 0, so that the first step sees the model as it is.
	Adapter string
	// Batches, if not nil, chooses the sequences of a step in place of the text: Batch times Tokens+1 ids, one sequence
	// after another.
	Batches func(step int) []int
}

// A Trainer trains a model. It owns a State. It is for one goroutine at a time.
type Trainer struct {
	Loop
	task    *task.Train
	options Options
	data    *data
}

// taskOf returns the description of training in an artifact. If the artifact has no such description, the error matches
// rlx.ErrUsage.
func taskOf(m *rlx.Model) (*task.Train, error) {
	t, ok := m.Task().(*task.Train)
	if !ok {
		return nil, diag.New(diag.Usage, m.Path(), "was not compiled for training").
			WithHint("compile the checkpoint with rlxc --train lora=8, or --train full")
	}
	return t, nil
}

// New loads the methods and makes a state with the first values. ids is the text to train on; it is not used with
// Options.Batches. Close the trainer after use; closing the session frees its memory, too.
//
// Errors match rlx.ErrUsage, ErrText, ErrAdapter, or are those of rlx.Session.Load and rlx.Session.NewState.
func New(ctx context.Context, s *rlx.Session, ids []int, o Options) (*Trainer, error) {
	about, err := taskOf(s.Model())
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	t := &Trainer{task: about, options: o, Loop: Loop{session: s, settings: o.Settings, method: about.Method,
		optimizer: about.Optimizer, scalars: about.Scalars()}}
	if o.Batches == nil {
		if t.data, err = newData(about, ids, o.Seed); err != nil {
			return nil, err
		}
	}
	if err := t.checkStart(); err != nil {
		return nil, err
	}
	t.identity = t.owner()
	if err := t.open(ctx, t.begin); err != nil {
		return nil, err
	}
	return t, nil
}

// Step trains on one batch. An error that matches rlx.ErrNaN means that the loss or the gradient was not finite. The
// trained values are then useless; continue from a checkpoint with a smaller learning rate. Other errors are those of
// rlx.Session.Run.
func (t *Trainer) Step(ctx context.Context) (Step, error) {
	in, err := t.inputs(t.batch(t.Done()))
	if err != nil {
		return Step{}, err
	}
	return t.step(ctx, in)
}

func (t *Trainer) batch(step int) []int {
	if t.options.Batches != nil {
		return t.options.Batches(step)
	}
	return t.data.batch(step)
}

// inputs returns the ids and targets of sequences of Tokens+1 ids each.
func (t *Trainer) inputs(batch []int) (map[string]rlx.Tensor, error) {
	n := t.task.Tokens
	if want := t.task.Batch * (n + 1); len(batch) != want {
		return nil, diag.New(device.ErrInput, "batch", "has %d ids; want %d, %d sequences of %d", len(batch), want,
			t.task.Batch, n+1)
	}
	ids, targets := make([]int64, 0, len(batch)), make([]int64, 0, len(batch))
	for at := 0; at < len(batch); at += n + 1 {
		for i := range n {
			ids, targets = append(ids, int64(batch[at+i])), append(targets, int64(batch[at+i+1]))
		}
	}
	shape := []int{t.task.Batch, n}
	return map[string]rlx.Tensor{
		task.TrainIDs:     {DType: rlx.I64, Shape: shape, Data: tensor.Bytes(ids)},
		task.TrainTargets: {DType: rlx.I64, Shape: shape, Data: tensor.Bytes(targets)},
	}, nil
}

// Evaluate returns the mean loss of the current values on a text, and the number of tokens that it predicted. The text
// is divided into sequences like those of a step; what remains at its end, and sequences that fill no batch, are left
// out, unless the text has less than one batch. Errors match ErrText, or are those of rlx.Session.Run.
func (t *Trainer) Evaluate(ctx context.Context, ids []int) (loss float64, tokens int, err error) {
	d, err := newData(t.task, ids, 0)
	if err != nil {
		return 0, 0, err
	}
	batches := max(1, d.sequences/t.task.Batch)
	for i := range batches {
		var batch []int
		for k := range t.task.Batch {
			batch = append(batch, d.sequence((i*t.task.Batch+k)%d.sequences)...)
		}
		in, err := t.inputs(batch)
		if err != nil {
			return 0, 0, err
		}
		res, err := t.session.Run(ctx, rlx.Request{Method: t.task.Loss, Inputs: in, State: t.state})
		if err != nil {
			return 0, 0, err
		}
		loss += number(res, task.TrainLoss)
	}
	return loss / float64(batches), batches * t.task.Batch * t.task.Tokens, nil
}
