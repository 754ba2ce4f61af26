package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// unarySpec describes y = f(x) of one element, with attributes A.
type unarySpec[A any] struct {
	name, doc string // doc describes the op
	flops     int64  // per element
	tol       func(A, []ir.Type, ir.Type) ir.Tolerance
	fill      ir.Range // range of float test values

	// float is the function of floats, and integer the function of integers, whose results wrap. If a function is nil,
	// the op does not accept these types.
	float   func(a A, x float64) float64
	integer func(x int64) int64
	logical func(x bool) bool // function of bools; nil if they are not accepted
	asI32   []dtype.DType     // see ir.Def.AsI32
	// bools is set if the result is bool. float then returns 0 or 1.
	bools bool

	with  func(Params) A // makes attributes; nil if the op has none
	check func(A) error  // checks the attributes; nil if any are valid
	attrs []A            // attributes of the test cases; empty means the zero attributes
}

// unary defines y = f(x) on floats.
func unary(name, doc string, flops int64, tol func(NoAttrs, []ir.Type, ir.Type) ir.Tolerance, fill ir.Range,
	f func(float64) float64) *ir.OpDef {
	return defineUnary(unarySpec[NoAttrs]{name: name, doc: doc, flops: flops, tol: tol, fill: fill, float: plain(f)})
}

// plain adapts a function without attributes.
func plain(f func(float64) float64) func(NoAttrs, float64) float64 {
	return func(_ NoAttrs, x float64) float64 { return f(x) }
}

func defineUnary[A any](u unarySpec[A]) *ir.OpDef {
	u.addScalar()
	def := ir.Def[A]{
		Name: u.name, Doc: u.doc, Operands: "x", Elementwise: true, AsI32: u.asI32,
		Infer: func(s ir.Sig[A]) (ir.Type, error) {
			t := s.In[0]
			if !u.takes(t.DType) {
				return ir.Type{}, fmt.Errorf("x is %v; want %s", t, u.wanted())
			}
			if u.check != nil {
				if err := u.check(s.Attrs); err != nil {
					return ir.Type{}, err
				}
			}
			if u.bools {
				t.DType = dtype.Bool
			}
			return t, nil
		},
		Eval: func(a A, in []*tensor.Array, out *tensor.Array) error {
			x := in[0]
			switch {
			case x.Floats != nil && u.bools:
				for i, x := range x.Floats {
					out.Ints[i] = int64(u.float(a, x))
				}
			case x.Floats != nil:
				for i, x := range x.Floats {
					out.Floats[i] = u.float(a, x)
				}
			case x.DType == dtype.Bool:
				for i, x := range x.Ints {
					out.Ints[i] = truth(u.logical(x != 0))
				}
			default:
				for i, x := range x.Ints {
					out.Ints[i] = u.integer(x)
				}
			}
			return nil
		},
		FLOPs: perElement[A](u.flops),
		Tol:   u.tol,
		Cases: func() []ir.Case[A] {
			attrs := u.attrs
			if len(attrs) == 0 {
				attrs = make([]A, 1)
			}
			var types []ir.Type
			for _, t := range []ir.Type{f32(), f32(0), f32(1), f32(7), f32(3, 5, 17), f32(4, 257), f16(33), bf16(2, 19),
				f64(5), i32(3, 7), i64(9),
				u8(33), u32(5), ir.TypeOf(dtype.I8, 19), ir.TypeOf(dtype.I16, 2, 9), bools(17)} {
				if u.takes(t.DType) {
					types = append(types, t)
				}
			}
			var cases []ir.Case[A]
			for i, t := range types {
				c := ir.Case[A]{Attrs: attrs[i%len(attrs)], In: []ir.Type{t}, Fill: []ir.Range{u.fill}}
				if !t.DType.IsFloat() {
					c.Fill = []ir.Range{{Lo: 0, Hi: 100}}
				}
				if t.DType == dtype.Bool {
					c.Fill[0].Hi = 1
				}
				cases = append(cases, c)
			}
			if u.float == nil {
				return cases
			}
			for _, a := range attrs[1:] {
				cases = append(cases, ir.Case[A]{Attrs: a, In: []ir.Type{f32(37)}, Fill: []ir.Range{u.fill}})
			}
			return cases
		},
	}
	if !u.bools {
		def.InPlace = []int{0}
	}
	return ir.Define(def)
}

func (u *unarySpec[A]) takes(d dtype.DType) bool {
	switch {
	case d.IsFloat():
		return u.float != nil
	case d == dtype.Bool:
		return u.logical != nil
	}
	return u.integer != nil
}

func (u *unarySpec[A]) wanted() string {
	switch {
	case u.integer == nil:
		return "a float type"
	case u.float == nil:
		return "bool or an integer type"
	}
	return "a number type"
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// wide is the range of test values for functions that are defined everywhere.
var wide = ir.Range{Lo: -6, Hi: 6}

// lowerUnary registers the lowering of a unary op. f expresses it by other ops.
func lowerUnary(def *ir.OpDef, f func(x *ir.Node) *ir.Node) struct{} {
	return ir.Lower(def, func(_ *ir.Graph, _ *ir.Node, in []*ir.Node) *ir.Node { return f(in[0]) })
}

// lowerWith is like lowerUnary for an op with attributes.
func lowerWith[A any](def *ir.OpDef, f func(x *ir.Node, a A) *ir.Node) struct{} {
	return ir.Lower(def, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node { return f(in[0], n.Attrs.(A)) })
}

// number adds the constant v with x's element type.
func number(v float64, x *ir.Node) *ir.Node { return Const(x.Graph, v, ir.TypeOf(x.Type.DType)) }

// isNumber returns an error if an attribute is NaN or infinite.
func isNumber(name string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v; want a finite number", name, v)
	}
	return nil
}

// isPositive returns an error unless an attribute is finite and above 0.
func isPositive(name string, v float64) error {
	if !(v > 0) || math.IsInf(v, 0) {
		return fmt.Errorf("%s is %v; want a finite number above 0", name, v)
	}
	return nil
}

// discontinuous sets ir.Def.Discontinuous of an op.
func discontinuous(def *ir.OpDef) *ir.OpDef {
	def.Discontinuous = func(any, ir.Type) bool { return true }
	return def
}
