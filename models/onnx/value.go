package onnx

import (
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// maxKnown bounds the number of elements of values that the import computes.
const maxKnown = 1 << 12

// value is a tensor of the ONNX graph during the import. It has a node, or its elements are known, or both.
type value struct {
	name string
	typ  ir.Type
	node *ir.Node     // nil until it is needed, if the elements are known
	init *initializer // the elements are those of the file or of the import
	// elems has the elements if they are known up to the sizes of the model. They are integers, or quotients of them
	// where a model computes sizes with floats. It is nil if they are not known.
	elems []elem
	// narrow is the ONNX type of integers that are stored in a wider type; 0 for all others. Arithmetic wraps in it.
	narrow int32
	bound  *bound // which rows are used, if not all are
	// decided has, for a condition on sizes, numbers each of which makes it known where it cannot be negative: n-2 and
	// -n for n = 1.
	decided []ir.Dim
	// tensors are those of a sequence, which has no type, node or elements. Nil for a tensor.
	tensors []*value
}

// elem is num/den. den is positive.
type elem struct {
	num ir.Dim
	den int64
	// rows is set if the element is a number of rows that depends on the data, i64[]. num is the largest.
	rows *ir.Node
}

// rowsOrNil is rows, also of a value that is absent.
func (v *value) rowsOrNil() (at int, rows *ir.Node) {
	if v == nil {
		return 0, nil
	}
	return v.rows()
}

// rows returns the first element that is a number of rows that depends on the data, and where it is; nil if there is
// none.
func (v *value) rows() (at int, rows *ir.Node) {
	for i, e := range v.elems {
		if e.rows != nil {
			return i, e.rows
		}
	}
	return 0, nil
}

func integer(d ir.Dim) elem { return elem{num: d, den: 1} }

// isKnown reports whether the elements are known as numbers.
func (v *value) isKnown() bool { return v.init != nil }

// numel returns the number of elements, or -1 if it depends on sizes.
func (v *value) numel() int64 {
	n, ok := v.typ.Shape.Numel()
	if !ok || !n.IsStatic() {
		return -1
	}
	return n.Const
}

// made returns a value whose elements are those of an array.
func made(a *tensor.Array) *value {
	t := a.Tensor()
	shape := make(ir.Shape, len(a.Shape))
	for i, n := range a.Shape {
		shape[i] = ir.Static(int64(n))
	}
	typ := ir.Type{DType: a.DType, Shape: shape}
	return &value{typ: typ, init: &initializer{typ: typ, made: &t}}
}

// arrayOf returns an array of floats.
func arrayOf(d dtype.DType, list []float64, shape ...int) *tensor.Array {
	a := tensor.NewArray(d, shape...)
	copy(a.Floats, list)
	return a
}

// sizes returns a value whose elements are sizes, of type i64 or as given.
func sizes(d dtype.DType, shape ir.Shape, elems []elem) *value {
	v := &value{typ: ir.Type{DType: d, Shape: shape}, elems: elems}
	a := tensor.NewArray(d, shape.Eval(nil)...)
	for i, e := range elems {
		if !e.num.IsStatic() || e.rows != nil {
			return v
		}
		if d.IsFloat() {
			a.Floats[i] = float64(e.num.Const) / float64(e.den)
		} else {
			a.Ints[i] = e.num.Const
		}
	}
	return made(a) // no symbols
}

// list returns the elements as quotients of sizes. ok is false if they are not known or are other floats.
func (v *value) list() (out []elem, ok bool) {
	if v.elems != nil {
		return v.elems, true
	}
	if n := v.numel(); !v.isKnown() || n < 0 || n > maxKnown {
		return nil, false
	}
	t, err := v.init.read()
	if err != nil {
		return nil, false
	}
	a := t.Array()
	out = make([]elem, a.Len())
	for i := range out {
		if a.Ints != nil {
			if x := a.Ints[i]; x > ir.MaxCoef || x < -ir.MaxCoef {
				out[i] = integer(ir.Static(max(min(x, ir.MaxCoef), -ir.MaxCoef))) // "to the end", in slices
			} else {
				out[i] = integer(ir.Static(x))
			}
			continue
		}
		if out[i], ok = quotient(a.Floats[i]); !ok {
			return nil, false
		}
	}
	return out, true
}

// quotient returns a float that is an integer, or the reciprocal of an integer, as an exact element.
func quotient(x float64) (elem, bool) {
	if x == float64(int64(x)) && x < 1<<40 && x > -1<<40 {
		return integer(ir.Static(int64(x))), true
	}
	if d := 1 / x; d == float64(int64(d)) && d > 0 && d < 1<<20 {
		return elem{num: ir.Static(1), den: int64(d)}, true
	}
	return elem{}, false
}

// at returns the node of a value, which it makes if the value is known.
func (b *builder) at(v *value) *ir.Node {
	if v.node != nil && v.node.Graph == b.g {
		return v.node
	}
	switch {
	case v.tensors != nil:
		b.fail("needs the sequence %q when it runs; only sequences whose number of tensors is known are supported", v.name)
	case v.node != nil:
		panic("BUG: onnx: value of another graph")
	case v.init != nil:
		v.node = b.constant(v)
	default:
		v.node = b.runtimeSizes(v)
	}
	return v.node
}

// constant returns a node for the elements of v: a const if they are all equal, else a param.
func (b *builder) constant(v *value) *ir.Node {
	if n := v.numel(); n <= maxKnown {
		t, err := v.init.read()
		if err != nil {
			b.g.Fail(err)
		}
		if a := t.Array(); a.Len() > 0 {
			first, same := a.At(0), true
			for i := range a.Len() {
				same = same && math.Float64bits(a.At(i)) == math.Float64bits(first)
			}
			if same && float64(int64(first)) == first && (a.Ints == nil || a.Ints[0] == int64(first)) ||
				same && a.Ints == nil {
				return op.Const(b.g, first, v.typ)
			}
		}
		if n == 0 {
			return op.Const(b.g, 0, v.typ)
		}
	}
	name := b.paramName(v)
	b.model.weights.params[name] = v.init
	return op.Param(b.g, name, v.typ)
}

// runtimeSizes returns a node that computes sizes when the program runs. The size d is the sum of d ones.
func (b *builder) runtimeSizes(v *value) *ir.Node {
	parts := make([]*ir.Node, len(v.elems))
	for i, e := range v.elems {
		t := ir.TypeOf(dtype.I64, 1)
		size, least := e.num, int64(0)
		if lo, _ := b.g.Syms.Bounds(e.num); lo < 0 { // a number of ones cannot be negative
			size, least = b.above(e.num, lo), lo
		}
		if e.rows != nil {
			parts[i] = op.Reshape(cast(e.rows, dtype.I64), t.Shape)
		} else if size.IsStatic() {
			parts[i] = op.Const(b.g, float64(e.num.Const), t)
		} else {
			ones := op.Const(b.g, 1, ir.Type{DType: dtype.I64, Shape: ir.Shape{size}})
			parts[i] = op.ReduceSum(ones, true, 0)
		}
		if least < 0 && !size.IsStatic() && e.rows == nil {
			parts[i] = op.Add(parts[i], op.Const(b.g, float64(least), t))
		}
		if v.typ.DType.IsFloat() {
			parts[i] = op.Cast(parts[i], v.typ.DType)
			if e.den != 1 {
				parts[i] = op.Div(parts[i], op.Const(b.g, float64(e.den), ir.TypeOf(v.typ.DType, 1)))
			}
		} else if v.typ.DType != dtype.I64 {
			parts[i] = op.Cast(parts[i], v.typ.DType)
		}
	}
	all := parts[0]
	if len(parts) > 1 {
		all = op.Concat(0, parts...)
	}
	return op.Reshape(all, v.typ.Shape)
}

// above returns d-lo.
func (b *builder) above(d ir.Dim, lo int64) ir.Dim {
	size, ok := d.Sub(ir.Static(lo))
	if _, hi := b.g.Syms.Bounds(size); !ok || hi > ir.MaxDim {
		b.fail("needs the number %v when it runs, which may be as small as %d; this is not supported", d, lo)
	}
	return size
}

// clone returns a copy of v under another name.
func (v *value) clone(name string) *value {
	c := *v
	c.name = name
	c.elems, c.tensors = slices.Clone(v.elems), slices.Clone(v.tensors)
	return &c
}
