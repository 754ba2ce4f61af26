package msl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// This file translates the functions of simdgroup matrices, each of which is held by 32 threads together. They are
// specified at kernels.Limits.Matrices.

// address translates argument arg of a call, which must be &x, and checks the type of x. want describes x in errors.
// The result is x, without the &.
func (t *translator) address(e *wgsl.Call, arg int, want string, ok func(*wgsl.Type) bool) value {
	v := t.expr(wgsl.Must(e.Address(arg, want)))
	if !ok(v.typ) {
		wgsl.Fail(e.Args[arg].At(), "argument %d of %s is the address of %s; want that of %s", arg+1, e.Of.Name, v.typ,
			want)
	}
	return v
}

// matrix translates an argument &m to m, which must be a matrix of one of the types.
func (t *translator) matrix(e *wgsl.Call, arg int, types ...*wgsl.Type) value {
	t.matrices, t.barrier = e.Pos, true
	want := "a matrix"
	if len(types) == 1 {
		want = types[0].Name
	}
	return t.address(e, arg, want, func(t *wgsl.Type) bool { return slices.Contains(types, t) })
}

// elements translates e.args[1], the address of an array in workgroup memory, and e.args[2], the index of a word, to
// the MSL address at which the elements of the matrix m begin. An element is a word for a matrix of f32, and half a
// word for one of f16. space is the address space of the pointer.
func (t *translator) elements(e *wgsl.Call, m value, space string) string {
	elem, holds, want := "float", wgsl.F32, "an array of f32"
	if m.typ == wgsl.Half8x8 {
		elem, holds, want = "half", wgsl.U32, "an array of u32"
	}
	v := t.address(e, 1, want, func(t *wgsl.Type) bool {
		return t.Kind == wgsl.Array && t.Elem.Scalar() == holds && t.Elem.N != 3
	})
	if !strings.HasPrefix(v.text, "shared->") {
		wgsl.Fail(e.Args[1].At(), "argument 2 of %s; want the address of a variable in workgroup memory", e.Of.Name)
	}
	return fmt.Sprintf("(%s %s*)(&%s) + %s", space, elem, v.text, t.typed(e.Args[2], wgsl.U32).tight())
}

// constant translates an argument that must be a literal.
func (t *translator) constant(e *wgsl.Call, arg int, typ *wgsl.Type) string {
	v := t.typed(e.Args[arg], typ)
	if v.constant == nil {
		wgsl.Fail(e.Args[arg].At(), "argument %d of %s; want a literal", arg+1, e.Of.Name)
	}
	return v.text
}

func loadMatrix(t *translator, e *wgsl.Call) value {
	m := t.matrix(e, 0, wgsl.Matrix8x8, wgsl.Half8x8)
	from := t.elements(e, m, "const threadgroup")
	return value{text: fmt.Sprintf("metal::simdgroup_load(%s, %s, %s, metal::ulong2(0, 0), %s)", m.text, from,
		t.constant(e, 3, wgsl.U32), t.constant(e, 4, wgsl.Bool))}
}

func storeMatrix(t *translator, e *wgsl.Call) value {
	m := t.matrix(e, 0, wgsl.Matrix8x8)
	to := t.elements(e, m, "threadgroup")
	return value{text: fmt.Sprintf("metal::simdgroup_store(%s, %s, %s, metal::ulong2(0, 0), false)", m.text, to,
		t.constant(e, 3, wgsl.U32))}
}

// multiplyAdd translates m = m + a b. Products of halves are added in f32.
func multiplyAdd(t *translator, e *wgsl.Call) value {
	m, a := t.matrix(e, 0, wgsl.Matrix8x8), t.matrix(e, 1, wgsl.Matrix8x8, wgsl.Half8x8)
	b := t.matrix(e, 2, a.typ)
	return value{text: fmt.Sprintf("metal::simdgroup_multiply_accumulate(%s, %s, %s, %s)", m.text, a.text, b.text,
		m.text)}
}
