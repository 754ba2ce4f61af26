package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// KindTrain is the kind of a Train in artifacts.
const KindTrain = "train"

var _ = Register(KindTrain, func() Task { return &Train{} })

// Prefixes of the names of a Train's states. The rest of the name is the name of the weight; for an adapter, LoraA or
// LoraB follows.
const (
	TrainParam  = "param." // the value
	TrainFirst  = "m."     // AdamW's mean of gradients, or SGD's velocity
	TrainSecond = "v."     // AdamW's mean of squared gradients
)

// Names of the inputs of a step besides the batch, each f32[]. The caller computes them in float64 from the
// hyperparameters and the number of the step, so one program allows every schedule.
const (
	TrainStepSize = "step_size"   // learning rate; for AdamW divided by 1-beta1^t, where t counts steps from 1
	TrainDecay    = "decay"       // learning rate times weight decay; p -= decay*p
	TrainClip     = "clip"        // largest norm of all gradients together
	TrainMomentum = "momentum"    // SGD: velocity = momentum*velocity + gradient
	TrainKeep1    = "beta1"       // AdamW
	TrainTake1    = "beta1_rest"  // AdamW: 1-beta1
	TrainKeep2    = "beta2"       // AdamW
	TrainTake2    = "beta2_rest"  // AdamW: 1-beta2
	TrainScale2   = "beta2_scale" // AdamW: 1/(1-beta2^t)
	TrainEpsilon  = "epsilon"     // AdamW
)

// Names of the other inputs, and of the results.
const (
	TrainIDs     = "input_ids" // i64[Batch,Tokens]
	TrainTargets = "targets"   // i64[Batch,Tokens]: the token after each
	TrainLoss    = "loss"      // f32[]: mean negative log likelihood of the targets, before the update
	TrainNorm    = "norm"      // f32[]: of all gradients together, before clipping
)

// Optimizers of a Train.
const (
	AdamW = "adamw"
	SGD   = "sgd"
)

// Optimizers lists the optimizers.
func Optimizers() []string { return []string{AdamW, SGD} }

// A Train describes the training of a language model. Package train runs it. The trained values and the moments of the
// optimizer are states.
//
//	Method: input_ids, targets i64[Batch,Tokens], Scalars f32[] -> loss f32[], norm f32[]; updates the states
//	Loss: input_ids, targets -> loss f32[], of the current states
//	Init: sets the trained values to those of the checkpoint; empty for adapters, for which the caller chooses them
type Train struct {
	Method    string `json:"method"`    // "train_step"
	Loss      string `json:"loss"`      // "loss"
	Init      string `json:"init"`      // "train_init"
	Optimizer string `json:"optimizer"` // one of Optimizers

	Batch      int `json:"batch"`      // sequences of a step
	Tokens     int `json:"tokens"`     // predicted tokens of each
	Vocabulary int `json:"vocabulary"` // ids are less than this

	// Rank is the rank of the adapters (LoRA), whose product Alpha/Rank multiplies. 0 means that the model itself is
	// trained.
	Rank  int     `json:"rank"`
	Alpha float64 `json:"alpha"`

	Tokenizer string `json:"tokenizer"` // an attachment; empty if the artifact has none
}

// Kind returns KindTrain.
func (t *Train) Kind() string { return KindTrain }

// Fields lists the fields, sorted by key.
func (t *Train) Fields() []Field {
	return []Field{
		{Key: "alpha", Value: &t.Alpha}, {Key: "batch", Value: &t.Batch}, {Key: "init", Value: &t.Init},
		{Key: "loss", Value: &t.Loss}, {Key: "method", Value: &t.Method}, {Key: "optimizer", Value: &t.Optimizer},
		{Key: "rank", Value: &t.Rank}, {Key: "tokenizer", Value: &t.Tokenizer}, {Key: "tokens", Value: &t.Tokens},
		{Key: "vocabulary", Value: &t.Vocabulary},
	}
}

// Attachments returns the names of the attachments that the description refers to.
func (t *Train) Attachments() []string {
	if t.Tokenizer == "" {
		return nil
	}
	return []string{t.Tokenizer}
}

// String describes the inputs of the
func (t *Train) String() string {
	what := "the whole model"
	if t.Rank > 0 {
		what = fmt.Sprintf("adapters of rank %d", t.Rank)
	}
	return fmt.Sprintf("training of %s by %s, in batches of %d x %d tokens", what, t.Optimizer, t.Batch, t.Tokens)
}

// Limits that Validate enforces.
const (
	maxTrainBatch = 1 << 16
	maxTrainRank  = 1 << 12
)

// Validate checks a description that was read from a file. The error is a *diag.Error with code.TaskSpec.
func (t *Train) Validate() error {
	bad := func(format string, args ...any) error {
		return diag.New(code.TaskSpec, "task "+KindTrain, format, args...)
	}
	if t.Method == "" || t.Loss == "" {
		return bad("method is %q and loss %q; want both", t.Method, t.Loss)
	}
	if !slices.Contains(Optimizers(), t.Optimizer) {
		return bad("optimizer is %q; allowed are %v", t.Optimizer, Optimizers())
	}
	for _, n := range []struct {
		field            string
		value, min, most int
	}{
		{"batch", t.Batch, 1, maxTrainBatch}, {"tokens", t.Tokens, 1, maxContext},
		{"vocabulary", t.Vocabulary, 1, maxVocabulary}, {"rank", t.Rank, 0, maxTrainRank},
	} {
		if n.value < n.min || n.value > n.most {
			return bad("%s is %d; allowed are %d to %d", n.field, n.value, n.min, n.most)
		}
	}
	if (t.Rank > 0) != (t.Alpha > 0) || !(t.Alpha >= 0 && t.Alpha <= math.MaxFloat32) {
		return bad("rank is %d and alpha %v; want a positive alpha for adapters, and otherwise 0", t.Rank, t.Alpha)
	}
	if (t.Rank > 0) != (t.Init == "") {
		return bad("rank is %d and init %q; want a method for models and none for adapters", t.Rank, t.Init)
	}
	return nil
}

// Scalars returns the names of the inputs of the optimizer.
func (t *Train) Scalars() []string { return optimizerScalars(t.Optimizer) }

func optimizerScalars(optimizer string) []string {
	if optimizer == SGD {
		return []string{TrainStepSize, TrainDecay, TrainClip, TrainMomentum}
	}
	return []string{TrainStepSize, TrainDecay, TrainClip, TrainKeep1, TrainTake1, TrainKeep2, TrainTake2, TrainScale2,
		TrainEpsilon}
}

// Check compares the task with the methods that it names.
func (t *Train) Check(m Methods) error {
	for _, name := range []string{t.Method, t.Loss} {
		inputs := []string{TrainIDs, TrainTargets}
		if name == t.Method {
			inputs = append(inputs, t.Scalars()...)
		}
		f, err := m.Taking(name, slices.Clone(inputs)...)
		if err != nil {
			return err
		}
		for i, in := range inputs {
			d, shape := dtype.I64, Shape{Exactly(t.Batch), Exactly(t.Tokens)}
			if i > 1 {
				d, shape = dtype.F32, Shape{}
			}
			if _, err := f.Input(in, d, shape); err != nil {
				return err
			}
		}
		if _, err := f.Output(TrainLoss, dtype.F32, Shape{}); err != nil {
			return err
		}
		if name == t.Method {
			if _, err := f.Output(TrainNorm, dtype.F32, Shape{}); err != nil {
				return err
			}
		}
	}
	if t.Init == "" {
		return nil
	}
	_, err := m.Taking(t.Init)
	return err
}

// CheckInput checks token ids.
func (t *Train) CheckInput(_, name string, x tensor.Tensor) error {
	if name != TrainIDs && name != TrainTargets || x.DType != dtype.I64 {
		return nil
	}
	for i, id := range tensor.View[int64](x.Data) {
		if id < 0 || id >= int64(t.Vocabulary) {
			return fmt.Errorf("token %d is %d; the vocabulary has 0 to %d", i, id, t.Vocabulary-1)
		}
	}
	return nil
}
