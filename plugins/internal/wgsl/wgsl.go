// Package wgsl reads WGSL, the language of the shaders in package kernels, for GPU backends that translate it to
// another language: Parse makes a syntax tree, Resolve the types that the tree names, and methods of the tree give the
// constants, the types of operands and the types of results. It knows no other language and no backend. WGSL is defined
// at https://www.w3.org/TR/WGSL/.
//
// It supports the part of WGSL that those shaders use: scalars, vectors and one kind of matrix, arrays, structs,
// atomics, functions, and global variables in the address spaces storage, workgroup and private. Anything else is an
// *Error with line and column. It also knows the types of the simdgroup matrices of kernels.Limits.Matrices, which WGSL
// lacks.
package wgsl

import "fmt"

// Error reports WGSL that is invalid or not supported.
type Error struct {
	Pos
	Msg string
}

func (e *Error) Error() string { return fmt.Sprintf("wgsl %d:%d: %s", e.Line, e.Col, e.Msg) }

// Pos is a place in the source. Lines and columns count from 1; columns are bytes.
type Pos struct{ Line, Col int }

// At returns the place. Every node of the tree embeds the place of its first token, if its comment names no other.
func (p Pos) At() Pos { return p }

// Errorf returns an error at a place.
func (p Pos) Errorf(format string, args ...any) *Error {
	return &Error{p, fmt.Sprintf(format, args...)}
}

// Fail panics with an *Error, which Catch recovers.
func Fail(p Pos, format string, args ...any) { Check(p.Errorf(format, args...)) }

// Must returns v. If err is not nil, it panics with it, and Catch recovers it.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check panics with err, which Catch recovers, if it is not nil.
func Check(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// failed is the panic of Fail, Must and Check.
type failed struct{ error }

// Catch stores the error of a panic of Fail, Must or Check into err. A function that may panic so defers it.
func Catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case failed:
		*err = p.error
	default:
		panic(p)
	}
}
