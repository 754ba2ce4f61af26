package ir

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/rlx-go/rlx/core/tensor"
)

// An op with several results is a tuple node, which has no value, followed directly by one result node (or selector)
// for each result, in order:
//
//	%1 = top_k x {k=5}        Results: f32[2,5], i32[2,5]
//	v  = result %1 {index=0} : f32[2,5]
//	i  = result %1 {index=1} : i32[2,5]
//
// In text this is one line, "v, i = top_k x {k=5} : f32[2,5], i32[2,5]". Result nodes are ordinary values. Nothing else
// may read a tuple node, so code that visits the nodes of a graph finds at most one value per node. Go's compiler does
// the same (cmd/compile/internal/ssa: OpSelect0, types.Tuple); docs/rationale.md has the reasons.

// MaxResults is the largest number of results of an op.
const MaxResults = 256

// ResultAttrs are the attributes of a result node.
type ResultAttrs struct {
	Index int `attr:"index"` // index of the result, from 0
}

// ResultDef is the op of result nodes. Graph.AddResults adds them. They need no step, because the step of the tuple
// node writes their values.
var ResultDef = Define(Def[ResultAttrs]{
	Name: "result",
	Doc: "One result of an op that has several. Such an op's node has no value of its own; it is followed by one result node for " +
		"each of its results, in order, which are all that may read it.",
	Operands: "tuple",
	Infer: func(Sig[ResultAttrs]) (Type, error) {
		return Type{}, fmt.Errorf("its operand is not an op of several results directly before it")
	},
})

// TupleDef defines an op with several results. Fields that Def also has mean the same.
type TupleDef[A any] struct {
	Name, Doc string
	// Results describes the results in order, for the documentation, such as "values, indices".
	Results  string
	Operands string
	Block    bool
	// InPlace lists, for each result, the operands that it may overwrite. Different results of a step may overwrite
	// different operands. Before the op writes element i of any result, it must have read element i of all of these
	// operands, and it must not read it again.
	InPlace [][]int
	// Late is set for a block whose lowering reads the nodes before it. Such blocks are lowered after all others.
	Late bool
	// Called returns the name under which people know a node, if a definition outside of RLX gives it one. Nil means
	// the op's name.
	Called func(a A) string
	// Checked lists the operands whose values Eval may refuse, such as indices.
	Checked []Checked

	// Infer returns the types of the results. There are 1 to MaxResults.
	Infer func(s Sig[A]) ([]Type, error)
	Eval  func(a A, in, out []*tensor.Array) error
	// EvalBodies is like Eval; see Def.EvalBodies.
	EvalBodies func(a A, run RunBody, in, out []*tensor.Array) error
	// Nested is set if the bodies of a node are programs of their own, which the step runs. They may read weights.
	Nested bool
	Packed bool // see Def.Packed
	// Updates is set if result k is a new value of operand k, a state, and overwrites it; see Def.Updates. The states
	// have the types of the results.
	Updates bool

	Memory func(s Sig[A], out []Type) int64
	FLOPs  func(a A, in, out []Type) int64
	// Tol returns one tolerance for each result.
	Tol   func(a A, in, out []Type) []Tolerance
	Cases func() []Case[A]
}

// DefineTuple registers an op with several results. It panics if the definition is malformed.
func DefineTuple[A any](d TupleDef[A]) *OpDef {
	return defineTuple(reflect.TypeFor[A](), erasedTuple(d))
}

// defineTuple is for DefineTuple what define is for Define.
func defineTuple(attrs reflect.Type, d TupleDef[any]) *OpDef {
	if d.Name == "" || d.Doc == "" || d.Results == "" || d.Infer == nil || d.Eval != nil && d.Tol == nil {
		panic("BUG: op " + d.Name + ": definition lacks a name, a doc, Results, Infer or Tol")
	}
	def := &OpDef{
		Name: d.Name, Doc: d.Doc, Results: d.Results, Operands: parseOperands(d.Name, d.Operands), Block: d.Block,
		Tuple: true, ResultsInPlace: d.InPlace, Checked: d.Checked, Late: d.Late, Nested: d.Nested, Packed: d.Packed,
		Updates: d.Updates, called: d.Called,
		attrs: newAttrCodec(d.Name, attrs),
		infer: func(a any, in []Type, declared Type, syms Syms) ([]Type, error) {
			return d.Infer(Sig[any]{a, in, declared, syms})
		},
		memory: func(any, []Type, Syms, []Type) int64 { return 0 },
		Unread: func(any) []Unread { return nil },
		FLOPs:  func(any, []Type, ...Type) int64 { return 0 },
		Tol:    func(_ any, _ []Type, out ...Type) []Tolerance { return make([]Tolerance, len(out)) },
		Cases:  d.Cases,
	}
	def.Late = d.Late
	if d.Eval != nil {
		def.Eval = func(a any, in []*tensor.Array, out ...*tensor.Array) error {
			if err := d.Eval(a, padded(def, in), out); err != nil {
				return &EvalError{def.opName(a), err}
			}
			for _, x := range out {
				roundToType(x)
			}
			return nil
		}
	}
	if d.EvalBodies != nil {
		def.EvalBodies = func(a any, run RunBody, in []*tensor.Array, out ...*tensor.Array) error {
			if err := d.EvalBodies(a, run, padded(def, in), out); err != nil {
				return &EvalError{def.opName(a), err}
			}
			for _, x := range out {
				roundToType(x)
			}
			return nil
		}
	}
	if d.Memory != nil {
		def.memory = func(a any, in []Type, syms Syms, out []Type) int64 {
			return d.Memory(Sig[any]{Attrs: a, In: padded(def, in), Syms: syms}, out)
		}
	}
	if d.FLOPs != nil {
		def.FLOPs = func(a any, in []Type, out ...Type) int64 { return d.FLOPs(a, padded(def, in), out) }
	}
	if d.Tol != nil {
		def.Tol = func(a any, in []Type, out ...Type) []Tolerance { return d.Tol(a, padded(def, in), out) }
	}
	register(def)
	return def
}

// LowerTuple is like Lower, for an op with several results. f returns the nodes that replace them, in order.
func LowerTuple(def *OpDef, f func(g *Graph, n *Node, in []*Node) []*Node) struct{} {
	if def.lower != nil {
		panic("BUG: op " + def.Name + " has two lowerings")
	}
	def.lower = f
	return struct{}{}
}

// AddResults appends an op with want results and returns the nodes of the results. For an op with one result that is
// the op's own node. After an error (see Err) it returns want nodes of the invalid type.
func (g *Graph) AddResults(want int, def *OpDef, attrs any, in ...*Node) []*Node {
	if !def.Tuple && want == 1 {
		return []*Node{g.Add(def, attrs, in...)}
	}
	n := &Node{ID: len(g.Nodes), Op: def, Attrs: attrs, In: padded(def, in), Graph: g}
	err := g.err
	if err == nil && !def.Tuple {
		err = fmt.Errorf("%s: has one result, not %d", def.Name, want)
	}
	if err == nil {
		err = g.checkOperands(n)
	}
	if err == nil {
		err = g.infer(n, Type{})
	}
	if err == nil && len(n.Results) != want {
		err = fmt.Errorf("%s: has %d results, not %d", def.Name, len(n.Results), want)
	}
	if err != nil {
		g.Fail(err)
	}
	values := make([]*Node, max(want, 0))
	for k := range values {
		values[k] = &Node{ID: n.ID + 1 + k, Op: ResultDef, Attrs: ResultAttrs{k}, In: []*Node{n}, Graph: g}
		if err == nil {
			values[k].Type = n.Results[k]
		}
	}
	if err == nil {
		g.Nodes = append(append(g.Nodes, n), values...)
	}
	return values
}

// Values returns the nodes of the values that n's op computes: the result nodes of a tuple node, and n itself for any
// other node. The slice shares memory with the graph.
func (n *Node) Values() []*Node {
	if n.Op.Tuple {
		return n.Graph.Nodes[n.ID+1 : n.ID+1+len(n.Results)]
	}
	return n.Graph.Nodes[n.ID : n.ID+1]
}

// Maker returns the node whose op computes n's value, and the index of that result. For a result node that is its tuple
// node, for any other node n itself and 0.
func (n *Node) Maker() (by *Node, result int) {
	if n.Op == ResultDef {
		return n.In[0], n.Attrs.(ResultAttrs).Index
	}
	return n, 0
}

// Overwrites lists the operands that the value n may overwrite (see Def.InPlace and TupleDef.InPlace). They are
// operands of the node that Maker returns.
func (n *Node) Overwrites() []int {
	by, k := n.Maker()
	switch {
	case !by.Op.Tuple:
		return by.Op.InPlace
	case by.Op.Updates:
		return []int{k}
	case k < len(by.Op.ResultsInPlace):
		return by.Op.ResultsInPlace[k]
	}
	return nil
}

// ResultTypes returns the types of all results of n's op.
func (n *Node) ResultTypes() []Type {
	if n.Op.Tuple {
		return n.Results
	}
	return []Type{n.Type}
}

// tupleLabel joins the labels of a tuple node's results. It shortens a long list.
func (n *Node) tupleLabel() string {
	labels := n.valueLabels()
	if last := len(labels) - 1; last > 3 {
		labels = []string{labels[0], "...", labels[last]}
	}
	return strings.Join(labels, ",")
}

// valueLabels returns the labels of a tuple node's results. It also works for a node that is not in its graph because
// of an error.
func (n *Node) valueLabels() []string {
	labels := make([]string, len(n.Results))
	for k := range labels {
		i := n.ID + 1 + k
		labels[k] = fmt.Sprintf("%%%d", i)
		if i < len(n.Graph.Nodes) && !n.Graph.Nodes[i].Op.Tuple {
			labels[k] = n.Graph.Nodes[i].Label()
		}
	}
	return labels
}

// Infer infers the type of a node from its operands or, for a tuple node, the types of its results. n.ID must be set.
// declared is the type of declared ops. It returns the errors of OpDef.Infer, and an error if n reads a tuple node and
// is not one of its result nodes.
func (n *Node) Infer(declared Type, syms Syms) (t Type, results []Type, err error) {
	if n.Op == ResultDef {
		t, err = n.selected()
		return t, nil, err
	}
	for k, x := range n.Operands() {
		if x.Op.Tuple {
			return Type{}, nil,
				fmt.Errorf(
					"%s: operand %s (%s) is the node of an op with several results; only its result nodes may be read",
					n.OpName(), n.Op.OperandName(k), x.Label())
		}
	}
	types := n.InTypes()
	if n.Op.Tuple {
		results, err = n.Op.InferResults(n.Attrs, types, declared, syms)
		return Type{}, results, err
	}
	t, err = n.Op.Infer(n.Attrs, types, declared, syms)
	return t, nil, err
}

// selected returns the type of a result node, or an error if the node is in the wrong position.
func (n *Node) selected() (Type, error) {
	a, ok := n.Attrs.(ResultAttrs)
	if ok && len(n.In) == 1 {
		if t := n.In[0]; t.Op.Tuple && a.Index >= 0 && a.Index < len(t.Results) && n.ID == t.ID+1+a.Index {
			return t.Results[a.Index], nil
		}
	}
	return Type{}, fmt.Errorf("%s: index %d and position do not fit an op of several results directly before it",
		n.OpName(), a.Index)
}

// checkSelected checks that all result nodes of a tuple node follow it. Infer checks the result nodes themselves.
func (g *Graph) checkSelected(n *Node) error {
	if n.Name != "" || !n.Type.Equal(Type{}) {
		return fmt.Errorf("%s: the node of an op with several results has a name or a type", n.Label())
	}
	for k := range n.Results {
		if i := n.ID + 1 + k; i >= len(g.Nodes) || g.Nodes[i].Op != ResultDef || len(g.Nodes[i].In) != 1 ||
			g.Nodes[i].In[0] != n {
			return fmt.Errorf("%s: no result node for result %d follows it", n.Label(), k)
		}
	}
	return nil
}
