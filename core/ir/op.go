package ir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/tensor"
)

// Def defines an op with attributes A, a struct whose fields have an `attr:"name"` tag and the type bool, int, float64,
// string, []int or dtype.DType. Everything else is derived from the definition: text, encoding, verifier,
// documentation, constant folding, conformance tests, fuzz seeds and benchmarks.
type Def[A any] struct {
	Name string
	Doc  string // one paragraph: the formula, its source, what happens at the edges
	// MinIn and MaxIn bound the number of operands; MaxIn -1 means any number.
	MinIn, MaxIn int
	// Block: block-level IR (HIR), which no target runs; always expanded before the other passes.
	Block bool

	// Declared: the type does not follow from the operands (input, param, const, iota, reshape, expand). The graph
	// states it, and Infer checks Sig.Declared and returns it.
	Declared bool
	// Elementwise: every operand is broadcast to the output's shape and element i depends on elements i only.
	Elementwise bool
	// Commutative: the two operands may be swapped.
	Commutative bool
	// View reports whether the output is simply bytes of operand 0, and at which offset in bytes (reshape; a narrow of
	// the outermost axis). Nil means never.
	View func(a A, in, out Type) (offset int64, ok bool)
	// Requires lists dims that must be equal in every run although they are not the same dim: a reshape of [N] to [M] requires
	// that N is M. Code that binds sizes checks it. Nil means none.
	Requires func(a A, in []Type, out Type) []Equality
	// InPlace lists operands that the output may overwrite, if they have its type and nothing reads them
	// later. Element i is read before element i is written, and not again. It may list more operands than a node has.
	InPlace []int
	// Effects: a leaf that is never folded, merged or dropped (input, param, state).
	Effects bool
	// Packed: operands and the result may have packed element types (dtype.Packed). Other ops refuse them, except blocks, whose
	// expansions decide.
	Packed bool
	// Updates: the result is a new value of operand 0, a state, and overwrites it (kv_append). Never folded, merged or
	// dropped, and it runs after everything that reads operand 0.
	Updates bool

	// Infer returns the output type, or an error without the op's name, which the caller adds. If two dims must be
	// equal and are not the same, the error is that of Differ or TypesDiffer.
	Infer func(s Sig[A]) (Type, error)
	// Eval is slow and obvious and computes in float64 and int64. out is allocated and zero. Data errors (an index out
	// of range) are returned; shapes were checked by Infer. Nil for leaves that an executor supplies and for blocks.
	// OpDef.Eval rounds the result afterwards: f16 and bf16 to the nearest value, integers by wrapping; f32 stays as
	// exact as float64, so that errors of the reference do not add up.
	Eval func(a A, in []*tensor.Array, out *tensor.Array) error
	// Memory is an upper bound of the bytes that Eval allocates, ignoring constant amounts. Nil means none.
	Memory func(s Sig[A], out Type) int64
	// FLOPs counts arithmetic on static types, a multiply-add as two. Nil means none.
	FLOPs func(a A, in []Type, out Type) int64
	// Tol is how far a kernel may differ from Eval; required with Eval.
	Tol func(a A, in []Type, out Type) Tolerance
	// Cases are types and attributes to test, fuzz and time.
	Cases func() []Case[A]
}

// Sig is the input of type inference.
type Sig[A any] struct {
	Attrs    A
	In       []Type
	Declared Type // of declared ops
	Syms     Syms
}

// Case is one example of an op. In are static types; Fill gives the range of random values of each operand (default
// -2 to 2 for floats, 0 to 3 for integers).
type Case[A any] struct {
	Attrs A
	In    []Type
	Out   Type // of declared ops
	Fill  []Range
}

// Range is a closed range of values.
type Range struct{ Lo, Hi float64 }

// Tolerance bounds |got - want| by Abs + Rel*|want|.
type Tolerance struct{ Abs, Rel float64 }

// OpDef is a registered op with its attribute type erased. Its functions take and return all results of the op, in order: one,
// unless Tuple is set.
type OpDef struct {
	Name, Doc, Results string // Results: see TupleDef
	MinIn, MaxIn       int
	Block, Tuple, Declared, Elementwise, Commutative,
	Effects, Updates, Packed bool
	InPlace []int

	attrs attrCodec
	infer func(a any, in []Type, declared Type, syms Syms) ([]Type, error)
	Eval  func(a any, in []*tensor.Array, out ...*tensor.Array) error // nil: see Def.Eval
	// FLOPs and Tol are never nil.
	FLOPs    func(a any, in []Type, out ...Type) int64
	Tol      func(a any, in []Type, out ...Type) []Tolerance
	Cases    func() []Case[any]
	memory   func(a any, in []Type, syms Syms, out []Type) int64 // never nil
	view     func(a any, in, out Type) (int64, bool)             // may be nil, and so may requires
	requires func(a any, in []Type, out Type) []Equality
	lower    func(g *Graph, n *Node, in []*Node) []*Node
	plain    func(g *Graph, n *Node, in []*Node) *Node
}

var defs = map[string]*OpDef{}

// Define registers an op. It panics on a malformed definition, which is a bug that shows at start.
func Define[A any](d Def[A]) *OpDef {
	if d.Name == "" || d.Doc == "" || d.Infer == nil || d.Eval != nil && d.Tol == nil {
		panic("BUG: op " + d.Name + ": definition lacks a name, a doc, Infer or Tol")
	}
	def := &OpDef{
		Name: d.Name, Doc: d.Doc, MinIn: d.MinIn, MaxIn: d.MaxIn, Block: d.Block, Declared: d.Declared,
		Elementwise: d.Elementwise, Commutative: d.Commutative, Effects: d.Effects, Updates: d.Updates, Packed: d.Packed, InPlace: d.InPlace,
		attrs: newAttrCodec[A](d.Name),
		infer: func(a any, in []Type, declared Type, syms Syms) ([]Type, error) {
			t, err := d.Infer(Sig[A]{a.(A), in, declared, syms})
			return []Type{t}, err
		},
		memory: func(any, []Type, Syms, []Type) int64 { return 0 },
		FLOPs:  func(any, []Type, ...Type) int64 { return 0 },
		Tol:    func(any, []Type, ...Type) []Tolerance { return []Tolerance{{}} },
		Cases:  eraseCases(d.Cases),
	}
	if d.Eval != nil {
		def.Eval = func(a any, in []*tensor.Array, out ...*tensor.Array) error {
			if err := d.Eval(a.(A), in, out[0]); err != nil {
				return err
			}
			roundToType(out[0])
			return nil
		}
	}
	if d.Memory != nil {
		def.memory = func(a any, in []Type, syms Syms, out []Type) int64 {
			return d.Memory(Sig[A]{Attrs: a.(A), In: in, Syms: syms}, out[0])
		}
	}
	if d.FLOPs != nil {
		def.FLOPs = func(a any, in []Type, out ...Type) int64 { return d.FLOPs(a.(A), in, out[0]) }
	}
	if d.Tol != nil {
		def.Tol = func(a any, in []Type, out ...Type) []Tolerance { return []Tolerance{d.Tol(a.(A), in, out[0])} }
	}
	if d.View != nil {
		def.view = func(a any, in, out Type) (int64, bool) { return d.View(a.(A), in, out) }
	}
	if d.Requires != nil {
		def.requires = func(a any, in []Type, out Type) []Equality { return d.Requires(a.(A), in, out) }
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

func eraseCases[A any](cases func() []Case[A]) func() []Case[any] {
	return func() []Case[any] {
		var out []Case[any]
		if cases != nil {
			for _, c := range cases() {
				out = append(out, Case[any]{c.Attrs, c.In, c.Out, c.Fill})
			}
		}
		return out
	}
}

// Lower registers how an op is expressed in other ones, whatever its attributes. Blocks must have it; of other ops, those
// that have it need no kernel on any target. It is separate from Define because a definition that names other ops in its
// literal would be an initialization cycle. The function adds nodes to g and returns the one that replaces n; in are n's
// operands in g. The return value is for `var _ =`.
func Lower(def *OpDef, f func(g *Graph, n *Node, in []*Node) *Node) struct{} {
	return LowerTuple(def, func(g *Graph, n *Node, in []*Node) []*Node { return []*Node{f(g, n, in)} })
}

// Plainer registers how a node is expressed with a plainer node of the same op, for targets whose kernels have not all of its
// attributes: a product of a transposed operand is a plain product of a transpose. The function returns nil for a node that
// is plain already.
func Plainer(def *OpDef, f func(g *Graph, n *Node, in []*Node) *Node) struct{} {
	if def.plain != nil {
		panic("BUG: op " + def.Name + " has two plainer forms")
	}
	def.plain = f
	return struct{}{}
}

// PlainTo adds a simpler form of n to g, with operands in; nil if there is none.
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

// LowerTo adds n's expansion to g, with in standing for n's operands. It returns the nodes that replace n's results.
func (d *OpDef) LowerTo(g *Graph, n *Node, in []*Node) []*Node { return d.lower(g, n, in) }

// Find returns the op of that name.
func Find(name string) (*OpDef, bool) {
	d, ok := defs[name]
	return d, ok
}

// Defs lists all ops by name.
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

// Infer returns the output type of an op with one result on operands of the given types. Errors begin with the op's name.
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

// InferResults returns the types of all results of the op, one unless Tuple is set.
func (d *OpDef) InferResults(attrs any, in []Type, declared Type, syms Syms) ([]Type, error) {
	if len(in) < d.MinIn || d.MaxIn >= 0 && len(in) > d.MaxIn {
		want := fmt.Sprint(d.MinIn)
		if d.MaxIn < 0 {
			want += " or more"
		} else if d.MaxIn != d.MinIn {
			want += " to " + fmt.Sprint(d.MaxIn)
		}
		return nil, fmt.Errorf("%s: %d operands; want %s", d.Name, len(in), want)
	}
	if !d.attrs.accepts(attrs) {
		return nil, fmt.Errorf("%s: attributes are a %T; want a %v", d.Name, attrs, d.attrs.typ)
	}
	var out []Type
	var err error
	if d.Declared {
		err = cmp.Or(syms.CheckType(declared), d.checkPacked("the declared type", declared))
	}
	for i := 0; i < len(in) && err == nil; i++ {
		err = d.checkPacked(fmt.Sprint("operand ", i), in[i])
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

// checkPacked reports a packed type that the op does not take.
func (d *OpDef) checkPacked(what string, t Type) error {
	if d.Packed || d.Block || !t.DType.IsPacked() {
		return nil
	}
	return fmt.Errorf("%s is %v, whose elements are blocks; only some ops take these (dequant_matmul, dequant_rows)", what, t)
}

// checkView reports a view whose upper bound is beyond its operand's, which bounds that are not exact may be.
func (d *OpDef) checkView(attrs any, in, out Type, syms Syms) error {
	offset, view := d.view(attrs, in, out)
	if have, want := syms.MaxBytes(in), syms.MaxBytes(out); view && want > have-offset {
		return fmt.Errorf("%v may have up to %d bytes, but the operand %v up to %d", out, want, in, have)
	}
	return nil
}

// NewAttrs are the zero attributes of the op.
func (d *OpDef) NewAttrs() any { return d.attrs.zero() }
