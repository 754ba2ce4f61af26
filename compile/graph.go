package compile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/models/arch"
	"github.com/rlx-go/rlx/models/weights"
)

// maxGraphText bounds the size of a graph in text form, in bytes.
const maxGraphText = 64 << 20

// loadGraphs reads graphs in text form, each a method. Their params come from a safetensors file or are generated.
func (m *Model) loadGraphs(ctx context.Context) error {
	m.Files = append(m.Files, m.path)
	if m.options.Weights != "" {
		m.Files = append(m.Files, m.options.Weights)
	}
	m.Name = strings.TrimSuffix(filepath.Base(m.path), filepath.Ext(m.path))
	m.blame = func(err error) error { return diag.New(code.GraphText, m.path, "%w", err) }
	text, err := regular.ReadFile(m.path, maxGraphText)
	if err != nil {
		return diag.New(code.GraphText, m.path, "cannot be read: %w", err)
	}
	if err := m.memory.Reserve("graphs", parseBytes*int64(len(text))); err != nil {
		return aboutSource(m.path, err)
	}
	graphs, err := ctxio.Do(ctx, "parse", func() ([]*ir.Graph, error) {
		limits := textLimits
		limits.Unknown = m.custom.Resolve
		return ir.ParseAll(string(text), limits)
	}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if unknown, ok := errors.AsType[*diag.Error](err); ok {
		return diag.New(unknown.Code, m.path, "%w", err)
	}
	if err != nil {
		return diag.New(code.GraphText, m.path, "%w", err).WithHint("rlxc MODEL --dump in=- prints graphs in this form")
	}
	if err := narrowSizes(graphs, m.options.Ranges); err != nil {
		return err
	}
	if graphs, err = bindSizes(graphs, m.options.Sizes); err != nil {
		return err
	}
	m.built = &arch.Model{Arch: "graph", Methods: graphs}
	m.sources = []format.Source{{Name: filepath.Base(m.path), Size: int64(len(text)), SHA256: sha256.Sum256(text)}}
	return m.loadParams(ctx)
}

// bindSizes replaces symbols by the values of Options.Sizes.
func bindSizes(graphs []*ir.Graph, sizes map[string]int64) ([]*ir.Graph, error) {
	if len(sizes) == 0 {
		return graphs, nil
	}
	var known []string
	for _, g := range graphs {
		for _, s := range g.Syms {
			if !slices.Contains(known, s.Name) {
				known = append(known, s.Name)
			}
		}
	}
	slices.Sort(known)
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if !slices.Contains(known, name) {
			return nil, usage("--size "+name, "no graph has this symbol; symbols are %s",
				cmp.Or(strings.Join(known, ", "), "none"))
		}
		flags = append(flags, fmt.Sprintf("--size %s=%d", name, sizes[name]))
	}
	out := make([]*ir.Graph, len(graphs))
	for i, g := range graphs {
		var err error
		if out[i], err = g.Fix(sizes); err != nil {
			return nil, usage(strings.Join(flags, " "), "%w", err)
		}
	}
	return out, nil
}

// narrowSizes replaces the ranges of symbols by those of Options.Ranges.
func narrowSizes(graphs []*ir.Graph, ranges map[string][2]int64) error {
	for _, name := range slices.Sorted(maps.Keys(ranges)) {
		r := ranges[name]
		flag := fmt.Sprintf("--size %s=%d..%d", name, r[0], r[1])
		found := false
		for _, g := range graphs {
			for i, s := range g.Syms {
				if s.Name != name {
					continue
				}
				found = true
				if r[0] < s.Min || r[1] > s.Max {
					return usage(flag, "graph %s allows %d to %d", g.Name, s.Min, s.Max)
				}
				g.Syms[i].Min, g.Syms[i].Max = r[0], r[1]
			}
		}
		if !found {
			return usage(flag, "no graph has this symbol")
		}
	}
	return nil
}

// loadParams reads or generates the params of graphs in text form.
func (m *Model) loadParams(ctx context.Context) (err error) {
	m.values = &values{infinite: map[string]int64{}}
	graphs, from := m.built.Methods, m.options.Weights
	if from == "" {
		params, err := paramsOf(graphs)
		m.values.madeUp = newMadeUp(params, m.options.Seed)
		m.built.Facts = []arch.Fact{{Name: "weights", Value: fmt.Sprintf("generated from seed %d", m.options.Seed)}}
		return err
	}
	m.values.made, err = ctxio.Do(ctx, "params", func() (map[string]tensor.Tensor, error) {
		return readParams(from, graphs, m.memory)
	}, nil)
	m.built.Facts = []arch.Fact{{Name: "weights", Value: from}}
	return err
}

// textLimits are those of the file format, so that a graph that cannot be written is refused before it is compiled.
var textLimits = ir.Limits{Graphs: format.MaxMethods, Bodies: format.MaxBodies, Nodes: format.MaxNodes,
	Signature: format.MaxSignature, Operands: format.MaxOperands, AllOperands: format.MaxAllOperands}

// parseBytes is the memory that parsing a graph takes, in bytes per byte of text. The shortest line of a node, such as
// "a=neg b:f32[]", has 16 bytes, and a node takes at most 512.
const parseBytes = 32

// paramsOf returns the params of graphs and of the graphs that their attributes refer to. If several graphs have a
// param of one name, its types must be equal.
func paramsOf(graphs []*ir.Graph) (list []*ir.Node, err error) {
	seen := map[string]*ir.Node{}
	for _, method := range graphs {
		for _, g := range append(method.Bodies(), method) {
			for _, n := range g.Params() {
				old, ok := seen[n.Name]
				if ok && !old.Type.Equal(n.Type) {
					return nil, diag.New(code.GraphText, n.Name, "is a param of type %v and of type %v", old.Type,
						n.Type)
				}
				seen[n.Name] = n
				if !ok {
					list = append(list, n)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *ir.Node) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// readParams reads the params from a checkpoint, by their names and in their types. Params of packed types are U8
// there, with the bytes of the blocks along the last axis: q4_0[64,2] is U8 of shape [64,36].
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
			return nil,
				diag.New(code.CheckpointMissing, path, "has no tensor %q, a param of type %v; it has %d tensors",
					n.Name, n.Type, len(ckpt.Names()))
		}
		want := checkpointType(n.Type)
		if !ir.TypeOf(info.DType, info.Shape...).Equal(want) {
			return nil, diag.New(arch.ErrTensor, path, "%s is %s of shape %v; the graph wants %v", n.Name, info.Stored,
				info.Shape, want)
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
	shape[len(shape)-1].Const *= int64(t.DType.Size()) // a param's sizes are numbers
	return ir.Type{DType: dtype.U8, Shape: shape}
}
