package ir

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// Def defines an op with attributes A, a struct whose fields have an `attr:"name"` tag and the type bool, int, float64,
// string, []int, dtype.DType or *Graph (see body.go). Text form, encoding, verifier, documentation, constant folding,
// conformance tests, fuzz seeds and benchmarks are derived from the definition.
type Def[A any] struct {
	Name string
	Doc  string // one paragraph: the formula, its source, edge cases
	// Operands declares the operands by name, in order: "x, w, bias?" for an op with an optional third one, "x..." for
	// one or more. The names are those of the text form, of errors and of targets' rules.
	Operands string
	// Block marks a block-level op (HIR), which no target runs. It is lowered before all other passes.
	Block bool

	// Declared is set if the type does not follow from the operands (input, param, const, iota, reshape, expand). The
	// graph declares the type, and Infer checks Sig.Declared and returns it.
	Declared bool
	// Elementwise is set if every operand is broadcast to the shape of the output and element i depends only on
	// elements i.
	Elementwise bool
	// Commutative is set if the two operands may be swapped.
	Commutative bool
	// View reports whether the output is a range of the bytes of operand 0, and the offset of that range in bytes.
	// Examples are reshape, and narrow of the outermost axis. Nil means never.
	View func(a A, in, out Type) (offset int64, ok bool)
	// AlwaysView is set if View always reports true, so that no backend ever runs the op.
	AlwaysView bool
	// Requires returns pairs of dims that must be equal in every run although they are not the same dim. For example, a
	// reshape of [N] to [M] requires that N equals M. Code that binds sizes checks the pairs. Nil means no pairs.
	Requires func(a A, in []Type, out Type) []Equality
	// InPlace lists operands that the output may overwrite, if they have its type and nothing reads them later. The op
	// must read element i before it writes element i, and not again. InPlace may list optional operands.
	InPlace []int
	// Effects marks a leaf that is never folded, merged or dropped (input, param, state).
	Effects bool
	// AsI32 lists the element types (i8, i16, u8 and bool) for which the op may be computed in i32: all operands of
	// these types are cast to i32, and results cast back to the types that Infer gives, with the same values. A cast to
	// an integer type wraps, and a cast to bool is x != 0. Addition allows this. not of bool does not: as integers, not
	// 0 and not 1 both differ from 0. f16 and bf16 need no such list. The definition of every op rounds once, at the
	// end, so the op may be computed in f32.
	AsI32 []dtype.DType
	// Discontinuous reports whether arguments that differ by a rounding error may have quite different results.
	// Examples are floor, comparisons and a cast to integers. Nil means never.
	Discontinuous func(a A, out Type) bool
	// Packed is set if operands and the result may have packed element types (dtype.Packed). Other ops refuse these
	// types, except blocks, for which the lowering decides.
	Packed bool
	// Checked lists the operands whose values Eval may refuse, such as indices.
	Checked []Checked
	// Unread returns operands that do not matter for some values of other operands. A kernel may read them all the
	// same, but their bytes must not change the result. Nil means that every operand matters.
	Unread func(a A) []Unread
	// Updates is set if the result is a new value of operand 0, a state, and overwrites it (kv_append). Such an op is
	// never folded, merged or dropped, and it runs after everything that reads operand 0.
	Updates bool

	// Infer returns the output type. Its error has no op name; the caller adds it. If two dims must be equal and are
	// not the same, the error must come from Differ or TypesDiffer. Infer, Eval and the other functions get a list of
	// operands with a place for each declared operand. An absent operand is the zero Type or nil.
	Infer func(s Sig[A]) (Type, error)
	// Eval is the reference evaluation. It is slow and obvious and computes in float64 and int64. out is allocated and
	// zeroed. Infer has checked the shapes. Eval returns an error for bad data, such as an index out of range, without
	// the name of the op. It is nil for leaves, whose values an executor supplies, and for blocks. OpDef.Eval rounds
	// the result afterwards: f16 and bf16 to the nearest value, integers by wrapping. f32 results stay in float64, so
	// that errors of the reference do not accumulate.
	Eval func(a A, in []*tensor.Array, out *tensor.Array) error
	// EvalBodies is like Eval, for ops whose attributes have graphs. An op that has both has an Eval for graphs without
	// weights. run evaluates one of the graphs for the values of its inputs, in order, and returns its outputs in
	// order.
	EvalBodies func(a A, run RunBody, in []*tensor.Array, out *tensor.Array) error
	// Memory returns an upper bound for the bytes that Eval allocates, without constant amounts. Nil means 0.
	Memory func(s Sig[A], out Type) int64
	// FLOPs returns the number of arithmetic operations for static types. A multiply-add counts as two. Nil means 0.
	FLOPs func(a A, in []Type, out Type) int64
	// Tol returns how far a kernel's result may differ from Eval's. It is required if Eval is set.
	Tol func(a A, in []Type, out Type) Tolerance
	// Cases returns types and attributes to test, fuzz and time.
	Cases func() []Case[A]
}

// RunBody evaluates a graph, see Def.EvalBodies.
type RunBody func(g *Graph, in []*tensor.Array) ([]*tensor.Array, error)

// Checked is an operand for which an op accepts only some values. Safe is a value that it accepts in every element,
// whatever the other operands are.
type Checked struct {
	Operand  int
	Safe     float64
	Integers bool // only integers are checked: a divisor
}

// Unread says that operand Operand does not matter if each element of operand By, a bool, is Value.
type Unread struct {
	Operand, By int
	Value       bool
}

// Sig is the input of type inference.
type Sig[A any] struct {
	Attrs    A
	In       []Type
	Declared Type // type of a declared op
	Syms     Syms
}

// Case is one example of an op. In has static types; the zero Type, or the end of the list, stands for absent operands.
// Fill has the range of random values of each operand; the default is -2 to 2 for floats and 0 to 3 for integers. Base
// has values that are added to the operand with the same number of elements. It is for operands whose elements have
// meanings of their own, such as a camera; nil means 0.
type Case[A any] struct {
	Attrs A
	In    []Type
	Out   Type // type of a declared op
	Fill  []Range
	Base  [][]float64
}

// Range is a closed range of values.
type Range struct{ Lo, Hi float64 }

// Tolerance bounds |got - want| by Abs + Rel*|want|.
type Tolerance struct{ Abs, Rel float64 }

// OpDef is a registered op whose attribute type is erased. Its functions take and return all results of the op in
// order. There is one result unless Tuple is set.
type OpDef struct {
	Name, Doc, Results string // Results: see TupleDef
	Operands           []Operand
	Block, Late, Tuple, Declared, Elementwise, Commutative, AlwaysView,
	Effects, Updates, Packed, Nested bool // Nested: see TupleDef
	InPlace        []int
	ResultsInPlace [][]int // by result, of an op with several (TupleDef.InPlace); Node.Overwrites has either
	AsI32          []dtype.DType
	Checked        []Checked
	Unread         func(a any) []Unread       // never nil
	Discontinuous  func(a any, out Type) bool // nil: never

	attrs attrCodec
	infer func(a any, in []Type, declared Type, syms Syms) ([]Type, error)
	Eval  func(a any, in []*tensor.Array, out ...*tensor.Array) error // nil: see Def.Eval
	// EvalBodies is nil unless the definition has it. It rounds the result, as Eval does.
	EvalBodies func(a any, run RunBody, in []*tensor.Array, out ...*tensor.Array) error
	// FLOPs and Tol are never nil.
	FLOPs    func(a any, in []Type, out ...Type) int64
	Tol      func(a any, in []Type, out ...Type) []Tolerance
	Cases    func() []Case[any]
	memory   func(a any, in []Type, syms Syms, out []Type) int64 // never nil
	view     func(a any, in, out Type) (int64, bool)             // may be nil, and so may requires
	requires func(a any, in []Type, out Type) []Equality
	called   func(a any) string
	lower    func(g *Graph, n *Node, in []*Node) []*Node
	plain    func(g *Graph, n *Node, in []*Node) *Node
	gradient GradientRule
	through  func(n *Node, in []*Node) ([]*Node, error) // see GradientThrough
}

// An EvalError is the error of OpDef.Eval: an op's own error, which does not name the op, with the op's name put in
// front.
type EvalError struct {
	Op  string
	Err error
}

func (e *EvalError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *EvalError) Unwrap() error { return e.Err }

var defs = map[string]*OpDef{}

// Define registers an op. It panics if the definition is malformed.
func Define[A any](d Def[A]) *OpDef { return define(reflect.TypeFor[A](), erased(d)) }

// define does what Define does. It is apart because a generic function is compiled for each type of attributes.
func define(attrs reflect.Type, d Def[any]) *OpDef {
	if d.Name == "" || d.Doc == "" || d.Infer == nil || d.Eval != nil && d.Tol == nil {
		panic("BUG: op " + d.Name + ": definition lacks a name, a doc, Infer or Tol")
	}
	def := &OpDef{
		Name: d.Name, Doc: d.Doc, Operands: parseOperands(d.Name, d.Operands), Block: d.Block, Declared: d.Declared,
		Elementwise: d.Elementwise, Commutative: d.Commutative, Effects: d.Effects, Updates: d.Updates,
		AlwaysView: d.AlwaysView, Packed: d.Packed, InPlace: d.InPlace, AsI32: d.AsI32, Checked: d.Checked,
		Discontinuous: d.Discontinuous, view: d.View, requires: d.Requires,
		attrs: newAttrCodec(d.Name, attrs),
		infer: func(a any, in []Type, declared Type, syms Syms) ([]Type, error) {
			t, err := d.Infer(Sig[any]{a, in, declared, syms})
			return []Type{t}, err
		},
		memory: func(any, []Type, Syms, []Type) int64 { return 0 },
		Unread: func(any) []Unread { return nil },
		FLOPs:  func(any, []Type, ...Type) int64 { return 0 },
		Tol:    func(any, []Type, ...Type) []Tolerance { return []Tolerance{{}} },
		Cases:  d.Cases,
	}
	if d.Unread != nil {
		def.Unread = d.Unread
	}
	for _, t := range d.AsI32 {
		if !slices.Contains([]dtype.DType{dtype.I8, dtype.I16, dtype.U8, dtype.Bool}, t) {
			panic("BUG: op " + d.Name + ": i32 does not hold " + t.String())
		}
	}
	if d.Eval != nil {
		def.Eval = func(a any, in []*tensor.Array, out ...*tensor.Array) error {
			if err := d.Eval(a, padded(def, in), out[0]); err != nil {
				return &EvalError{d.Name, err}
			}
			roundToType(out[0])
			return nil
		}
	}
	if d.EvalBodies != nil {
		def.EvalBodies = func(a any, run RunBody, in []*tensor.Array, out ...*tensor.Array) error {
			if err := d.EvalBodies(a, run, padded(def, in), out[0]); err != nil {
				return &EvalError{d.Name, err}
			}
			roundToType(out[0])
			return nil
		}
	}
	if d.Memory != nil {
		def.memory = func(a any, in []Type, syms Syms, out []Type) int64 {
			return d.Memory(Sig[any]{Attrs: a, In: padded(def, in), Syms: syms}, out[0])
		}
	}
	if d.FLOPs != nil {
		def.FLOPs = func(a any, in []Type, out ...Type) int64 { return d.FLOPs(a, padded(def, in), out[0]) }
	}
	if d.Tol != nil {
		def.Tol = func(a any, in []Type, out ...Type) []Tolerance {
			return []Tolerance{d.Tol(a, padded(def, in), out[0])}
		}
	}
	if def.Updates {
		def.InPlace = []int{0}
	}
	register(def)
	return def
}

func register(d *OpDef) {
	if defs[d.Name] != nil {
		panic("BUG: op " + d.Name + " is defined twice")
	}
	defs[d.Name] = d
}

// Lower registers how an op is expressed by other ops, whatever its attributes. Blocks must have a lowering. Other ops
// with a lowering need no kernel on any target. f adds nodes to g and returns the one that replaces n; in has n's
// operands in g. Lower is separate from Define because a definition that refers to other ops would be an initialization
// cycle. It returns a value so that it can be called as `var _ = Lower(...)`.
func Lower(def *OpDef, f func(g *Graph, n *Node, in []*Node) *Node) struct{} {
	return LowerTuple(def, func(g *Graph, n *Node, in []*Node) []*Node { return []*Node{f(g, n, in)} })
}

// Plainer registers how a node is expressed by a plainer node of the same op, for targets whose kernels lack some of
// its attributes. For example, a product of a transposed operand becomes a plain product of a transpose. The function
// returns nil if the node is plain already.
func Plainer(def *OpDef, f func(g *Graph, n *Node, in []*Node) *Node) struct{} {
	if def.plain != nil {
		panic("BUG: op " + def.Name + " has two plainer forms")
	}
	def.plain = f
	return struct{}{}
}

// PlainTo adds a plainer form of n with the operands in to g. It returns nil if the op has no plainer form.
func (d *OpDef) PlainTo(g *Graph, n *Node, in []*Node) *Node {
	if d.plain == nil {
		return nil
	}
	return d.plain(g, n, in)
}

// HasPlainer reports whether Plainer was called for the op.
func (d *OpDef) HasPlainer() bool { return d.plain != nil }

// CanLower reports whether Lower was called for the op.
func (d *OpDef) CanLower() bool { return d.lower != nil }

// LowerTo adds n's lowering to g, with the operands in. It returns the nodes that replace n's results.
func (d *OpDef) LowerTo(g *Graph, n *Node, in []*Node) []*Node { return d.lower(g, n, in) }

// Find returns the op of that name.
func Find(name string) (*OpDef, bool) {
	d, ok := defs[name]
	return d, ok
}

// Defs returns all ops, sorted by name.
func Defs() []*OpDef {
	out := slices.Collect(maps.Values(defs))
	slices.SortFunc(out, func(a, b *OpDef) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Infer returns the output type of an op with one result for operands of the given types. Errors begin with the op's
// name.
func (d *OpDef) Infer(attrs any, in []Type, declared Type, syms Syms) (Type, error) {
	if d.Tuple {
		return Type{}, fmt.Errorf("%s: has several results", d.Name)
	}
	out, err := d.InferResults(attrs, in, declared, syms)
	if err != nil {
		return Type{}, err
	}
	return out[0], nil
}

// InferResults returns the types of all results of the op. There is one result unless Tuple is set.
func (d *OpDef) InferResults(attrs any, in []Type, declared Type, syms Syms) ([]Type, error) {
	if err := d.CheckOperands(len(in), func(k int) bool { return in[k].Present() }); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	in = padded(d, in)
	if !d.attrs.accepts(attrs) {
		return nil, fmt.Errorf("%s: attributes are a %T; want a %v", d.Name, attrs, d.attrs.typ)
	}
	var out []Type
	var err error
	if d.Declared {
		err = cmp.Or(syms.CheckType(declared), d.checkPacked("the declared type", declared))
	}
	for i := 0; i < len(in) && err == nil; i++ {
		err = d.checkPacked("operand "+d.OperandName(i), in[i])
	}
	if err == nil {
		out, err = d.infer(attrs, in, declared, syms)
	}
	if err == nil && (len(out) == 0 || len(out) > MaxResults) {
		err = fmt.Errorf("%d results; want 1 to %d", len(out), MaxResults)
	}
	for i := 0; i < len(out) && err == nil; i++ {
		err = cmp.Or(syms.CheckType(out[i]), d.checkPacked("the result", out[i]))
	}
	if err == nil && d.view != nil && len(in) > 0 {
		err = d.checkView(attrs, in[0], out[0], syms)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	return out, nil
}

// checkPacked returns an error if t is a packed type and the op does not accept packed types.
func (d *OpDef) checkPacked(what string, t Type) error {
	if d.Packed || d.Block || !t.DType.IsPacked() {
		return nil
	}
	return fmt.Errorf("%s is %v, whose elements are blocks; only some ops take these (dequant_matmul, dequant_rows)",
		what, t)
}

// checkView returns an error if the result of a view has a larger upper bound than its operand. That can happen if
// bounds are not exact.
func (d *OpDef) checkView(attrs any, in, out Type, syms Syms) error {
	offset, view := d.view(attrs, in, out)
	if have, want := syms.MaxBytes(in), syms.MaxBytes(out); view && want > have-offset {
		return fmt.Errorf("%v may have up to %d bytes, but the operand %v up to %d", out, want, in, have)
	}
	return nil
}

// Wider returns a wider type to which operands of type d may be cast for the op. The results, cast back, are the same.
// ok is false if there is no such type. An op that updates a state must keep the state's type, and for an op whose type
// is declared or is an attribute, the operands do not determine the results' types.
func (d *OpDef) Wider(t dtype.DType) (wide dtype.DType, ok bool) {
	byAttr := slices.ContainsFunc(d.AttrNames(), func(name string) bool { return d.AttrKind(name) == "dtype" })
	switch {
	case d.Updates || d.Declared || byAttr:
		return t, false
	case t == dtype.F16 || t == dtype.BF16:
		return dtype.F32, true
	}
	return dtype.I32, slices.Contains(d.AsI32, t)
}

// NewAttrs returns the zero attributes of the op.
func (d *OpDef) NewAttrs() any { return d.attrs.zero() }
