package compile

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	driver "github.com/rlx-go/rlx/core/compile"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/plan"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/release"
	"github.com/rlx-go/rlx/models/weights"
	"github.com/rlx-go/rlx/task"
)

// Result is a compiled model.
type Result struct {
	Programs     []Program // by method, then by target; empty with Options.StopAfter
	Weights      int       // how many tensors the artifact stores
	WeightsBytes int64     // their size in the artifact, with what aligns them
	// Reports say in detail what the compiler did, in the order of Programs; see package core/compile.
	Reports []driver.Report
	// LeftOut lists the default targets that cannot run the model, with what they lack. Targets that Options.Targets
	// names are never left out.
	LeftOut []driver.LeftOut

	// What Write sets.
	Path string // of the artifact
	Size int64  // of the artifact in bytes
	Root string // its identity: "sha256:" and 64 hexadecimal digits
	// Infinite counts values that are too large for Options.DType, by tensor of the checkpoint.
	Infinite map[string]int64
	// Packed and Kept list what Options.Quantize did: the tensors that it packed, and all others.
	Packed []Packing
	Kept   []Kept

	model   *Model
	driver  *driver.Result
	digests *digests // nil for graphs in text form
}

// Program describes the program of a method for a target.
type Program struct {
	Method, Target string
	Steps          int   // in all segments
	ArenaBytes     int64 // memory for intermediate values, of all segments
	PeakBytes      int64 // most bytes of them that live at once
	// Reuse is how many bytes of intermediate values share one byte of the arena.
	Reuse  float64
	Fused  int // fusions that were made
	Missed int // and that were not; Result.Reports says why
	// Ops that the target does not run natively, each with the number of its nodes: rewritten in terms of others, or
	// run by the reference.
	Rewritten, Reference map[string]int
	// Split says which backends run the method, in segments.
	Split *program.Split
}

// Packing describes a tensor of the checkpoint that Options.Quantize packed.
type Packing struct {
	Name          string
	DType         dtype.DType // in the artifact
	Before, After int64       // bytes in the checkpoint and in the artifact
	// Error is the root mean square of the differences divided by that of the values.
	Error float64
}

// Kept is a tensor of the checkpoint that Options.Quantize does not pack.
type Kept struct {
	Name          string
	DType         dtype.DType // in the artifact
	Matrix        bool        // it has two axes
	Before, After int64       // bytes in the checkpoint and in the artifact
}

// Gaps lists, for each target, all ops and element types that it lacks to run the model, and the rules that would do.
// Options.Fallbacks do not count. Package core/compile defines the entries.
func (m *Model) Gaps(ctx context.Context) ([]driver.TargetGaps, error) {
	o := driver.Options{Targets: m.targets, Params: m.values, Activations: m.activations(),
		Custom: m.custom}
	gaps, err := driver.Gaps(ctx, m.built.Methods, o)
	return gaps, m.withCode(ctx, err)
}

// Compile compiles the methods for every target. The files of the checkpoint are hashed meanwhile.
func (m *Model) Compile(ctx context.Context) (*Result, error) {
	r := &Result{model: m}
	if m.checkpoint != nil {
		r.digests = startDigests(ctx, m.checkpoint)
	}
	o := driver.Options{
		Targets: m.targets, LeaveOut: len(m.options.Targets) == 0, Fallbacks: m.fallbacks, Stages: m.options.Stages,
		StopAfter:   m.options.StopAfter,
		Activations: m.activations(),
		Dump:        m.options.Dump, Layout: layout, Params: m.values, Attach: attachments(m.built), Memory: m.memory,
		Mutable: m.mutable, Custom: m.custom,
	}
	if m.options.Cache > 0 { // the expansion gathers all pages of all sequences for each token
		o.Native = func(n *ir.Node) bool { return n.Is(op.AttentionDef) && n.In[op.AttentionPages] != nil }
	}
	out, err := ctxio.Do(ctx, "compile", func() (*driver.Result, error) {
		return driver.Compile(ctx, m.built.Methods, o)
	}, nil)
	if err := m.withCode(ctx, aboutSource(m.path, err)); err != nil {
		return nil, err
	}
	r.driver, r.Reports, r.LeftOut = out, out.Reports, out.LeftOut
	r.Weights, r.WeightsBytes = len(out.Weights), out.WeightsSize
	if m.options.StopAfter == "" {
		for _, x := range out.Reports {
			r.Programs = append(r.Programs, describe(x))
		}
	}
	return r, nil
}

// activations returns the value of Options.Activations, or its default. docs/text.md has the measurements for it.
func (m *Model) activations() string {
	if m.options.Activations != "" {
		return m.options.Activations
	}
	if _, is := m.built.Task.(*task.Text); is && m.options.Train.Mode == "" {
		return op.ActivationsQ8
	}
	return op.ActivationsF32
}

// withCode gives an error of the compiler without a code that of the source, unless ctx has ended or the error is a bug
// of ours.
func (m *Model) withCode(ctx context.Context, err error) error {
	if _, coded := diag.CodeOf(err); err == nil || coded || ctx.Err() != nil || strings.Contains(err.Error(), "BUG:") {
		return err
	}
	return m.blame(err)
}

func describe(r driver.Report) Program {
	p := Program{Method: r.Method, Target: r.Target, Split: r.Split}
	p.Rewritten, p.Reference = map[string]int{}, map[string]int{}
	var naive int64
	for k, x := range r.Segments {
		missed := len(x.Passes.Missed())
		p.Fused, p.Missed = p.Fused+len(x.Passes.Sites)-missed, p.Missed+missed
		p.ArenaBytes, p.PeakBytes, naive = p.ArenaBytes+x.Plan.Arena, max(p.PeakBytes, x.Plan.Peak), naive+x.Plan.Naive
		s := r.Split.Segments[k]
		p.Steps += len(s.Steps)
		addCounts(p.Rewritten, s.Rewritten)
		addCounts(p.Reference, s.Reference)
	}
	p.Reuse = plan.Report{Arena: p.ArenaBytes, Naive: naive}.Reuse()
	return p
}

func addCounts(m map[string]int, list []program.OpCount) {
	for _, c := range list {
		m[c.Op] += c.Count
	}
}

// Check compares every value of the compiled methods with the model's graph, by the reference, on generated inputs of
// the smallest sizes. It returns an error with code.Source for the first that differs. skipped says which methods it
// could not compare, and why. It is very slow for large models.
func (r *Result) Check(ctx context.Context) (skipped []string, err error) {
	m := r.model
	kept := slices.DeleteFunc(slices.Clone(m.targets), func(t driver.Target) bool {
		return slices.ContainsFunc(r.LeftOut, func(l driver.LeftOut) bool { return l.Target == t.Name })
	})
	return driver.CheckSource(ctx, m.built.Methods, driver.Options{Targets: kept, Params: m.values})
}

// Write writes the artifact to path, atomically: path has the old file or the whole new one. progress, if not nil, is
// called with the bytes of weights written so far, of WeightsBytes. The artifact must not be one of Model.Files.
func (r *Result) Write(ctx context.Context, path string, progress func(written int64)) error {
	m := r.model
	for _, in := range m.Files {
		if sameFile(path, in) {
			return usage("--output "+path, "is the input %s, which would be lost", in).WithHint("name another file")
		}
	}
	m.values.progress, m.values.written = progress, 0
	a := format.Artifact{Programs: r.driver.Programs, Splits: r.driver.Splits, Meta: r.meta()}
	if r.digests != nil {
		a.Sources = func() ([]format.Source, error) { return r.digests.wait(ctx) }
	}
	info, err := format.Write(ctx, path, a, weightWriter(r.driver.Weights, m.values))
	if err != nil {
		return err
	}
	r.Path, r.Size, r.Root = path, info.Size, "sha256:"+hex.EncodeToString(info.Root[:])
	r.Infinite = maps.Clone(m.values.infinite)
	r.Packed, r.Kept = m.packings.sorted(), nil
	if m.options.quantizes() {
		r.Kept = kept(m.values.stored)
	}
	return nil
}

func (r *Result) meta() format.Meta {
	m := r.model
	meta := format.Meta{
		Producer: format.Producer{Name: "rlxc", Version: release.Version}, Opset: format.Opset,
		Model: m.Name, Architecture: m.Arch, Precisions: m.precisions, Task: m.built.Task,
	}
	if r.digests != nil {
		meta.Sources = r.digests.files
	} else {
		meta.Sources = m.sources
	}
	if !IsGraph(m.path) {
		for _, fact := range m.Facts {
			meta.Pairs = append(meta.Pairs, format.Pair{Key: fact.Name, Value: fact.Value})
		}
		slices.SortFunc(meta.Pairs, func(x, y format.Pair) int { return strings.Compare(x.Key, y.Key) })
	}
	for _, g := range m.built.Methods {
		meta.Methods = append(meta.Methods, format.MethodOf(g.Name, g))
	}
	return meta
}

// kept lists the tensors of a checkpoint that are not packed.
func kept(stored weights.Stored) (out []Kept) {
	if stored.Checkpoint == nil { // an ONNX model or graphs
		return nil
	}
	for _, name := range stored.Names() {
		if t, _ := stored.Type(name); !t.DType.IsPacked() {
			info, _ := stored.Info(name)
			k := Kept{Name: name, DType: t.DType, Matrix: len(info.Shape) == 2, Before: info.Size, After: t.Bytes(nil)}
			out = append(out, k)
		}
	}
	return out
}

// packings collects the results for the tensors that Options.Quantize selected.
type packings struct {
	mu   sync.Mutex
	list []weights.Packing
}

// add replaces an entry of the same name, because a tensor may be read several times during constant folding.
func (p *packings) add(x weights.Packing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(y weights.Packing) bool { return y.Name == x.Name })
	p.list = append(p.list, x)
}

func (p *packings) sorted() (out []Packing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	weights.SortPackings(p.list)
	for _, x := range p.list {
		out = append(out, Packing(x))
	}
	return out
}
