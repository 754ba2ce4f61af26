package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/weights"
)

// maxGraphText bounds the size of a graph in text form, in bytes.
const maxGraphText = 64 << 20

// isGraph reports whether src is named like a file with graphs in text form.
func isGraph(src string) bool {
	ext := filepath.Ext(src)
	return ext == ".txt" || ext == ".rlxg"
}

// compileGraphs compiles graphs in text form, each a method. Their params come from a safetensors file or are generated.
func compileGraphs(ctx context.Context, env *cli.Env, src string, f compileFlags) error {
	start := time.Now()
	chosen, err := f.choose()
	if err != nil {
		return err
	}
	if f.output == "" {
		f.output = strings.TrimSuffix(filepath.Base(src), filepath.Ext(src)) + ".rlx"
	}
	inputs := append(targetFiles(slices.Concat(f.targets, f.fallbacks)), src)
	if f.weights != "" {
		inputs = append(inputs, f.weights)
	}
	if err := checkOutputs(ctx, outputsOf(f, chosen.dumps), inputs); err != nil {
		return err
	}
	text, err := regular.ReadFile(src, maxGraphText)
	if err != nil {
		return diag.New(code.GraphText, src, "cannot be read: %w", err)
	}
	memory, err := newMemory(f.memory)
	if err != nil {
		return err
	}
	if err := memory.Reserve("graphs", parseBytes*int64(len(text))); err != nil {
		return aboutSource(src, err)
	}
	graphs, err := ctxio.Do(ctx, "parse", func() ([]*ir.Graph, error) { return ir.ParseAll(string(text), textLimits) }, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return diag.New(code.GraphText, src, "%w", err).WithHint("rlxc MODEL --dump in=- prints graphs in this form")
	}
	model := &arch.Model{Arch: "graph", Methods: graphs}
	vals := &values{infinite: map[string]int64{}}
	digest := format.Source{Name: filepath.Base(src), Size: int64(len(text)), SHA256: sha256.Sum256(text)}
	if f.weights != "" {
		vals.made, err = ctxio.Do(ctx, "params", func() (map[string]tensor.Tensor, error) { return readParams(f.weights, graphs, memory) }, nil)
		model.Facts = []arch.Fact{{Name: "weights", Value: f.weights}}
	} else {
		var params []*ir.Node
		params, err = paramsOf(graphs)
		vals.madeUp = newMadeUp(params, f.seed)
		model.Facts = []arch.Fact{{Name: "weights", Value: fmt.Sprintf("generated from seed %d", f.seed)}}
	}
	if err != nil {
		return err
	}
	j := job{src: src, memory: memory, compiled: compiled{start: start, model: model}, choices: chosen, values: vals,
		meta:  format.Meta{Model: strings.TrimSuffix(digest.Name, filepath.Ext(digest.Name)), Sources: []format.Source{digest}},
		blame: func(err error) error { return diag.New(code.GraphText, src, "%w", err) }}
	err = j.compile(ctx, env, f)
	if err != nil || f.stopAfter != "" || f.gaps {
		return err
	}
	return reportCompiled(env, j.compiled)
}

// textLimits are those of the file format, so that a graph that cannot be written is refused before it is compiled.
var textLimits = ir.Limits{Graphs: format.MaxMethods, Nodes: format.MaxNodes, Signature: format.MaxSignature, Operands: format.MaxOperands, AllOperands: format.MaxAllOperands}

// parseBytes is the memory that parsing a graph takes, in bytes per byte of text. The shortest line of a node, such as "a=neg b:f32[]",
// has 16 bytes, and a node takes at most 512.
const parseBytes = 32

// paramsOf returns the params of graphs. If several graphs have a param of one name, its types must be equal.
func paramsOf(graphs []*ir.Graph) (list []*ir.Node, err error) {
	seen := map[string]*ir.Node{}
	for _, g := range graphs {
		for _, n := range g.Params() {
			old, ok := seen[n.Name]
			if ok && !old.Type.Equal(n.Type) {
				return nil, diag.New(code.GraphText, n.Name, "is a param of type %v and of type %v", old.Type, n.Type)
			}
			if seen[n.Name] = n; !ok {
				list = append(list, n)
			}
		}
	}
	slices.SortFunc(list, func(a, b *ir.Node) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// readParams reads the params from a checkpoint, by their names and in their types. Params of packed types are U8 there, with the bytes of
// the blocks along the last axis: q4_0[64,2] is U8 of shape [64,36].
func readParams(path string, graphs []*ir.Graph, memory memory) (map[string]tensor.Tensor, error) {
	params, err := paramsOf(graphs)
	if err != nil {
		return nil, err
	}
	ckpt, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer ckpt.Close()
	out := map[string]tensor.Tensor{}
	for _, n := range params {
		info, ok := ckpt.Info(n.Name)
		if !ok {
			return nil, diag.New(code.CheckpointMissing, path, "has no tensor %q, a param of type %v; it has %d tensors", n.Name, n.Type, len(ckpt.Names()))
		}
		want := checkpointType(n.Type)
		if !ir.TypeOf(info.DType, info.Shape...).Equal(want) {
			return nil, diag.New(arch.ErrTensor, path, "%s is %s of shape %v; the graph wants %v", n.Name, info.Stored, info.Shape, want)
		}
		if err := memory.Reserve("params", info.Size); err != nil {
			return nil, aboutSource(path, err)
		}
		var b bytes.Buffer
		if _, err := ckpt.Copy(&b, n.Name, info.DType); err != nil {
			return nil, err
		}
		out[n.Name] = tensor.Tensor{DType: n.Type.DType, Shape: n.Type.Shape.Eval(nil), Data: b.Bytes()}
	}
	return out, nil
}

// checkpointType returns the type that a param has in a checkpoint.
func checkpointType(t ir.Type) ir.Type {
	if !t.DType.IsPacked() {
		return t
	}
	shape := slices.Clone(t.Shape)
	if len(shape) == 0 {
		shape = ir.ShapeOf(1)
	}
	shape[len(shape)-1].B *= int64(t.DType.Size()) // a param's sizes are numbers
	return ir.Type{DType: dtype.U8, Shape: shape}
}
