package msl

import (
	"fmt"
	"strings"
)

// This file has the functions of matrices that 32 threads share. Package kernels defines them, at Limits.Matrices.

// address translates an argument &x, and checks the type of x.
func (t *translator) address(e *call, arg int, want string, ok func(*typ) bool) value {
	u, isAddress := e.args[arg].(*unary)
	if !isAddress || u.op != "&" {
		fail(e.args[arg].at(), "argument %d of %s; want the address of %s", arg+1, e.of.name, want)
	}
	v := t.expr(u.x)
	if !ok(v.typ) {
		fail(u.pos, "argument %d of %s is the address of %s; want that of %s", arg+1, e.of.name, v.typ, want)
	}
	return v
}

// matrix translates an argument &m, where m is a matrix.
func (t *translator) matrix(e *call, arg int) string {
	t.matrices, t.barrier = e.pos, true
	return t.address(e, arg, "a matrix", func(t *typ) bool { return t == matrix8x8 }).text
}

// words translates the arguments &memory and at to the address of a word.
func (t *translator) words(e *call) string {
	v := t.address(e, 1, "an array of f32", func(t *typ) bool { return t.kind == array && t.elem.scalar() == f32 && t.elem.n != 3 })
	if !strings.HasPrefix(v.text, "shared->") {
		fail(e.args[1].at(), "argument 2 of %s; want the address of a variable in workgroup memory", e.of.name)
	}
	return "&" + v.text + ") + " + t.typed(e.args[2], u32).tight()
}

// constant translates an argument that has to be a literal.
func (t *translator) constant(e *call, arg int, typ *typ) string {
	v := t.typed(e.args[arg], typ)
	if v.c == nil {
		fail(e.args[arg].at(), "argument %d of %s; want a literal", arg+1, e.of.name)
	}
	return v.text
}

func loadMatrix(t *translator, e *call) value {
	m, from := t.matrix(e, 0), t.words(e)
	return value{text: fmt.Sprintf("metal::simdgroup_load(%s, (const threadgroup float*)(%s, %s, metal::ulong2(0, 0), %s)",
		m, from, t.constant(e, 3, u32), t.constant(e, 4, boolean))}
}

func storeMatrix(t *translator, e *call) value {
	m, to := t.matrix(e, 0), t.words(e)
	return value{text: fmt.Sprintf("metal::simdgroup_store(%s, (threadgroup float*)(%s, %s, metal::ulong2(0, 0), false)", m, to, t.constant(e, 3, u32))}
}

func multiplyAdd(t *translator, e *call) value {
	m := t.matrix(e, 0)
	return value{text: fmt.Sprintf("metal::simdgroup_multiply_accumulate(%s, %s, %s, %s)", m, t.matrix(e, 1), t.matrix(e, 2), m)}
}
