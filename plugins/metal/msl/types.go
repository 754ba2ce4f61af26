package msl

import (
	"fmt"
	"go/constant"
	"math"
	"strings"
)

// typ is a resolved type. Types with the same name are the same type.
type typ struct {
	name   string // in WGSL
	msl    string
	kind   kind
	elem   *typ // of a vector, a matrix (its columns), an array or an atomic
	n      int  // elements of a vector or an array, or columns of a matrix; 0 for an array without a size
	fields []typedField
}

type typedField struct {
	name string
	typ  *typ
}

type kind int

const (
	scalar kind = iota
	vector
	matrix // mat4x4<f32>
	array
	structure
	atomic
	shared8x8 // a simdgroup matrix, which 32 threads hold together
)

var (
	boolean   = &typ{name: "bool", msl: "bool"}
	i32       = &typ{name: "i32", msl: "int"}
	u32       = &typ{name: "u32", msl: "uint"}
	f32       = &typ{name: "f32", msl: "float"}
	matrix8x8 = &typ{name: "rlx_matrix8x8", msl: "metal::simdgroup_float8x8", kind: shared8x8}
	half8x8   = &typ{name: "rlx_half8x8", msl: "metal::simdgroup_half8x8", kind: shared8x8}
	// Literals without a suffix have these types until an operand or an assignment determines a concrete one.
	abstractInt   = &typ{name: "a whole number"}
	abstractFloat = &typ{name: "a number"}
)

var scalars = map[string]*typ{"bool": boolean, "i32": i32, "u32": u32, "f32": f32}

func (t *typ) String() string { return t.name }

func (t *typ) is(o *typ) bool { return t.name == o.name }

func (t *typ) abstract() bool { return t == abstractInt || t == abstractFloat }

// scalar returns the element type of a vector, or the type itself.
func (t *typ) scalar() *typ {
	if t.kind == vector {
		return t.elem
	}
	return t
}

func (t *typ) numeric() bool {
	s := t.scalar()
	return s == i32 || s == u32 || s == f32
}

func (t *typ) integer() bool { return t.numeric() && t.scalar() != f32 }

// like returns e if t is a scalar, and otherwise a vector of e with as many elements as t.
func (t *typ) like(e *typ) *typ {
	if t.kind == vector {
		return vectorOf(e, t.n)
	}
	return e
}

func vectorOf(e *typ, n int) *typ {
	return &typ{name: fmt.Sprintf("vec%d<%s>", n, e.name), msl: fmt.Sprintf("metal::%s%d", e.msl, n), kind: vector, elem: e, n: n}
}

// fitsBuffer reports whether a buffer may hold values of the type. Their layout must be the same in WGSL and MSL.
func (t *typ) fitsBuffer() bool {
	switch t.kind {
	case scalar:
		return t != boolean
	case vector:
		return t.n != 3 && t.elem != boolean
	case array:
		return t.n > 0 && t.elem.fitsBuffer()
	case structure:
		for _, f := range t.fields {
			// Both languages align numbers, vectors and arrays of these alike. Nested structs are left out because no kernel has them.
			if s := f.typ; !s.fitsBuffer() || s.kind == structure || s.kind == array && s.elem.kind == structure {
				return false
			}
		}
		return true
	}
	return false
}

// size returns the size and alignment of a type in MSL, in bytes.
func (t *typ) size() (bytes, align int) {
	switch t.kind {
	case vector:
		n := 4 * (t.n + t.n%2) // three elements take as much space as four
		return n, n
	case matrix, array:
		n, align := t.elem.size()
		return n * t.n, align
	case structure:
		var types []*typ
		for _, f := range t.fields {
			types = append(types, f.typ)
		}
		return layout(types)
	}
	return 4, 4
}

// layout returns the size and alignment of a struct with the given members, in bytes.
func layout(members []*typ) (bytes, align int) {
	align = 1
	for _, m := range members {
		n, a := m.size()
		bytes, align = roundUp(bytes, a)+n, max(align, a)
	}
	return roundUp(bytes, align), align
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// resolve returns the type that a type expression names.
func (t *translator) resolve(e *typeExpr) *typ {
	args := func(n int) {
		if len(e.args) != n {
			fail(e.pos, "type %s has %d arguments; want %d", e.name, len(e.args), n)
		}
	}
	if e.n != nil {
		fail(e.pos, "a number; want a type")
	}
	if s := scalars[e.name]; s != nil {
		args(0)
		return s
	}
	if s := t.structs[e.name]; s != nil {
		args(0)
		return s
	}
	switch e.name {
	case "vec2", "vec3", "vec4":
		args(1)
		elem := t.resolve(e.args[0])
		if elem.kind != scalar {
			fail(e.pos, "a vector of %s; want bool, i32, u32 or f32", elem)
		}
		return vectorOf(elem, int(e.name[3]-'0'))
	case "mat4x4":
		args(1)
		if t.resolve(e.args[0]) != f32 {
			fail(e.pos, "a matrix of %s; want f32", e.args[0].name)
		}
		return &typ{name: "mat4x4<f32>", msl: "metal::float4x4", kind: matrix, elem: vectorOf(f32, 4), n: 4}
	case "rlx_matrix8x8":
		args(0)
		return matrix8x8
	case "rlx_half8x8":
		args(0)
		return half8x8
	case "atomic":
		args(1)
		elem := t.resolve(e.args[0])
		if elem != u32 {
			fail(e.pos, "an atomic %s; want u32", elem)
		}
		return &typ{name: "atomic<" + elem.name + ">", msl: "metal::atomic_uint", kind: atomic, elem: elem}
	case "array":
		if len(e.args) != 1 && len(e.args) != 2 {
			fail(e.pos, "type array has %d arguments; want 1 or 2", len(e.args))
		}
		a := &typ{kind: array, elem: t.resolve(e.args[0])}
		if a.elem.kind == array && a.elem.n == 0 {
			fail(e.pos, "an array of %s", a.elem)
		}
		if len(e.args) == 1 {
			a.name = "array<" + a.elem.name + ">"
			return a
		}
		a.n = t.count(e.args[1])
		if bytes, _ := a.elem.size(); bytes > mostBytes/a.n {
			fail(e.pos, "an array of more than %d bytes", mostBytes)
		}
		a.name = fmt.Sprintf("array<%s, %d>", a.elem.name, a.n)
		a.msl = fmt.Sprintf("rlx_array<%s, %d>", a.elem.msl, a.n)
		t.need("rlx_array")
		return a
	}
	fail(e.pos, "type %s is not declared or not supported", e.name)
	return nil
}

// Limits of arrays with a fixed size. Only arrays in buffers may have no size.
const (
	mostElements = 1 << 16
	mostBytes    = 1 << 20
)

// count evaluates the size of an array type.
func (t *translator) count(e *typeExpr) int {
	x := e.n
	if x == nil {
		if len(e.args) > 0 {
			fail(e.pos, "a type; want a number")
		}
		x = &name{e.pos, e.name}
	}
	v := t.expr(x)
	n, ok := v.whole()
	if !ok || n < 1 || n > mostElements {
		fail(e.pos, "the size of an array is not a constant from 1 to %d", mostElements)
	}
	return int(n)
}

// value is a translated expression.
type value struct {
	text  string // in MSL; empty for an abstract value
	typ   *typ
	loose bool           // text needs parentheses as an operand
	ref   bool           // the expression can be assigned to
	c     constant.Value // the value of a constant; otherwise nil
}

// whole returns the value of a constant integer. It returns false for other values, and for constants that do not fit in an int64.
func (v value) whole() (int64, bool) {
	if v.c == nil || v.c.Kind() != constant.Int {
		return 0, false
	}
	return constant.Int64Val(v.c)
}

// tight returns the text as an operand, in parentheses if necessary.
func (v value) tight() string {
	if v.loose {
		return "(" + v.text + ")"
	}
	return v.text
}

// rangeOf returns the smallest and largest value of i32 or u32.
func rangeOf(t *typ) (least, most int64) {
	if t == u32 {
		return 0, math.MaxUint32
	}
	return math.MinInt32, math.MaxInt32
}

// constantOf returns a constant of a type, which may be abstract. It fails if c does not fit in the type.
func constantOf(p pos, c constant.Value, t *typ) value {
	v := value{typ: t, c: c}
	if t.abstract() {
		if _, ok := v.whole(); t == abstractInt && !ok {
			fail(p, "%s does not fit in 64 bits", c)
		}
		return v
	}
	switch t {
	case boolean:
		v.text = c.String()
		return v
	case f32:
		f, _ := constant.Float32Val(constant.ToFloat(c))
		if f != f || f-f != 0 {
			fail(p, "%s does not fit in f32", c)
		}
		v.text = floatText(f)
	default:
		c = constant.ToInt(c)
		n, exact := int64(0), false
		if c.Kind() == constant.Int {
			n, exact = constant.Int64Val(c)
		}
		least, most := rangeOf(t)
		if !exact || n < least || n > most {
			fail(p, "%s does not fit in %s", v.c, t)
		}
		v.c = c
		switch {
		case t == u32:
			v.text = fmt.Sprintf("%du", n)
		case n == math.MinInt32: // C++ has no literal of type int for it
			v.text, v.loose = "-2147483647 - 1", true
		default:
			v.text = fmt.Sprint(n)
		}
	}
	v.loose = v.loose || strings.HasPrefix(v.text, "-")
	return v
}
