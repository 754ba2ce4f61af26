package train

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/atomicfile"
	"github.com/rlx-go/rlx/internal/peft"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/internal/safetensors"
	"github.com/rlx-go/rlx/task"
)

// SaveAdapter writes the adapters in PEFT's format: adapter_model.safetensors and adapter_config.json, in the folder at
// path, which is made if it does not exist. If path ends in .safetensors, it is the file of the first, and the second
// is beside it. Each file is either complete or unchanged.
func (t *Trainer) SaveAdapter(ctx context.Context, path string) error {
	if t.task.Rank == 0 {
		return diag.New(diag.Usage, t.session.Model().Path(), "trains no adapters; save the model")
	}
	values, err := t.Values(ctx)
	if err != nil {
		return err
	}
	names, layers := map[string]string{}, map[string]bool{}
	for name := range values {
		names[name] = peft.Prefix + name + ".weight"
		layer := strings.TrimSuffix(strings.TrimSuffix(name, task.LoraA), task.LoraB)
		layers[layer[strings.LastIndex(layer, ".")+1:]] = true
	}
	text, err := peft.NewConfig(t.task.Rank, t.task.Alpha, slices.Sorted(maps.Keys(layers)))
	if err != nil {
		return err
	}
	file, beside := peft.Files(path)
	if file != path {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return diag.New(code.OfWrite(err), path, "cannot be made: %w", err)
		}
	}
	err = atomicfile.WriteFile(ctx, beside, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	return save(ctx, file, values, names)
}

// SaveModel writes the weights of a model that is trained as a whole to a safetensors file, in f32, with the names of
// the Transformers library.
func (t *Trainer) SaveModel(ctx context.Context, path string) error {
	if t.task.Rank > 0 {
		return diag.New(diag.Usage, t.session.Model().Path(), "trains adapters; save these")
	}
	values, err := t.Values(ctx)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for name := range values {
		names[name] = name
	}
	return save(ctx, path, values, names)
}

// save writes tensors under other names.
func save(ctx context.Context, path string, values map[string]rlx.Tensor, names map[string]string) error {
	var items []safetensors.Item
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		items = append(items, safetensors.Item{Name: names[name], DType: strings.ToUpper(fmt.Sprint(v.DType)),
			Shape: v.Shape, Size: int64(len(v.Data)), Write: func(w io.Writer) error {
				_, err := w.Write(v.Data)
				return err
			}})
	}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		return safetensors.Write(w, map[string]string{"format": "pt"}, items)
	})
}

// loadAdapter sets the first values to those of an adapter, which must have the rank and layers of the artifact.
func (t *Trainer) loadAdapter(ctx context.Context, path string) error {
	weights, settings := peft.Files(path)
	bad := func(path, msg string, args ...any) error { return diag.New(code.Adapter, path, msg, args...) }
	c, err := peft.ReadConfig(settings)
	if err != nil {
		return err
	}
	alpha := 0.0
	if c.Alpha != nil {
		alpha = *c.Alpha
	}
	if c.RSLoRA { // the artifact divides by the rank, not by its root
		alpha *= math.Sqrt(float64(c.R))
	}
	if c.Type != "LORA" || c.DoRA || c.R != t.task.Rank || alpha != t.task.Alpha {
		return bad(settings, "has peft_type %q, rank %d and alpha %v; the artifact trains LORA of rank %d and alpha %v",
			c.Type, c.R, alpha, t.task.Rank, t.task.Alpha).(*diag.Error).
			WithHint("compile the model with rlxc --train lora=%d,alpha=%v", c.R, alpha)
	}
	f, stat, err := regular.Open(weights)
	if err != nil {
		return bad(weights, "cannot be read: %w", err)
	}
	defer f.Close()
	all, _, err := safetensors.Parse(weights, f, stat.Size(),
		safetensors.Codes{Read: code.Adapter, Header: code.Adapter, Tensor: code.Adapter})
	if err != nil {
		return err
	}
	found := map[string]safetensors.Tensor{}
	for _, e := range all {
		name := strings.TrimPrefix(strings.TrimSuffix(e.Name, ".weight"), peft.Prefix)
		found[strings.TrimSuffix(name, ".default")] = e
	}
	trained := t.trained()
	for _, v := range trained {
		e, ok := found[v.Name]
		shape := sizes(v)
		switch {
		case !ok:
			return bad(weights, "has no tensor for %s, which the artifact trains", v.Name).(*diag.Error).
				WithHint("compile the model with rlxc --train-layers and the layers of the adapter")
		case e.DType != dtype.F32 ||
			!slices.EqualFunc(e.Shape, shape, func(a int64, b int) bool { return a == int64(b) }):
			return bad(weights, "tensor %s is %s%v; want F32%v", e.Name, e.Stored, e.Shape, shape)
		}
		b := tensor.AlignedBytes(int(e.Size))
		if err := safetensors.ReadAt(weights, f, b, e.Offset, code.Adapter); err != nil {
			return err
		}
		if err := t.write(ctx, v.Name, shape, tensor.View[float32](b)); err != nil {
			return err
		}
	}
	if len(found) != len(trained) {
		return bad(weights, "has %d tensors; the artifact trains %d", len(found), len(trained)).(*diag.Error).
			WithHint("compile the model with rlxc --train-layers and the layers of the adapter")
	}
	return nil
}
