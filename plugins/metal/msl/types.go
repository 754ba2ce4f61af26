package msl

import (
	"fmt"
	"go/constant"
	"math"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// typeNames holds the MSL names of scalars, matrices and atomics.
var typeNames = map[string]string{
	"bool": "bool", "i32": "int", "u32": "uint", "f32": "float",
	"rlx_matrix8x8": "metal::simdgroup_float8x8", "rlx_half8x8": "metal::simdgroup_half8x8",
	"mat4x4<f32>": "metal::float4x4", "atomic<u32>": "metal::atomic_uint",
}

// typeName returns the MSL name of a type that is neither abstract nor an array without a size.
func typeName(t *wgsl.Type) string {
	switch t.Kind {
	case wgsl.Vector:
		return fmt.Sprintf("metal::%s%d", typeName(t.Elem), t.N)
	case wgsl.Array:
		return fmt.Sprintf("rlx_array<%s, %d>", typeName(t.Elem), t.N)
	case wgsl.Structure:
		return msl(t.Name)
	}
	return typeNames[t.Name]
}

// resolve returns the type that a type expression names.
func (t *translator) resolve(e *wgsl.TypeExpr) *wgsl.Type {
	return t.declared(wgsl.Must(t.types.Resolve(e)))
}

// plain resolves a type expression, and fails if values of the type cannot be copied.
func (t *translator) plain(e *wgsl.TypeExpr) *wgsl.Type {
	return t.declared(wgsl.Must(t.types.Constructible(e)))
}

// declared adds the helper that the MSL name of the type needs.
func (t *translator) declared(typ *wgsl.Type) *wgsl.Type {
	for a := typ; a.Kind == wgsl.Array; a = a.Elem {
		if a.N > 0 {
			t.need("rlx_array")
		}
	}
	return typ
}

// fitsBuffer reports whether a buffer may hold values of the type. Their layout must be the same in WGSL and MSL.
func fitsBuffer(t *wgsl.Type) bool {
	switch t.Kind {
	case wgsl.Atomic:
		return true
	case wgsl.Scalar:
		return t != wgsl.Bool
	case wgsl.Vector:
		return t.N != 3 && t.Elem != wgsl.Bool
	case wgsl.Array:
		return t.N > 0 && fitsBuffer(t.Elem)
	case wgsl.Structure:
		for _, f := range t.Fields {
			// Both languages align numbers, vectors and arrays of these alike. Nested structs are left out because no
			// kernel has them.
			s := f.Type
			if !fitsBuffer(s) || s.Kind == wgsl.Structure || s.Kind == wgsl.Array && s.Elem.Kind == wgsl.Structure {
				return false
			}
		}
		return true
	}
	return false
}

// wordsOnly reports whether the type has a fixed size and consists of 32-bit words.
func wordsOnly(t *wgsl.Type) bool {
	switch t.Kind {
	case wgsl.Scalar, wgsl.Vector:
		return t.Scalar() != wgsl.Bool
	case wgsl.Array:
		return t.N > 0 && wordsOnly(t.Elem)
	case wgsl.Structure:
		for _, f := range t.Fields {
			if !wordsOnly(f.Type) {
				return false
			}
		}
	}
	return true
}

// size returns the size and alignment of a type in MSL, in bytes. In WGSL, three elements take less space than four.
func size(t *wgsl.Type) (bytes, align int) {
	switch t.Kind {
	case wgsl.Vector:
		n := 4 * (t.N + t.N%2)
		return n, n
	case wgsl.Matrix, wgsl.Array:
		n, align := size(t.Elem)
		return n * t.N, align
	case wgsl.Structure:
		var types []*wgsl.Type
		for _, f := range t.Fields {
			types = append(types, f.Type)
		}
		return layout(types)
	}
	return 4, 4
}

// layout returns the size and alignment of a struct with the given members, in bytes.
func layout(members []*wgsl.Type) (bytes, align int) {
	align = 1
	for _, m := range members {
		n, a := size(m)
		bytes, align = roundUp(bytes, a)+n, max(align, a)
	}
	return roundUp(bytes, align), align
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// value is a translated expression.
type value struct {
	text     string // in MSL; empty for an abstract value
	typ      *wgsl.Type
	loose    bool           // text needs parentheses as an operand
	ref      bool           // the expression can be assigned to
	constant constant.Value // the value of a constant; otherwise nil
}

// whole returns the value of a constant integer. It returns false for other values, and for constants that do not fit
// in an int64.
func (v value) whole() (int64, bool) { return wgsl.Constant{Type: v.typ, Value: v.constant}.Whole() }

// tight returns the text as an operand, in parentheses if necessary.
func (v value) tight() string {
	if v.loose {
		return "(" + v.text + ")"
	}
	return v.text
}

// constantOf returns a constant of a type, which may be abstract. It fails if c does not fit in the type.
func constantOf(p wgsl.Pos, c constant.Value, t *wgsl.Type) value {
	return literal(wgsl.Must(wgsl.ConstantOf(p, c, t)))
}

// literal returns the value of a constant.
func literal(c wgsl.Constant) value {
	v := value{typ: c.Type, constant: c.Value}
	switch c.Type {
	case wgsl.AbstractInt, wgsl.AbstractFloat:
		return v
	case wgsl.Bool:
		v.text = c.Value.String()
	case wgsl.F32:
		f, _ := constant.Float32Val(constant.ToFloat(c.Value))
		v.text = floatText(f)
	case wgsl.U32:
		v.text = c.Value.ExactString() + "u"
	default:
		v.text = c.Value.ExactString()
		if n, _ := v.whole(); n == math.MinInt32 { // C++ has no literal of type int for it
			v.text, v.loose = "-2147483647 - 1", true
		}
	}
	v.loose = v.loose || strings.HasPrefix(v.text, "-")
	return v
}
