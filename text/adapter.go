package text

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/peft"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
	"github.com/rlx-go/rlx/task"
)

// An Adapter is a LoRA adapter (Hu et al. 2021, arXiv:2106.09685) for a language model that was compiled with
// rlxc --lora. To use it, give its weights to the session:
//
//	a, err := text.OpenAdapter(model, "my-adapter")
//	...
//	err = session.SetWeights(ctx, a.Weights())
//
// Another adapter then replaces it in the same way, between runs and without loading the model again.
// Session.ResetWeights ends the use of any. A sequence that was begun with one adapter has keys and values of that
// adapter in its cache; begin a new one after a change.
type Adapter struct {
	Layers int // number of layers that it changes
	Rank   int // largest rank of a layer

	weights map[string]rlx.Tensor
}

// Weights returns the values of all weights of the model that belong to adapters: those of layers that this one does
// not change are 0. The scale of the adapter is part of them. The tensors are shared; do not change them.
func (a *Adapter) Weights() map[string]rlx.Tensor { return a.weights }

// OpenAdapter reads an adapter that PEFT has saved: the folder dir with adapter_config.json and
// adapter_model.safetensors. If dir ends in .safetensors, it is the file of the matrices, and adapter_config.json is
// beside it. Up to rounding, the results are those of a model with the weights w + s b a, where s is lora_alpha/r, or
// lora_alpha/sqrt(r) with use_rslora. rank_pattern and alpha_pattern are applied.
//
// Errors match ErrAdapter if the files cannot be read, the adapter is of a kind that is not supported (DoRA, biases,
// layers that are saved as a whole), or it does not fit the model.
func OpenAdapter(m *rlx.Model, dir string) (*Adapter, error) {
	slots, zeros := map[string]rlx.Weight{}, 0
	a := &Adapter{weights: map[string]rlx.Tensor{}}
	for _, w := range m.Weights() {
		if strings.HasSuffix(w.Name, task.LoraA) || strings.HasSuffix(w.Name, task.LoraB) {
			slots[w.Name], zeros = w, max(zeros, int(w.Bytes))
		}
	}
	if len(slots) == 0 {
		return nil, diag.New(diag.Usage, m.Path(), "takes no adapters").WithHint(
			"compile the model with rlxc --lora RANK")
	}
	matrices, config := peft.Files(dir)
	dir = filepath.Dir(config)
	cfg, err := readAdapterConfig(config)
	if err != nil {
		return nil, err
	}
	factors, err := readFactors(matrices, slots)
	if err != nil {
		return nil, err
	}
	none := tensor.AlignedBytes(zeros)
	for name, w := range slots {
		a.weights[name] = rlx.Tensor{DType: w.DType, Shape: w.Shape, Data: none[:w.Bytes]}
	}
	for _, layer := range slices.Sorted(maps.Keys(factors)) {
		f := factors[layer]
		if f.a == nil || f.b == nil {
			return nil, badAdapter(dir, "layer %s has only one of lora_A and lora_B", layer)
		}
		rank := f.a.shape[0]
		scale, err := cfg.scale(f.module, rank)
		if err != nil {
			return nil, err
		}
		toA, toB := slots[layer+task.LoraA], slots[layer+task.LoraB]
		room := toA.Shape[0]
		switch {
		case f.b.shape[1] != rank || rank < 1:
			return nil, badAdapter(dir, "layer %s has lora_A of shape %v and lora_B of shape %v", layer, f.a.shape,
				f.b.shape)
		case f.a.shape[1] != toA.Shape[1] || f.b.shape[0] != toB.Shape[0]:
			return nil,
				badAdapter(dir, "layer %s is for a layer of %d inputs and %d outputs; that of the model has %d and %d",
					layer, f.a.shape[1], f.b.shape[0], toA.Shape[1], toB.Shape[0])
		case rank > room:
			return nil, badAdapter(dir, "layer %s has rank %d; the model takes up to %d", layer, rank, room).WithHint(
				"compile the model with rlxc --lora %d", rank)
		}
		down, up := make([]float32, toA.Shape[0]*toA.Shape[1]), make([]float32, toB.Shape[0]*toB.Shape[1])
		copy(down, f.a.values) // the other rows are 0
		for i := range toB.Shape[0] {
			for k := range rank {
				up[i*room+k] = scale * f.b.values[i*rank+k]
			}
		}
		for name, values := range map[string][]float32{layer + task.LoraA: down, layer + task.LoraB: up} {
			if a.weights[name], err = rlx.NewTensor(values, slots[name].Shape...); err != nil {
				return nil, err
			}
		}
		a.Layers, a.Rank = a.Layers+1, max(a.Rank, rank)
	}
	return a, nil
}

func badAdapter(path, msg string, args ...any) *diag.Error {
	return diag.New(code.Adapter, path, msg, args...)
}

// ErrAdapter reports an adapter that cannot be read, or that does not fit the model.
var ErrAdapter error = code.Adapter

// adapterConfig is the configuration of an adapter.
type adapterConfig struct {
	peft.Config
	path string
}

func readAdapterConfig(path string) (c adapterConfig, err error) {
	if c.Config, err = peft.ReadConfig(path); err != nil {
		return c, err
	}
	c.path = path
	for _, x := range []struct {
		wrong bool
		why   string
	}{
		{c.Type != "LORA", fmt.Sprintf("peft_type is %q; supported is LORA", c.Type)},
		{c.Alpha == nil || !(math.Abs(*c.Alpha) <= math.MaxFloat32), "lora_alpha is not a finite number"},
		{c.DoRA, "use_dora is true; DoRA is not supported"},
		{c.Bias != "" && c.Bias != "none" || c.LoraBias, "the adapter changes biases, which is not supported"},
		{c.FanInFanOut, "fan_in_fan_out is true; no model here stores its weights that way"},
		{len(c.Replication) > 0 && string(c.Replication) != "null", "layer_replication is not supported"},
	} {
		if x.wrong {
			return c, badAdapter(path, "%s", x.why)
		}
	}
	return c, nil
}

// scale returns the factor of a layer's adapter. module is its name in the base model.
func (c *adapterConfig) scale(module string, rank int) (float32, error) {
	alpha := *c.Alpha
	for _, p := range c.AlphaPattern {
		re, err := regexp.Compile(`^(.*\.)?(` + p.Pattern + `)$`) // as PEFT matches them
		if err != nil {
			return 0, badAdapter(c.path, "alpha_pattern: %q is not a pattern", p.Pattern)
		}
		if re.MatchString(module) {
			alpha = p.Alpha
			break
		}
	}
	if c.RSLoRA {
		return float32(alpha / math.Sqrt(float64(rank))), nil
	}
	return float32(alpha / float64(rank)), nil
}

// factors are the two matrices of a layer's adapter.
type factors struct {
	module string // name of the layer in the base model
	a, b   *factor
}

type factor struct {
	shape  []int
	values []float32
}

// readFactors reads the tensors of an adapter, by the name of the layer in the artifact.
func readFactors(path string, slots map[string]rlx.Weight) (map[string]*factors, error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, badAdapter(path, "cannot be read: %w", err)
	}
	defer f.Close()
	all, _, err := safetensors.Parse(path, f, st.Size(),
		safetensors.Codes{Read: code.Adapter, Header: code.Adapter, Tensor: code.Adapter})
	if err != nil {
		return nil, err
	}
	out := map[string]*factors{}
	for _, e := range all {
		module, which := layerOf(e.Name)
		layer, ok := slotOf(module, which, slots)
		switch {
		case which == "":
			return nil,
				badAdapter(
					path, "tensor %s is not part of a LoRA adapter; want names that end in .lora_A.weight or .lora_B.weight",
					e.Name)
		case !ok:
			return nil, badAdapter(path, "tensor %s is for layer %s, for which the model takes no adapter", e.Name,
				module)
		case len(e.Shape) != 2 || e.Shape[0]*e.Shape[1] > maxFactor:
			return nil, badAdapter(path, "tensor %s has shape %v; want a matrix", e.Name, e.Shape)
		case e.DType != dtype.F32 && e.DType != dtype.F16 && e.DType != dtype.BF16:
			return nil, badAdapter(path, "tensor %s holds %s; want F32, F16 or BF16", e.Name, e.Stored)
		}
		shape := []int{int(e.Shape[0]), int(e.Shape[1])}
		b := tensor.AlignedBytes(int(e.Size))
		if err := safetensors.ReadAt(path, f, b, e.Offset, code.Adapter); err != nil {
			return nil, err
		}
		if out[layer] == nil {
			out[layer] = &factors{module: module}
		}
		x, to := &factor{shape, floatsOf(e.DType, b)}, &out[layer].a
		if which == task.LoraB {
			to = &out[layer].b
		}
		if *to != nil {
			return nil, badAdapter(path, "layer %s has two matrices %s", module, which[1:])
		}
		*to = x
	}
	return out, nil
}

// maxFactor bounds the elements of one matrix of an adapter, before it is compared with the model.
const maxFactor = 1 << 30

// layerOf returns the layer of a tensor of an adapter, and task.LoraA or task.LoraB, or "" if it is neither. PEFT's
// names are base_model.model.LAYER.lora_A.weight, or with the adapter's name, LAYER.lora_A.default.weight.
func layerOf(name string) (module, which string) {
	name, ok := strings.CutSuffix(name, ".weight")
	for _, w := range []string{task.LoraA, task.LoraB} {
		if m, _, found := strings.Cut(name+".", w+"."); found && ok {
			return strings.TrimPrefix(m, peft.Prefix), w
		}
	}
	return strings.TrimPrefix(name, peft.Prefix), ""
}

// slotOf returns the name that a layer of the base model has in the artifact: that of a text-only model.
func slotOf(module, which string, slots map[string]rlx.Weight) (layer string, ok bool) {
	for _, prefix := range []string{"model.", "model.language_model.", "language_model.model."} {
		if rest, cut := strings.CutPrefix(module, prefix); cut {
			if _, ok := slots["model."+rest+which]; ok {
				return "model." + rest, true
			}
		}
	}
	return module, false
}

// floatsOf widens floats to f32, which is exact.
func floatsOf(d dtype.DType, b []byte) []float32 {
	if d == dtype.F32 {
		return tensor.View[float32](b)
	}
	widen := dtype.F16ToF32
	if d == dtype.BF16 {
		widen = dtype.BF16ToF32
	}
	out := make([]float32, len(b)/2)
	for i, h := range tensor.View[uint16](b) {
		out[i] = widen(h)
	}
	return out
}
