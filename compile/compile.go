// Package compile compiles models to artifacts, as the command rlxc does, which is a client of this package: it reads a
// checkpoint, recognises the model family, finds the configuration and the tokenizer that belong to it, compiles the
// methods for one target after another, and writes the .rlx file. Package rlx runs it.
//
// [Checkpoint] does everything in one call. For what happens in between, call its steps: [Load] gives a [Model], whose
// sizes can be looked at; Model.Compile gives a [Result], whose reports say what the compiler did; Result.Write writes
// the artifact.
//
// Errors are *diag.Error with a code, as rlxc prints them. An option that is wrong has the code diag.Usage, and the
// error names it as the flag of rlxc that sets it: --quantize for Options.Quantize, --target for Options.Targets. The
// codes of what a user meets are in package core/code: CheckpointRead and the other codes of checkpoints,
// Architecture, ModelTensor, ModelConfig, GraphText, OpFile, UnknownOp, Target, TargetFile, and Untaken for an op that
// a target lacks. More memory than is allowed is device.ErrMemory; an artifact that cannot be written is RLX2020. When
// a context ends, the error is its cause, or diag.Interrupted while the artifact is written.
//
// This package knows every stage, every model family and the file format. Package core/compile, which it uses, knows
// neither checkpoints nor files: it turns graphs into programs.
package compile

import (
	"context"

	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/models/llm" // the model families that Load recognises
	_ "github.com/rlx-go/rlx/models/qwen3vl"
	_ "github.com/rlx-go/rlx/models/sam"
	_ "github.com/rlx-go/rlx/models/sam2"
	_ "github.com/rlx-go/rlx/models/sam3"
	_ "github.com/rlx-go/rlx/models/splat"
)

// Options say what to compile, and for what. The zero value compiles a checkpoint as it is for the default targets.
type Options struct {
	// Output is the artifact that Checkpoint writes. Empty stands for the model's name with .rlx, in the current
	// folder.
	Output string

	// Arch is the name of the model family. Empty or "auto" recognises it by the names and shapes of the tensors.
	Arch string
	// Config is a Transformers config.json. Empty takes the file config.json beside the checkpoint, if there is one and
	// it describes a model of the family, or what a GGUF file says.
	Config string
	// Set overrides values of the configuration, each as KEY=VALUE, such as mask_decoder_config.num_attention_heads=2.
	Set []string
	// Batch is, for a language model, how many sequences one run can continue; for SAM, how many images encode_batch
	// takes. 0 stands for 1.
	Batch int
	// Cache is, for a language model with Batch, how many tokens the caches of all sequences hold together. They are
	// then in pages, which sequences with a common beginning share. 0 gives each sequence room for Context tokens of
	// its own. Targets must have kernels for attention to pages, as the built-in ones have.
	Cache int
	// Context is how many tokens the caches of a language model hold. 0 stands for what the model was made for, at most
	// 4096.
	Context int
	// LoRA is the rank of low-rank adapters that a session may give a language model (text.OpenAdapter). Its linear
	// layers then have a product for the adapter, whose weights are 0 until then. 0 means none.
	LoRA int
	// Train compiles a language model for training (package train) in place of its use.
	Train TrainOptions
	// DType is the element type of stored weights: "f32", "f16", "bf16", or "keep" or empty for that of each tensor.
	DType string
	// Quantize stores the matrices of a language model, or the weights of the products of an ONNX model or of graphs in
	// text form, in blocks of few bits: one of weights.Quantizations, such as "q4_k_m", or "none" or empty.
	Quantize string

	// Ops are files with definitions of ops of one's own (docs/custom-ops.md), and Definitions are texts like those in
	// such files. Graphs in text form may have these ops. Where a target claims such an op and its definition has a
	// pattern, nodes of any model that compute the same become the op.
	Ops, Definitions []string

	// Weights is, for graphs in text form, a safetensors file with their params, by name and in their types; a packed
	// type is U8 there, its blocks along the last axis. Empty generates them from Seed.
	Weights string
	// Seed is the seed of generated params. rlxc's default is 1.
	Seed uint64
	// Sizes gives values to symbols of graphs in text form, in all graphs that have them. These sizes are then fixed;
	// the other symbols remain.
	Sizes map[string]int64
	// Ranges limits sizes of graphs in text form that stay open, and chooses the ranges of the open dimensions of ONNX
	// models, each the least and the largest size. Without, these have onnx.DefaultRange. The artifact's memory is
	// planned for the largest.
	Ranges map[string][2]int64
	// Values gives inputs of an ONNX model their numbers when it is compiled; they are not inputs of the artifact. It
	// is for inputs that decide shapes, such as the axes of a reduction: one number, or a list.
	Values map[string][]float64
	// Models are more ONNX models (.onnx). Each model is a method, and they share weights with equal bytes: an encoder,
	// a decoder, a decoder with a cache.
	Models []string
	// Methods are the names of the methods of ONNX models, in their order. Empty stands for main, or for the names of
	// the files if there are several.
	Methods []string

	// Targets are what to compile for: names such as "cpu" and "cpu:x86-64-v4", or files with a target description,
	// which end in .target or have a / in their path. Empty stands for cpu and wgpu, or those of them that have the
	// packed types of the weights.
	Targets []string
	// Fallbacks are targets that may run the ops that a target lacks. The first that can runs the op. Without any, such
	// an op is an error.
	Fallbacks []string
	// Stages divides each method into so many segments of about the same work, which as many devices of one backend can
	// run (rlx.Options.Devices). 0 and 1 leave methods whole. It cannot be combined with Fallbacks.
	Stages int
	// Precisions are those that a run may choose for the operands of products. The first is the run's default. Empty
	// stands for device.Precisions.
	Precisions []string
	// Activations says how products with quantized weights read their activations: "f32" keeps them; "q8" rounds each
	// group of 32 to 8 bits, where a target has kernels for it. Empty stands for "q8" if the model is a language model
	// that does not train, and for "f32" otherwise.
	Activations string
	// MutableWeights lists patterns of names, as for path.Match, of weights that a session must be able to replace
	// (rlx.Session.SetWeights). The compiler computes no constants from their values, which may make programs slower.
	// Other weights can be replaced, too, unless it did.
	MutableWeights []string
	// StopAfter is the last pass to run. Empty runs all. With it there is no artifact.
	StopAfter string
	// Dump, if not nil, is called with the graph of each method, for each target, after each phase: "in" is the graph
	// that the model built; the others are the names of passes. It must not change the graph.
	Dump func(method, target, phase string, g *ir.Graph)

	// Memory is how many bytes the compiler may reserve. 0 stands for what is free.
	Memory int64
}

// Checkpoint compiles the checkpoint at path and writes the artifact. The path is that of a .safetensors file, of the
// index of a sharded one, of a folder with either, of a .gguf file (of a split one, the first part), or of a .ply file
// of Gaussian splats. A path that ends in .txt or .rlxg has graphs in text form instead, each a method.
//
// The same files, options and version give the same bytes. If it fails or ctx ends, an old artifact is unchanged and no
// new one is left behind.
func Checkpoint(ctx context.Context, path string, o Options) (*Result, error) {
	m, err := Load(ctx, path, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := m.Compile(ctx)
	if err != nil {
		return nil, err
	}
	out := o.Output
	if out == "" {
		out = m.Name + ".rlx"
	}
	return r, r.Write(ctx, out, nil)
}
