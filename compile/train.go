package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/train"
	"github.com/rlx-go/rlx/task"
)

// TrainOptions say how a model is trained. The artifact then has the methods train_step and loss, and for a model that
// is trained as a whole train_init; it does nothing else.
type TrainOptions struct {
	// Mode is what is trained: "lora=RANK" trains low-rank adapters, and leaves the weights of the checkpoint as they
	// are, packed ones too; "lora=RANK,alpha=A" sets the number whose quotient by the rank multiplies them, which is
	// otherwise 2*RANK. "full" trains all weights, in f32. A scene of Gaussian splats takes "splats", or for a folder
	// of images "splats=N"; "splats=N,degree=D,dssim=X" sets the degree of the harmonics and the share of the
	// structural dissimilarity in the loss; with ",begin=M" the scene has M splats at first and may grow to N. A
	// SAM takes "decoder", which trains its mask decoder. Empty means that the
	// model is not trained.
	Mode string
	// Layers are the names of the linear layers that get adapters, such as "q_proj". Empty means all but the last.
	Layers []string
	// Optimizer is "adamw" or "sgd"; empty stands for adamw. Its numbers are inputs of each step.
	Optimizer string
	// Batch is how many sequences a step takes, or prompts for a mask decoder, and Tokens how many tokens of each are
	// predicted. 0 stands for 1 and for 256, or what the model was made for if that is less.
	Batch, Tokens int
	// Checkpoint keeps the result of each layer for the backward pass, and computes what is in the layers again: less
	// memory, and one more forward pass for each step. The results have the same bits.
	Checkpoint bool
}

const defaultTrainTokens = 256

// parseTrain returns the rank and alpha of TrainOptions.Mode; rank is 0 for full training.
func (o *TrainOptions) parse() (rank int, alpha float64, err error) {
	flag := "--train " + o.Mode
	bad := func(what string) error {
		return usage(flag, "%s; allowed are full, lora=RANK and lora=RANK,alpha=A, with ranks of 1 to %d", what,
			maxLoRA)
	}
	if o.Mode == "full" {
		return 0, 0, nil
	}
	for i, part := range strings.Split(o.Mode, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0 && key == "lora":
			rank, err = strconv.Atoi(value)
			if err != nil || rank < 1 || rank > maxLoRA {
				return 0, 0, bad(fmt.Sprintf("%q is not a rank", value))
			}
			alpha = 2 * float64(rank)
		case i == 1 && key == "alpha":
			if alpha, err = strconv.ParseFloat(value, 64); err != nil || !(alpha > 0 && alpha < 1e9) {
				return 0, 0, bad(fmt.Sprintf("%q is not a positive number", value))
			}
		default:
			return 0, 0, bad(fmt.Sprintf("%q is unknown", part))
		}
	}
	return rank, alpha, nil
}

// checkTraining checks TrainOptions beside the other options, and makes full training store f32.
func (o *Options) checkTraining() error {
	t := &o.Train
	if t.Mode == "" {
		for flag, given := range map[string]bool{"--train-batch": t.Batch != 0, "--train-tokens": t.Tokens != 0,
			"--train-layers": len(t.Layers) > 0, "--optimizer": t.Optimizer != "",
			"--checkpoint": t.Checkpoint} {
			if given {
				return usage(flag, "requires --train")
			}
		}
		return nil
	}
	switch {
	case o.LoRA != 0:
		return usage(
			"--lora", "cannot be combined with --train; the adapters that it trains are for a model compiled with --lora")
	case t.Optimizer != "" && !slices.Contains(task.Optimizers(), t.Optimizer):
		return usage("--optimizer", "%q is unknown; allowed are %s", t.Optimizer, strings.Join(task.Optimizers(), ", "))
	case t.Batch < 0 || t.Tokens < 0:
		return usage("--train-batch", "batches of %d x %d tokens; allowed are 1 and more", t.Batch, t.Tokens)
	case !t.ofLanguage():
		if t.Tokens != 0 || len(t.Layers) > 0 || t.Checkpoint {
			return usage("--train "+t.Mode, "cannot be combined with --train-tokens, --train-layers and --checkpoint")
		}
		return nil
	}
	rank, _, err := t.parse()
	switch {
	case err != nil:
		return err
	case rank == 0 && len(t.Layers) > 0:
		return usage("--train-layers", "applies to --train lora=RANK only")
	case rank == 0 && (o.quantizes() || o.DType != "" && o.DType != "keep" && o.DType != "f32"):
		return usage("--train full", "trains weights in f32; it cannot be combined with --quantize and --dtype")
	}
	return nil
}

// addTraining replaces the methods by those of Options.Train.
func (m *Model) addTraining() error {
	o := &m.options.Train
	if o.Mode == "" {
		return nil
	}
	if m.built.Train != nil {
		return m.addOwnTraining()
	}
	flag := "--train " + o.Mode
	text, ok := m.built.Task.(*task.Text)
	if m.built.Loss == nil || !ok {
		return usage(flag, "architecture %s cannot be trained", m.built.Arch).WithHint("leave the flag out")
	}
	if !o.ofLanguage() {
		_, _, err := o.parse()
		return err
	}
	rank, alpha, err := o.parse()
	if err != nil {
		return err
	}
	loss, err := m.built.Loss()
	if err != nil {
		return err
	}
	t := &task.Train{Method: "train_step", Loss: loss.Name, Optimizer: task.AdamW, Batch: max(1, o.Batch),
		Tokens:     o.Tokens,
		Vocabulary: text.Vocabulary, Rank: rank, Alpha: alpha, Tokenizer: text.Tokenizer}
	if o.Optimizer != "" {
		t.Optimizer = o.Optimizer
	}
	_, most := loss.Syms.Bounds(ir.Named("T"))
	if t.Tokens == 0 {
		t.Tokens = int(min(defaultTrainTokens, most))
	}
	if _, batch := loss.Syms.Bounds(ir.Named("B")); int64(t.Tokens) > most || int64(t.Batch) > batch {
		return usage(flag, "batches of %d x %d tokens; the model takes up to %d x %d", t.Batch, t.Tokens, batch, most).
			WithHint("give a smaller --train-batch or --train-tokens")
	}
	if loss, err = loss.Fix(map[string]int64{"B": int64(t.Batch), "T": int64(t.Tokens)}); err != nil {
		return err
	}
	methods, err := m.trainMethods(loss, t)
	if err != nil {
		return err
	}
	m.built.Methods, m.built.Task = methods, t
	m.built.Attachments = slices.DeleteFunc(m.built.Attachments, func(a arch.Attachment) bool {
		return a.Name != t.Tokenizer
	})
	m.built.Facts = append(m.built.Facts, arch.Fact{Name: "training", Value: t.String()})
	return nil
}

// ofLanguage reports whether Mode is one of those of language models.
func (o *TrainOptions) ofLanguage() bool {
	key, _, _ := strings.Cut(o.Mode, "=")
	key, _, _ = strings.Cut(key, ",")
	return key == "lora" || key == "full"
}

// addOwnTraining replaces the methods by those of the family's own form of training.
func (m *Model) addOwnTraining() error {
	o := arch.TrainOptions{Mode: m.options.Train.Mode, Method: "train_step", Batch: m.options.Train.Batch,
		Optimizer: cmp.Or(m.options.Train.Optimizer, task.AdamW)}
	t, err := m.built.Train(o)
	if err != nil {
		return err
	}
	loss, start := t.Loss, t.Init
	if t.Trained != nil {
		params := slices.DeleteFunc(loss.Params(), func(p *ir.Node) bool { return !t.Trained(p.Name) })
		if start, err = train.Init("train_init", params); err != nil {
			return err
		}
		for _, p := range params { // which keeps their types, so that what is trained can be saved in them
			m.options.MutableWeights = append(m.options.MutableWeights, p.Name)
		}
		loss, err = train.WithStates(loss, func(param string) (float64, bool) { return 1, t.Trained(param) })
		if err != nil {
			return err
		}
	}
	step, err := train.Step(o.Method, loss, train.Options{Optimizer: o.Optimizer, Rates: t.Rates, Observe: t.Observe})
	if err != nil {
		return err
	}
	m.built.Methods = append([]*ir.Graph{loss, step, start}, t.Methods...)
	m.built.Task, m.built.Attachments = t.Task, nil
	m.built.Facts = append(m.built.Facts, arch.Fact{Name: "training", Value: fmt.Sprint(t.Task)})
	return nil
}

// trainMethods returns the methods of a task whose loss is computed from params.
func (m *Model) trainMethods(loss *ir.Graph, t *task.Train) (out []*ir.Graph, err error) {
	scale := func(string) (float64, bool) { return 1, true }
	if t.Rank > 0 {
		var made map[string]ir.Type
		loss, made, err = hir.Adapt(loss, int64(t.Rank), [2]string{task.LoraA, task.LoraB}, m.options.Train.adapts)
		if err != nil {
			return nil, err
		}
		if len(made) == 0 {
			return nil, usage("--train-layers", "the model has no linear layers called %s",
				strings.Join(m.options.Train.Layers, ", "))
		}
		scale = func(param string) (float64, bool) {
			_, ok := made[param]
			if strings.HasSuffix(param, task.LoraB) {
				return t.Alpha / float64(t.Rank), ok
			}
			return 1, ok
		}
	}
	params := loss.Params()
	if t.Rank == 0 {
		for _, p := range params {
			if !p.Type.DType.IsFloat() {
				return nil, usage("--train full", "weight %s holds %v; want f32, f16 or bf16", p.Name, p.Type.DType).
					WithHint("train adapters, with --train lora=8")
			}
		}
	}
	if loss, err = train.WithStates(loss, scale); err != nil {
		return nil, err
	}
	options := train.Options{Optimizer: t.Optimizer}
	if m.options.Train.Checkpoint {
		options.Kept = isLayer
	}
	step, err := train.Step(t.Method, loss, options)
	if err != nil {
		return nil, err
	}
	out = []*ir.Graph{loss, step}
	if t.Rank == 0 {
		t.Init = "train_init"
		g, err := train.Init(t.Init, params)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// isLayer reports whether n is the result of a layer of a language model, such as model.layers.5.
func isLayer(n *ir.Node) bool {
	index, ok := strings.CutPrefix(n.Name, "model.layers.")
	_, err := strconv.Atoi(index)
	return ok && err == nil
}

// adapts reports whether a weight belongs to a linear layer that gets an adapter.
func (o *TrainOptions) adapts(weight string) bool {
	layer, ok := strings.CutSuffix(weight, ".weight")
	return ok && strings.HasPrefix(weight, "model.layers.") && (len(o.Layers) == 0 ||
		slices.Contains(o.Layers, layer[strings.LastIndex(layer, ".")+1:]))
}
