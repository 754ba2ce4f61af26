// Package nn gives model builders access to the tensors of a checkpoint by path. It reports each missing, misshapen or
// unused tensor by name.
//
// It imports core/hir, models/arch and below, never a model or a reader.
package nn

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
)

// Weights records which tensors of the checkpoint the graphs of a model use.
type Weights struct {
	c      arch.Checkpoint
	rename func(name string) []string // our name -> names it may have in the checkpoint, best first
	used   map[string]string          // our name -> name in the checkpoint
	// names in the checkpoint that belong to the family -> reason why no graph uses them
	known map[string]string
}

// NewWeights returns a record of the tensors that graphs use. rename returns the names that one of our tensors may have
// in the checkpoint, best first.
func NewWeights(c arch.Checkpoint, rename func(string) []string) *Weights {
	return &Weights{c: c, rename: rename, used: map[string]string{}, known: map[string]string{}}
}

// Type returns the type of a tensor by our name. It does not mark the tensor as used.
func (w *Weights) Type(name string) (ir.Type, bool) {
	_, t, ok := w.find(name)
	return t, ok
}

// maxSize bounds every size that is read from a tensor. It exceeds every model, and products of two sizes cannot
// overflow.
const maxSize = 1 << 20

// Dims returns the shape of a tensor and checks its rank. want describes the shape in errors, such as
// "[hidden, channels]". It does not mark the tensor as used.
func (w *Weights) Dims(name, want string, rank int) ([]int64, error) {
	t, ok := w.Type(name)
	if !ok {
		return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is missing; expected %s", want)
	}
	t = Unpacked(t)
	if len(t.Shape) != rank {
		return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected %s", t, want)
	}
	out := make([]int64, rank)
	for i, d := range t.Shape {
		out[i] = d.Const
		if d.Const < 1 || d.Const > maxSize {
			return nil, diag.New(arch.ErrTensor, w.Source(name), "tensor is %v; expected %s with dims from 1 to %d", t,
				want, maxSize)
		}
	}
	return out, nil
}

// Source returns the name of a tensor in the checkpoint, or the name that it would have there.
func (w *Weights) Source(name string) string {
	if source, _, ok := w.find(name); ok {
		return source
	}
	return w.rename(name)[0]
}

func (w *Weights) find(name string) (source string, t ir.Type, ok bool) {
	for _, n := range w.rename(name) {
		for _, part := range arch.Tensors(n) {
			if w.known[part] == "" {
				w.known[part] = "a copy of a tensor that is used under another name"
			}
		}
		if typ, found := w.c.Type(n); found && !ok {
			source, t, ok = n, typ, true
		}
	}
	return source, t, ok
}

// Skip marks tensors of the family that no method needs, by our names. reason is shown to the user.
func (w *Weights) Skip(reason string, names ...string) {
	for _, name := range names {
		for _, n := range w.rename(name) {
			w.known[n] = reason
		}
	}
}

// SkipAll marks the tensors whose names in the checkpoint begin with prefix, such as parts of a larger model that the
// family does not build.
func (w *Weights) SkipAll(reason, prefix string) {
	for _, n := range w.c.Names() {
		if strings.HasPrefix(n, prefix) {
			w.known[n] = reason
		}
	}
}

// Unpacked returns the type of the values of a tensor. An element of a packed type holds a block of values.
func Unpacked(t ir.Type) ir.Type {
	if n := len(t.Shape); n > 0 && t.DType.IsPacked() {
		if k, ok := t.Shape[n-1].Mul(ir.Static(int64(t.DType.Values()))); ok {
			return ir.Type{DType: dtype.F32, Shape: append(append(ir.Shape{}, t.Shape[:n-1]...), k)}
		}
	}
	return t
}

// take returns the type of a tensor and marks it as used. shape is the expected shape of its values.
func (w *Weights) take(name string, shape ir.Shape) (ir.Type, error) {
	source, t, ok := w.find(name)
	switch {
	case !ok:
		return t, w.missing(w.rename(name)[0], shape)
	case !Unpacked(t).Shape.Equal(shape):
		return t, diag.New(arch.ErrTensor, source, "tensor is %v; expected %v", t, shape)
	case !t.DType.IsFloat() && !t.DType.IsPacked():
		found := "an element type that is not known"
		if t.DType != dtype.Invalid {
			found = t.DType.String()
		}
		return t, diag.New(arch.ErrTensor, source, "tensor holds %s; expected F64, F32, F16 or BF16", found)
	}
	w.used[name] = source
	return t, nil
}

// missing returns the error for a tensor that the checkpoint does not have. For a joined name, it names the first part
// that does not fit, and for a slice the whole tensor.
func (w *Weights) missing(source string, shape ir.Shape) error {
	parts := arch.Tensors(source)
	want := slices.Clone(shape)
	if len(parts) > 1 {
		want[0] = ir.Static(shape[0].Const / int64(len(parts)))
	} else if _, _, n := arch.Sliced(source); n > 1 {
		want[0] = ir.Static(shape[0].Const * int64(n))
	}
	var found ir.Type
	for _, name := range parts {
		t, ok := w.c.Type(name)
		switch {
		case !ok:
			return diag.New(arch.ErrTensor, name, "tensor is missing; expected %v", want)
		case !t.Shape.Equal(want):
			return diag.New(arch.ErrTensor, name, "tensor is %v; expected %v", t, want)
		case found.Shape != nil && t.DType != found.DType:
			return diag.New(arch.ErrTensor, name, "tensor is %v, but %s is %v; expected one type", t, parts[0], found)
		}
		found = t
	}
	return diag.New(arch.ErrTensor, source, "tensors cannot be joined")
}

// Params lists the tensors used so far by name.
func (w *Weights) Params() []arch.Param {
	var out []arch.Param
	for name, source := range w.used {
		out = append(out, arch.Param{Name: name, Source: source})
	}
	slices.SortFunc(out, func(a, b arch.Param) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Finish lists the tensors of the family that are not used. It is an error if the checkpoint has tensors of no known
// name.
func (w *Weights) Finish() (skipped []arch.Unused, err error) {
	inUse := map[string]bool{}
	for _, source := range w.used {
		for _, part := range arch.Tensors(source) {
			inUse[part] = true
		}
	}
	var alien []string
	for _, n := range w.c.Names() {
		switch {
		case inUse[n]:
		case w.known[n] != "":
			skipped = append(skipped, arch.Unused{Tensor: n, Reason: w.known[n]})
		default:
			alien = append(alien, n)
		}
	}
	if alien != nil {
		t, _ := w.c.Type(alien[0])
		more := ""
		if len(alien) > 1 {
			more = fmt.Sprintf(" (and %d more: %s)", len(alien)-1, strings.Join(alien[1:min(4, len(alien))], ", "))
		}
		return nil, diag.New(arch.ErrTensor, alien[0], "tensor %v is not part of the model%s", t, more).
			WithHint("remove it from the checkpoint, or choose another --arch")
	}
	return skipped, nil
}

// Graph builds the graph of a method. build stops at the first tensor that is missing or misshapen and at the first op
// whose operands do not fit, so it may rely on the shapes of its nodes.
func (w *Weights) Graph(method string, syms ir.Syms, build func(root Scope)) (*ir.Graph, error) {
	g := ir.NewGraph(method, syms...)
	err := g.Build(func() { build(Scope{Graph: g, w: w, params: map[string]*ir.Node{}}) })
	if _, coded := diag.CodeOf(err); err != nil && !coded {
		err = diag.New(arch.ErrTensor, method, "the sizes of the tensors do not fit each other: %w", err)
	}
	return g, err
}

// A Scope is a position in the tree of tensor names, and the graph that is being built.
type Scope struct {
	Graph  *ir.Graph
	w      *Weights
	params map[string]*ir.Node // of G, by name
	prefix string
	suffix string // of Path
	about  string // see About
}

// At returns the scope below path. At("blocks", 2, "attn") is blocks.2.attn, so builders read like the names in the
// checkpoint.
func (s Scope) At(path ...any) Scope {
	for _, p := range path {
		s.prefix += fmt.Sprint(p) + "."
	}
	return s
}

// Suffixed returns the scope at the same position whose Path, and that of scopes below, ends in suffix. It is for a
// layer that is applied more than once.
func (s Scope) Suffixed(suffix string) Scope {
	s.suffix = suffix
	return s
}

// About returns the scope at the same position, where errors about tensors end in ", in " and what. It is for parts
// that a user knows by another name than the checkpoint's, such as "the detector's neck, scale 2".
func (s Scope) About(what string) Scope {
	s.about = what
	return s
}

// Path returns the position in the tree of names. Layers name their results by it, so that dumps, profiles and errors
// name the layer and not a number.
func (s Scope) Path() string { return strings.TrimSuffix(s.prefix, ".") + s.suffix }

// Param returns the tensor called name as it is stored. Calls for the same tensor return the same node.
func (s Scope) Param(name string, shape ...int64) *ir.Node {
	full := s.prefix + name
	if n := s.params[full]; n != nil {
		return n
	}
	t, err := s.w.take(full, ir.ShapeOf(shape...))
	if err != nil {
		if e, ok := err.(*diag.Error); ok && s.about != "" {
			e.Msg += ", in " + s.about
		}
		s.Graph.Fail(err)
	}
	s.params[full] = op.Param(s.Graph, full, t)
	return s.params[full]
}

// F32 returns the tensor called name, widened to f32 if it is stored as a narrower type.
func (s Scope) F32(name string, shape ...int64) *ir.Node {
	p := s.Param(name, shape...)
	if p.Type.DType == dtype.F32 {
		return p
	}
	return op.Cast(p, dtype.F32)
}

// Projection returns the weight [out, in] and the bias [out] of a linear layer.
func (s Scope) Projection(in, out int64) hir.Projection {
	return s.ProjectionIf(true, in, out)
}

// ProjectionIf is like Projection for layers whose bias is optional: bias tells whether the checkpoint has it.
func (s Scope) ProjectionIf(bias bool, in, out int64) (p hir.Projection) {
	p.Weight = s.Param("weight", out, in)
	if bias {
		p.Bias = s.Param("bias", out)
	}
	return p
}

// LinearIf is like Linear without activation, for layers whose bias is optional.
func (s Scope) LinearIf(bias bool, x *ir.Node, out int64) *ir.Node {
	p := s.ProjectionIf(bias, width(x), out)
	return hir.Linear(x, p.Weight, p.Bias, "").Named(s.Path())
}

// Linear applies the layer at this scope: act(x·weightᵀ + bias).
func (s Scope) Linear(x *ir.Node, out int64, act string) *ir.Node {
	p := s.Projection(width(x), out)
	return hir.Linear(x, p.Weight, p.Bias, act).Named(s.Path())
}

// LayerNorm applies the norm at this scope over the last axis.
func (s Scope) LayerNorm(x *ir.Node, eps float64) *ir.Node {
	return op.LayerNorm(x, s.F32("weight", width(x)), s.F32("bias", width(x)), eps).Named(s.Path())
}

// Has reports whether there is a tensor called name. It does not mark the tensor as used.
func (s Scope) Has(name string) bool {
	_, ok := s.w.Type(s.prefix + name)
	return ok
}

// RmsNorm applies the norm at this scope over the last axis, with a bias if the checkpoint has one. The checkpoint
// stores gains minus offset.
func (s Scope) RmsNorm(x *ir.Node, eps, offset float64) *ir.Node {
	t := ir.TypeOf(dtype.F32, width(x))
	gain, bias := s.F32("weight", width(x)), op.Const(s.Graph, 0, t)
	if offset != 0 {
		gain = op.Add(gain, op.Const(s.Graph, offset, ir.TypeOf(dtype.F32)))
	}
	if s.Has("bias") {
		bias = s.F32("bias", width(x))
	}
	return op.RmsNorm(x, gain, bias, eps).Named(s.Path())
}

// MLP applies the two layers first and second below this scope.
func (s Scope) MLP(x *ir.Node, first, second string, hidden, out int64, act string) *ir.Node {
	a, b := s.At(first).Projection(width(x), hidden), s.At(second).Projection(hidden, out)
	return hir.MLP(x, a.Weight, a.Bias, b.Weight, b.Bias, act).Named(s.Path())
}

// width returns the size of the last axis.
func width(x *ir.Node) int64 {
	return x.Type.Shape[len(x.Type.Shape)-1].Const
}
