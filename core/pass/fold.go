package pass

import (
	"bytes"
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// Limits of folding. A result larger than foldElems would grow the artifact more than it saves run time. One that takes
// more than foldFLOPs would make compiling slow, because the reference evaluation is slow.
const (
	foldElems = 4 << 20
	foldFLOPs = 4 << 30
)

// fold computes at compile time what depends only on weights and constants. It uses the ops' reference evaluation, so
// formulas exist only once. The result becomes a param, or a constant if all elements are equal:
//
//	b = param : f16[768]
//	c = cast b {to=f32} : f32[768]   ->   c = param "folded/..." : f32[768]
//
// Only the last node of a chain is stored. Views of params stay views, because they cost nothing. fold skips dynamic
// shapes, results beyond the limits, and nodes whose evaluation fails; the run will report the failure. It reads
// weights only if Options.Params is set.
func fold(c *context, g *ir.Graph) (*ir.Graph, error) {
	f := folder{c: c, known: make([]bool, len(g.Nodes)), values: map[*ir.Node]*tensor.Array{}}
	needed := make([]bool, len(g.Nodes)) // by node: whether an output or a node that is not folded reads it
	for i, n := range g.Nodes {
		f.known[i] = f.canKnow(n)
		for _, x := range n.Operands() {
			needed[x.ID] = needed[x.ID] || !f.known[i]
		}
	}
	for _, o := range g.Outputs {
		needed[o.Node.ID] = true
	}
	folds := func(n *ir.Node) bool { return f.known[n.ID] && needed[n.ID] && !isLeaf(n) && !isParamView(n) }
	f.countUses(g, folds)
	defer func() { c.release(folding, f.reserved) }()
	return c.rebuild(g, func(out *ir.Graph, n *ir.Node) *ir.Node {
		if !folds(n) {
			return nil
		}
		by, _ := n.Maker()
		v, err := f.value(n)
		if err == nil {
			f.refused = c.reserve(stores, n.Type.Bytes(nil))
		}
		if f.refused != nil {
			out.Fail(f.refused)
			return nil
		}
		if err != nil {
			f.c.missed(by.OpName(), n, err.Error())
			return nil
		}
		f.c.fired(by.OpName(), n)
		t := v.Tensor()
		f.used(n)
		if s, ok := splat(t); ok {
			return op.Const(out, s, n.Type)
		}
		return c.param(out, t, n.Type)
	})
}

type folder struct {
	c      *context
	known  []bool
	values map[*ir.Node]*tensor.Array // values of params and results that are still needed
	uses   []int                      // by node: how often its value will still be used

	reserved int64 // bytes of memory for values
	refused  error // error from reserving memory, or from a compilation that is stopped
}

// countUses counts how often each value will be used: once for each node that is computed from it, and once if it is
// stored itself.
func (f *folder) countUses(g *ir.Graph, folds func(*ir.Node) bool) {
	f.uses = make([]int, len(g.Nodes))
	for _, n := range g.Nodes {
		if folds(n) {
			f.uses[n.ID]++
		}
		if f.known[n.ID] && !n.Is(ir.ResultDef) {
			for _, x := range n.Operands() {
				f.uses[x.ID]++
			}
		}
	}
}

// used counts a use of n's value, and drops the value after its last use. The values of all folded weights, and all
// values in between, may be larger than the memory.
func (f *folder) used(n *ir.Node) {
	if f.uses[n.ID]--; f.uses[n.ID] <= 0 && f.values[n] != nil {
		delete(f.values, n)
		f.release(tensor.ArrayBytes(n.Type.DType, n.Graph.Syms.MaxElems(n.Type)))
	}
}

func (f *folder) release(bytes int64) {
	f.reserved -= bytes
	f.c.release(folding, bytes)
}

// canKnow reports whether a node can be folded. It must be called for the operands first. A tuple node stands for its
// results.
func (f *folder) canKnow(n *ir.Node) bool {
	switch {
	case n.Is(op.ParamDef):
		_, folded := f.c.report.Folded[n.Name]
		return f.c.params != nil && (f.c.mutable == nil || !f.c.mutable(n.Name)) || folded
	case n.Is(ir.ResultDef):
		return f.known[n.In[0].ID]
	case n.Op.Effects || n.Op.Updates || n.Op.Eval == nil || n.Op.Nested || n.Is(op.CopyDef):
		return false
	}
	types := n.ResultTypes()
	for _, t := range types {
		if elems, ok := t.Shape.Numel(); !ok || !t.Shape.IsStatic() || elems.Const > foldElems {
			return false
		}
	}
	if n.Op.FLOPs(n.Attrs, n.InTypes(), types...) > foldFLOPs {
		return false
	}
	for _, x := range n.Operands() {
		// A packed weight stays packed: its values would be a second and larger copy of it.
		if !f.known[x.ID] || x.Type.DType.IsPacked() {
			return false
		}
	}
	return true
}

func (f *folder) value(n *ir.Node) (*tensor.Array, error) {
	if v := f.values[n]; v != nil {
		return v, nil
	}
	by, result := n.Maker()
	results, err := f.compute(by)
	if f.refused != nil {
		return nil, f.refused
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.Label(), err)
	}
	for k, v := range by.Values() {
		f.values[v] = results[k]
		if f.uses[v.ID] == 0 {
			f.used(v)
		}
	}
	return results[result], nil
}

// reserve reserves memory for the results of n and for computing them. It returns the memory for computing, which
// includes an encoded copy of a param.
func (f *folder) reserve(n *ir.Node) (scratch int64, err error) {
	_, scratch = n.EvalMemory()
	bytes := scratch
	for _, t := range n.ResultTypes() {
		bytes += tensor.ArrayBytes(t.DType, n.Graph.Syms.MaxElems(t))
		if n.Is(op.ParamDef) {
			bytes += t.Bytes(nil)
			scratch += t.Bytes(nil)
		}
	}
	if f.refused = f.c.reserve(folding, bytes); f.refused == nil {
		f.reserved += bytes
	}
	return scratch, f.refused
}

func (f *folder) compute(n *ir.Node) ([]*tensor.Array, error) {
	if n.Is(op.ParamDef) {
		scratch, err := f.reserve(n)
		if err != nil {
			return nil, err
		}
		defer f.release(scratch)
		if t, ok := f.c.report.Folded[n.Name]; ok {
			return []*tensor.Array{t.Array()}, nil
		}
		v, err := f.c.params.Param(n.Name)
		return []*tensor.Array{v}, err
	}
	in := make([]*tensor.Array, len(n.In))
	for i, x := range n.Operands() {
		var err error
		if in[i], err = f.value(x); err != nil {
			return nil, err
		}
	}
	scratch, err := f.reserve(n)
	if err != nil {
		return nil, err
	}
	defer f.release(scratch)
	types := n.ResultTypes()
	out := make([]*tensor.Array, len(types))
	for k, t := range types {
		out[k] = tensor.NewArray(t.DType, t.Shape.Eval(nil)...)
	}
	if err := n.Op.Eval(n.Attrs, in, out...); err != nil {
		return nil, err
	}
	for _, x := range out {
		if x.DType == dtype.F32 { // as a step of a run does, unlike the reference; a sort may depend on it
			x.Round()
		}
	}
	for _, x := range n.Operands() {
		f.used(x)
	}
	return out, nil
}

// isLeaf reports whether folding cannot make n simpler. An iota becomes a param later, in materialize.
func isLeaf(n *ir.Node) bool { return n.Is(op.ParamDef, op.ConstDef, op.IotaDef) }

// isParamView reports whether n is a view of a param, possibly through other views.
func isParamView(n *ir.Node) bool {
	for !n.Is(op.ParamDef) {
		if _, view := n.View(); !view {
			return false
		}
		n = n.In[0]
	}
	return true
}

// splat returns the value that all elements have, if they are equal. -0 and 0 differ. It returns false for NaN.
func splat(t tensor.Tensor) (float64, bool) {
	size := t.DType.Size()
	if len(t.Data) == 0 || !bytes.Equal(t.Data[size:], t.Data[:len(t.Data)-size]) {
		return 0, false
	}
	first := tensor.Tensor{DType: t.DType, Data: t.Data[:size]}.Array()
	v := first.At(0)
	// Integers beyond 2^53 cannot be represented.
	return v, v == v && !(first.Ints != nil && math.Abs(v) > 1<<53)
}
