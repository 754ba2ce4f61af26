package onnx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

const (
	// maxNesting bounds graphs in attributes of nodes, and functions that call functions.
	maxNesting = 64
	// maxNodes bounds the ONNX nodes that are converted, those of unrolled loops once for each iteration.
	maxNodes = 1 << 18
)

// builder converts ONNX graphs to one graph.
type builder struct {
	model  *Model
	file   *File
	sizes  map[string]Range
	ranges map[string]Range // of sizes whose range is not given
	given  map[string][]float64
	g      *ir.Graph
	scope  *scope
	names  map[string]bool // of inputs and params
	// graphs has the names of graphs in attributes of nodes, which must differ.
	graphs map[string]bool
	// several says that the params may be those of other models.
	several bool
	custom  *custom.Library
	// declared has the types that the main graph declares, readers the nodes that read a value.
	declared map[string]*onnxpb.TypeProto_Tensor
	readers  map[string][]*onnxpb.NodeProto
	depth    int
	count    int   // ONNX nodes converted
	now      *node // the node that is converted, for errors
	// need is a size with a range for which the import did not end.
	need *Size
}

// scope has the values of a graph, and those of the graphs around it.
type scope struct {
	values map[string]*value
	outer  *scope
	domain map[string]int64 // opset versions of a function; nil for those of the model
	// capture makes a value of an outer scope usable in this one. Nil means that values can be used as they are.
	capture func(v *value) *value
}

func (s *scope) find(name string) *value {
	if s == nil {
		return nil
	}
	if v := s.values[name]; v != nil {
		return v
	}
	v := s.outer.find(name)
	if v != nil && s.capture != nil {
		v = s.capture(v)
	}
	return v
}

// build converts the main graph.
func (b *builder) build(g *onnxpb.GraphProto) error {
	b.declare(g)
	err := b.g.Build(func() {
		if err := b.initializers(g); err != nil {
			b.g.Fail(err)
		}
		for _, in := range g.GetInput() {
			if b.scope.values[in.GetName()] == nil { // until IR 4 initializers are inputs, too
				b.input(in)
			}
		}
		b.nodes(g.GetNode())
		if len(g.GetOutput()) == 0 {
			b.g.Fail(b.file.errorf("has no outputs"))
		}
		used := map[string]bool{}
		for _, out := range g.GetOutput() {
			v := b.scope.find(out.GetName())
			if v == nil {
				b.g.Fail(b.file.errorf("output %q is not computed", out.GetName()))
			}
			if v.tensors != nil {
				b.g.Fail(b.file.errorf("output %q is a sequence; want a tensor", out.GetName()))
			}
			name := unique(used, symbolic(out.GetName(), "output"))
			n := b.at(v)
			if n.Is(op.InputDef, op.ParamDef) {
				n = op.Copy(n)
			}
			b.g.Return(name, n)
		}
		for _, out := range g.GetOutput() { // which say how many rows of another one are used
			if v := b.scope.find(out.GetName()); v.bound != nil {
				b.g.Return(unique(used, symbolic(out.GetName(), "output")+"_count"), v.bound.count)
			}
		}
	})
	var known *diag.Error
	var small *ir.TooSmall
	switch {
	case err == nil || errors.As(err, &known):
	case b.now != nil && errors.As(err, &small):
		return b.now.small(small, err)
	case b.now != nil: // an op's own error
		return b.file.errorf("%s: %w", b.now.describe(), err)
	default:
		return b.file.errorf("%w", err)
	}
	return err
}

// initializers adds the tensors of a graph to the scope.
func (b *builder) initializers(g *onnxpb.GraphProto) error {
	if len(g.GetSparseInitializer()) > 0 {
		return b.file.errorf("has sparse tensors, which are not supported").WithHint("store them as dense tensors")
	}
	for _, p := range g.GetInitializer() {
		x, err := b.file.newInitializer(p)
		if err != nil {
			return err
		}
		b.scope.values[p.GetName()] = &value{name: p.GetName(), typ: x.typ, init: x,
			narrow: narrowType(p.GetDataType())}
	}
	return nil
}

// input declares an input of the model.
func (b *builder) input(in *onnxpb.ValueInfoProto) {
	tt := in.GetType().GetTensorType()
	if tt == nil {
		kind := "of no type"
		switch {
		case in.GetType().GetSequenceType() != nil:
			kind = "a sequence"
		case in.GetType().GetOptionalType() != nil:
			kind = "an optional"
		case in.GetType().GetMapType() != nil:
			kind = "a map"
		}
		b.g.Fail(b.file.errorf("input %q is %s; want a tensor", in.GetName(), kind))
	}
	d, ok := elementTypes[tt.GetElemType()]
	if !ok {
		b.g.Fail(b.file.errorf("input %q has elements of %s, which is not supported", in.GetName(),
			typeName(tt.GetElemType())))
	}
	if tt.GetShape() == nil {
		b.g.Fail(b.file.errorf("input %q has no shape", in.GetName()).
			WithHint("onnx.tools.update_model_dims gives a model's inputs shapes"))
	}
	shape := ir.Shape{}
	for i, dim := range tt.GetShape().GetDim() {
		switch x := dim.GetValue().(type) {
		case *onnxpb.TensorShapeProto_Dimension_DimValue:
			if x.DimValue < 0 {
				b.g.Fail(b.file.errorf("input %q has an axis of size %d", in.GetName(), x.DimValue))
			}
			shape = append(shape, ir.Static(x.DimValue))
		default:
			name := dim.GetDimParam()
			if name == "" {
				name = fmt.Sprintf("%s_%d", in.GetName(), i)
			}
			shape = append(shape, b.size(name))
		}
	}
	if list, ok := b.given[in.GetName()]; ok {
		v := b.givenValue(in.GetName(), list, d, shape)
		v.name, v.narrow = in.GetName(), narrowType(tt.GetElemType())
		b.scope.values[in.GetName()] = v
		return
	}
	name := unique(b.names, symbolic(in.GetName(), "input"))
	n := op.Input(b.g, name, ir.Type{DType: d, Shape: shape})
	v := &value{name: in.GetName(), typ: n.Type, node: n, narrow: narrowType(tt.GetElemType())}
	emptyKnown(v)
	b.scope.values[in.GetName()] = v
}

// givenValue returns the value of an input that is given at compile time.
func (b *builder) givenValue(name string, list []float64, d dtype.DType, shape ir.Shape) *value {
	var dims []int
	if len(shape) > 0 {
		dims = []int{len(list)}
	}
	if len(shape) > 1 || len(shape) == 0 && len(list) != 1 || len(shape) == 1 && shape[0].IsStatic() &&
		shape[0].Const != int64(len(list)) {
		b.g.Fail(b.file.errorf("input %q has shape %v; %d numbers are given", name, shape, len(list)))
	}
	a := tensor.NewArray(d, dims...)
	for i, v := range list {
		if a.Floats != nil {
			a.Floats[i] = v
		} else if a.Ints[i] = int64(v); float64(a.Ints[i]) != v {
			b.g.Fail(b.file.errorf("input %q is of type %v; %v is given", name, d, v))
		}
	}
	return made(rounded(a))
}

// size returns the dim for an open dimension of the model.
func (b *builder) size(name string) ir.Dim {
	symbol := symbolic(name, "n")
	for _, s := range b.model.Sizes {
		if s.Name == name {
			if s.Min == s.Max {
				return ir.Static(s.Min)
			}
			return ir.Named(s.Symbol)
		}
		if s.Symbol == symbol {
			symbol += "_"
		}
	}
	s := Size{Name: name, Symbol: symbol, Range: DefaultRange}
	if r, ok := b.sizes[name]; ok {
		s.Range, s.Given = r, true
	} else if r, ok := b.ranges[name]; ok {
		s.Range = r
	}
	b.model.Sizes = append(b.model.Sizes, s)
	if s.Min == s.Max {
		return ir.Static(s.Min)
	}
	b.g.Syms = append(b.g.Syms, ir.Sym{Name: symbol, Min: s.Min, Max: s.Max})
	return ir.Named(symbol)
}

// needs ends the import because d, which must not be negative, is negative for some sizes. The error says for which
// range it is not.
func (n *node) needs(d ir.Dim, format string, args ...any) {
	if err := n.needed(d, fmt.Errorf(format, args...)); err != nil {
		n.b.g.Fail(err)
	}
	n.fail(format+"; choose another range with --size", args...)
}

// small returns the error of an op whose operand is too small for some sizes, with the size that the op needs if there
// is one.
func (n *node) small(s *ir.TooSmall, err error) error {
	if rest, ok := s.Dim.Sub(ir.Static(s.Least)); ok {
		if needed := n.needed(rest, err); needed != nil {
			return needed
		}
	}
	return n.b.file.errorf("%s: %w", n.describe(), err)
}

// needed returns the error err with a range of a size for which d is not negative, and notes that range. It begins
// later than the size's own, or ends before it. needed returns nil if there is no such range.
func (n *node) needed(d ir.Dim, err error) error {
	b := n.b
	for _, later := range []bool{true, false} {
		for _, symbol := range d.Symbols() {
			k := slices.IndexFunc(b.model.Sizes, func(s Size) bool { return s.Symbol == symbol })
			at := slices.IndexFunc(b.g.Syms, func(x ir.Sym) bool { return x.Name == symbol })
			if k < 0 || at < 0 {
				continue
			}
			s := b.model.Sizes[k]
			syms := slices.Clone(b.g.Syms)
			holds := func(step int) bool {
				if later {
					syms[at].Min = s.Min + int64(step)
				} else {
					syms[at].Max = s.Max - int64(step)
				}
				lo, _ := syms.Bounds(d)
				return lo >= 0
			}
			if !holds(sort.Search(int(min(s.Max-s.Min, 1<<20)), holds)) {
				continue
			}
			s.Min, s.Max = syms[at].Min, syms[at].Max
			b.need = &s
			limit := fmt.Sprintf("from %d on", s.Min)
			if !later {
				limit = fmt.Sprintf("up to %d", s.Max)
			}
			return diag.New(code.GraphText, b.file.path, "%s: %w", n.describe(), err).
				WithHint("give %s a range %s: --size %s=%d..%d", s.Name, limit, s.Name, s.Min, s.Max)
		}
	}
	return nil
}

// Name returns the name in the method of an input or output of the model, unless another input or output of the method
// would have the same name.
func Name(name string) string { return symbolic(name, "input") }

// symbolic returns name with only characters that names and symbols may have. It uses short if name is empty.
func symbolic(name, short string) string {
	s := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = short + s
	}
	return s
}

// unique returns name, or name with a number that makes it unique, and marks it as used.
func unique(used map[string]bool, name string) string {
	out := name
	for i := 2; used[out]; i++ {
		out = fmt.Sprint(name, "_", i)
	}
	used[out] = true
	return out
}

// paramName returns the name of the param with a known value: the name of the file's tensor, or a digest. If another
// model has a param with equal bytes, paramName returns its name.
func (b *builder) paramName(v *value) string {
	named := v.init.p != nil && v.init.p.GetName() != ""
	w := b.model.weights
	if named && !b.several {
		return unique(b.names, symbolicPath(v.init.p.GetName()))
	}
	t, err := v.init.read()
	if err != nil {
		b.g.Fail(err)
	}
	h := sha256.New()
	h.Write([]byte(v.typ.String()))
	h.Write(t.Data)
	sum := [sha256.Size]byte(h.Sum(nil))
	name := "const/" + hex.EncodeToString(sum[:8])
	if named {
		name = symbolicPath(v.init.p.GetName())
	}
	if !b.several {
		return unique(b.names, name)
	}
	if old := w.names[sum]; old != "" && !b.names[old] {
		b.names[old] = true
		return old
	}
	base := name
	for i := 2; b.names[name] || w.params[name] != nil; i++ {
		name = fmt.Sprint(base, "_", i)
	}
	b.names[name], w.names[sum] = true, name
	return name
}

// symbolicPath is like symbolic for names of params, which may have dots and slashes.
func symbolicPath(name string) string {
	s := strings.Map(func(r rune) rune {
		if r > ' ' && r < 127 && !strings.ContainsRune("\"'\\{}[](),:=%*?", r) {
			return r
		}
		return '_'
	}, name)
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}

// nodes converts nodes, each after those whose results it reads.
func (b *builder) nodes(list []*onnxpb.NodeProto) {
	for i, p := range ordered(list) {
		if b.count++; b.count > maxNodes {
			b.g.Fail(b.file.errorf("has more than %d nodes, those of loops counted for each iteration", maxNodes))
		}
		b.convert(&node{b: b, p: p, index: i})
	}
}

// convert converts a node and adds its results to the scope.
func (b *builder) convert(n *node) {
	defer n.recovered()
	outer := b.now
	b.now = n // stays set after an error, which is about it
	n.version = b.version(n.p.GetDomain())
	for _, name := range n.p.GetInput() {
		var v *value
		if name != "" {
			if v = b.scope.find(name); v == nil {
				n.fail("input %q is not computed before it", name)
			}
		}
		n.in = append(n.in, v)
	}
	for _, a := range n.p.GetAttribute() {
		if a.GetRefAttrName() != "" {
			n.fail("attribute %s refers to %s of the function, which the call does not give", a.GetName(),
				a.GetRefAttrName())
		}
	}
	for len(n.in) > 0 && n.in[len(n.in)-1] == nil {
		n.in = n.in[:len(n.in)-1]
	}
	var boundOf func(*ir.Node) *bound
	var out []*value
	if fn := b.file.functions()[functionKey(n.p.GetDomain(), n.p.GetOpType())]; fn != nil {
		n.refuseSmall()
		out = n.call(fn) // the values have the bounds that the function's nodes give them
	} else {
		n.refuseSequences()
		n.check()
		n.refuseSmall()
		if out = n.alongRows(); out == nil {
			boundOf = n.boundOf()
			out = n.results()
		}
	}
	for i, name := range n.p.GetOutput() {
		if name == "" {
			continue
		}
		if i >= len(out) || out[i] == nil {
			n.fail("result %d (%s) is not supported", i, name)
		}
		if b.scope.values[name] != nil {
			n.fail("result %q is computed twice", name)
		}
		v := out[i]
		if v.name != "" {
			v = v.clone(name)
		}
		v.name = name
		if boundOf != nil {
			v.bound = boundOf(b.at(v))
		}
		if v.narrow == 0 {
			n.narrow(v)
		}
		if v.decided == nil {
			v.decided = n.decidedBy()
		}
		b.scope.values[name] = v
	}
	for _, r := range n.bounded {
		if v := b.scope.values[n.p.GetOutput()[r.result]]; v != nil {
			v.bound = &r.bound
		}
	}
	b.now = outer
}

// narrow gives a result the type of the inputs, if these are integers that are stored in a wider type.
func (n *node) narrow(v *value) {
	for _, in := range n.in {
		if in == nil || in.narrow == 0 || in.typ.DType != v.typ.DType {
			continue
		}
		v.narrow = in.narrow
		switch n.p.GetOpType() {
		case "Add", "Sub", "Mul", "Neg", "BitwiseNot", "BitShift", "Sum", "ReduceSum", "ReduceProd", "CumSum", "Pow":
			x := n.castTo(n.b.at(v), 0, v.narrow)
			*v = value{name: v.name, typ: v.typ, node: x, narrow: v.narrow, bound: v.bound}
		}
		return
	}
}

func (b *builder) version(domain string) int64 {
	domain = canonical(domain)
	for s := b.scope; s != nil; s = s.outer {
		if s.domain != nil {
			return s.domain[domain]
		}
	}
	return b.file.opset(domain)
}

// fail ends the import with an error about the node that is converted.
func (b *builder) fail(format string, args ...any) { b.now.fail(format, args...) }
