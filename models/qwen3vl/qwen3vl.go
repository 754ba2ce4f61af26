// Package qwen3vl builds the vision encoder of Qwen3-VL (Bai et al., arXiv:2511.21631) from a checkpoint with the
// names of the Transformers library: all of it, a Tower, for package llm, which builds the whole model, or the patch
// embedding alone.
//
// Of the patch embedding alone, method patch_embed maps patches, in the order of the published processor, to
// embeddings. Method embed_image does so with the pixels of an image: it normalises them, cuts patches and embeds
// them. The task "patches" applies one of them to an image. All other tensors are listed as unused.
//
// It imports models/nn and below; it reads no bytes and knows no device.
package qwen3vl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/nn"
	"github.com/rlx-go/rlx/task"
)

var _ = arch.Register(arch.Architecture{
	Name: "qwen3_vl", Title: "Qwen3-VL, patch embedding",
	Types: []string{"qwen3_vl", "qwen3_vl_moe", "qwen3_vl_vision"}, Recognise: recognise, Build: build,
	Keys: map[string]string{keyMerge: "side in patches of the blocks that the language model sees as one (default 2)"},
})

// maxPatches is the maximum number of patches in one run: an image of 16 megapixels in patches of 16.
const maxPatches = 1 << 16

const proj = "patch_embed.proj"

// names returns the names that one of our tensors may have.
func names(name string) []string { return []string{"model.visual." + name, "visual." + name} }

// recognise looks for a patch embedding without a language model. A checkpoint with both belongs to the family of the
// language model, unless the user chooses otherwise.
func recognise(c arch.Checkpoint) (e arch.Evidence) {
	find := func(names ...string) (string, bool) {
		i := slices.IndexFunc(names, func(n string) bool { _, ok := c.Type(n); return ok })
		return names[max(i, 0)], i >= 0
	}
	for _, n := range []string{proj + ".weight", proj + ".bias"} {
		if name, ok := find(names(n)...); ok {
			e.Found = append(e.Found, name)
		} else {
			e.Missing = append(e.Missing, name)
		}
	}
	if name, ok := find("model.language_model.embed_tokens.weight", "model.embed_tokens.weight", "lm_head.weight"); ok {
		e.Missing = append(e.Missing, "a checkpoint without "+name)
	}
	return e
}

func build(ckpt arch.Checkpoint, cfg arch.Config) (*arch.Model, error) {
	w := nn.NewWeights(ckpt, names)
	const want = "[width, channels, frames, patch, patch]"
	t, ok := w.Type(proj + ".weight")
	if !ok {
		return nil, diag.New(arch.ErrTensor, w.Source(proj+".weight"), "tensor is missing; expected %s", want)
	}
	var d []int64 // dims of the weight
	for _, x := range t.Shape {
		d = append(d, x.Const)
	}
	if len(d) != 5 || slices.Min(d) < 1 || slices.Max(d) > 1<<16 || d[3] != d[4] {
		return nil, diag.New(arch.ErrTensor, w.Source(proj+".weight"), "tensor is %v; expected %s with a square patch",
			t, want)
	}
	for i, key := range []string{"hidden_size", "in_channels", "temporal_patch_size", "patch_size"} {
		if err := cfg.Agree("vision_config."+key, d[i]); err != nil {
			return nil, err
		}
	}
	g, err := w.Graph("patch_embed", ir.Syms{{Name: "N", Min: 1, Max: maxPatches}}, func(root nn.Scope) {
		s := root.At(proj)
		rows := op.Input(
			root.Graph, "pixel_values",
			ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Named("N"), ir.Static(d[1] * d[2] * d[3] * d[4])}})
		root.Graph.Return("embeddings", hir.PatchRows(rows, s.Param("weight", d...), s.Param("bias", d[0])).Named(
			s.Path()))
	})
	if err != nil {
		return nil, err
	}
	about, err := describe(d[1], d[2], d[3], cfg)
	if err != nil {
		return nil, err
	}
	methods := []*ir.Graph{g}
	if about != nil {
		g, err := w.Graph(about.ImageMethod, ir.Syms{{Name: "R", Min: 1, Max: int64(about.MaxSide)},
			{Name: "C", Min: 1, Max: int64(about.MaxSide)}}, func(root nn.Scope) { embedImage(about, d, root) })
		if err != nil {
			return nil, err
		}
		methods = append(methods, g)
	}
	m := &arch.Model{Arch: "qwen3_vl", Methods: methods, Facts: []arch.Fact{
		{Name: "patches", Value: fmt.Sprintf("%d x %d px, %d frames, %d channels", d[3], d[4], d[2], d[1])},
		{Name: "width", Value: fmt.Sprint(d[0])},
	}}
	for _, n := range ckpt.Names() {
		if !strings.Contains(n, proj) {
			w.SkipAll("the patch embedding alone is built", n)
		}
	}
	if m.Skipped, err = w.Finish(); err != nil {
		return nil, err
	}
	m.Params = w.Params()
	if about != nil {
		m.Task = about
	}
	return m, nil
}

// embedImage maps image [R*b,C*b,3], values from 0 to 255, to embeddings [N,width] of its patches, in the order of the
// published processor: by blocks of merge x merge patches, and line by line inside a block. b is the side of a block in
// pixels. A still image repeats in all frames, so one product with the sum of the frames' kernels embeds it. d has the
// dims of the weight.
func embedImage(t *task.Patches, d []int64, root nn.Scope) {
	g, s := root.Graph, root.At(proj)
	p, m := int64(t.Patch), int64(t.Merge)
	times := func(x ir.Dim, n int64) ir.Dim {
		y, _ := x.Mul(ir.Static(n)) // sizes are small
		return y
	}
	rows, columns := ir.Named("R"), ir.Named("C")
	x := op.Input(g, t.ImageInput, ir.Type{DType: dtype.F32,
		Shape: ir.Shape{times(rows, m*p), times(columns, m*p), ir.Static(3)}})
	var scale, shift []*ir.Node // of each channel
	for c := range t.Std {
		one := ir.TypeOf(dtype.F32, 1, 1, 1)
		scale = append(scale, op.Const(g, 1/(255*t.Std[c]), one))
		shift = append(shift, op.Const(g, -t.Mean[c]/t.Std[c], one))
	}
	x = op.Reshape(x, append(ir.Shape{rows}, ir.Static(m), ir.Static(p), columns, ir.Static(m), ir.Static(p),
		ir.Static(3)))
	x = op.Transpose(x, 0, 3, 1, 4, 6, 2, 5) // blocks, patches of a block, channel, y, x
	// after the transpose, so that it overwrites its operand
	x = op.Add(op.Mul(x, op.Concat(0, scale...)), op.Concat(0, shift...)).Named("normalised")
	n, _ := rows.Mul(columns)
	x = op.Reshape(x, ir.Shape{times(n, m*m), ir.Static(3 * p * p)}).Named("patches")
	w := op.ReduceSum(s.F32("weight", d...), false, 2)
	w = op.Reshape(w, ir.ShapeOf(d[0], 3*p*p))
	g.Return(t.Embeddings, hir.Linear(x, w, s.F32("bias", d[0]), "").Named(s.Path()))
}
