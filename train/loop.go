package train

import (
	"context"
	"encoding/base64"
	"io"
	"math"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/task"
)

// A Loop has what all kinds of training share: a state with the trained values, the numbers of the optimizer in each
// step, and checkpoints. It owns the state.
type Loop struct {
	session   *rlx.Session
	state     *rlx.State
	settings  Settings
	method    string
	optimizer string
	scalars   []string           // the inputs of a step that are numbers
	rates     map[string]float64 // of trained values, by name; nil if the method has no such inputs
	identity  string             // identifies the training of a checkpoint, besides its artifact
	losses    []float32          // of all steps
}

// A Step describes a step of training.
type Step struct {
	Number   int // from 0
	Loss     float64
	Norm     float64 // of all gradients together, before clipping
	Rate     float64 // learning rate
	Duration time.Duration
}

// open loads the method and makes a state, whose first values begin sets.
func (t *Loop) open(ctx context.Context, begin func(context.Context) error) (err error) {
	if err = t.session.Load(ctx, t.method); err != nil {
		return err
	}
	if t.state, err = t.session.NewState(ctx); err != nil {
		return err
	}
	if err = begin(ctx); err != nil {
		t.state.Close()
	}
	return err
}

// Close frees the state.
func (t *Loop) Close() error { return t.state.Close() }

// Done returns the number of steps so far, those before a checkpoint included.
func (t *Loop) Done() int { return len(t.losses) }

// Losses returns the loss of each step so far.
func (t *Loop) Losses() []float32 { return t.losses }

// State returns the trained values and the moments, on the device.
func (t *Loop) State() *rlx.State { return t.state }

// step trains on one batch.
func (t *Loop) step(ctx context.Context, in map[string]rlx.Tensor) (Step, error) {
	start, n := time.Now(), len(t.losses)
	values := t.settings.scalars(n, t.optimizer)
	for name, v := range t.rates {
		values[task.TrainRate+name] = v
	}
	for _, name := range t.scalars {
		in[name] = scalar(values[name])
	}
	res, err := t.session.Run(ctx, rlx.Request{Method: t.method, Inputs: in, State: t.state})
	if err != nil {
		return Step{}, err
	}
	x := Step{Number: n, Rate: t.settings.Rate(n), Loss: number(res, task.TrainLoss),
		Norm: number(res, task.TrainNorm)}
	if !finite(x.Loss) || !finite(x.Norm) {
		return x, diag.New(device.ErrNaN, t.method, "step %d: the loss is %v and the norm of the gradient %v", n,
			x.Loss, x.Norm).WithHint("go on from the last checkpoint with a smaller learning rate")
	}
	t.losses = append(t.losses, float32(x.Loss))
	x.Duration = time.Since(start)
	return x, nil
}

// scalar returns an input f32[].
func scalar(v float64) rlx.Tensor {
	return rlx.Tensor{DType: rlx.F32, Shape: []int{}, Data: tensor.Bytes([]float32{float32(v)})}
}

// number returns an output f32[].
func number(r *rlx.Result, name string) float64 {
	return float64(tensor.View[float32](r.Outputs[name].Data)[0])
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// trained lists the tensors that are trained, without the prefix of their states.
func (t *Loop) trained() (out []rlx.Value) {
	for _, v := range t.session.Model().States() {
		if name, ok := strings.CutPrefix(v.Name, task.TrainParam); ok {
			v.Name = name
			out = append(out, v)
		}
	}
	return out
}

// Values returns the current values of the trained tensors, by the names of the model's weights. The two matrices of an
// adapter are called like their layer, with .lora_A and .lora_B at the end.
func (t *Loop) Values(ctx context.Context) (map[string]rlx.Tensor, error) {
	out := map[string]rlx.Tensor{}
	for _, v := range t.trained() {
		r, err := t.state.Tensor(task.TrainParam + v.Name)
		if err != nil {
			return nil, err
		}
		if out[v.Name], err = r.Read(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// write sets a trained tensor.
func (t *Loop) write(ctx context.Context, name string, shape []int, values []float32) error {
	r, err := t.state.Tensor(task.TrainParam + name)
	if err != nil {
		return err
	}
	return r.Write(ctx, rlx.Tensor{DType: rlx.F32, Shape: shape, Data: tensor.Bytes(values)})
}

func sizes(v rlx.Value) (out []int) {
	for _, d := range v.Shape {
		out = append(out, int(d.Max))
	}
	return out
}

// Keys in the metadata of a checkpoint: the settings with the digest of the examples, and the losses so far, as f32 in
// base64.
const (
	settingsKey = "rlx.train.settings"
	lossesKey   = "rlx.train.losses"
)

// Save writes a checkpoint to path: the trained values, the moments, and the losses so far. The file is either the old
// one or the whole new one, also after a crash. Errors are those of rlx.State.Export and of the file system.
func (t *Loop) Save(ctx context.Context, path string) error {
	t.state.Meta = map[string]string{
		settingsKey: t.identity, lossesKey: base64.StdEncoding.EncodeToString(tensor.Bytes(t.losses))}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return t.state.Export(ctx, w) })
}

// Resume continues from a checkpoint that Save wrote for the same artifact, settings and examples. The steps that
// follow give the same bits as without the interruption, on the same kind of device. Errors match ErrResume, or are
// those of rlx.Session.ImportState; the trainer is then unchanged.
func (t *Loop) Resume(ctx context.Context, path string) error {
	st, err := t.session.ImportState(ctx, path)
	if err != nil {
		return err
	}
	losses, err := base64.StdEncoding.DecodeString(st.Meta[lossesKey])
	switch saved := st.Meta[settingsKey]; {
	case saved == "" || err != nil || len(losses)%4 != 0:
		err = diag.New(code.TrainResume, path, "is not a checkpoint of a training")
	case saved != t.identity:
		err = diag.New(code.TrainResume, path, "was made with %s; this training has %s", saved, t.identity)
	}
	if err != nil {
		st.Close()
		return err
	}
	t.state.Close()
	t.state = st
	aligned := tensor.AlignedBytes(len(losses))
	copy(aligned, losses)
	t.losses = tensor.View[float32](aligned)
	return nil
}
