// Package msl translates WGSL to the Metal Shading Language (MSL). The shaders of package kernels are WGSL, so every algorithm is written once.
//
// It supports the part of WGSL that those shaders use: scalars and vectors of bool, i32, u32 and f32, arrays, structs, atomics, storage, workgroup and private
// variables, functions, and one entry point. It also supports the simdgroup matrices of kernels.Limits.Matrices, which WGSL lacks. Anything else is an *Error
// with line and column. WGSL is defined at https://www.w3.org/TR/WGSL/, MSL in Apple's Metal Shading Language Specification.
//
// Where MSL leaves behaviour undefined, the translation keeps the meaning of WGSL: signed integers wrap, a division by 0 returns the dividend, shifts use the
// number of bits modulo 32, conversions from float to integer clamp, workgroup memory starts as zeros, a read beyond an array reads its last element,
// and a write beyond a buffer is dropped. The evaluation order of operands is unspecified, as in C++: no shader may depend on it.
package msl

import "fmt"

// Kernel is a translated entry point. Buffer i of the MSL is binding i of group 0 of the WGSL. One more buffer follows: an array of uints with the sizes of
// the others in bytes.
type Kernel struct {
	Text    string
	Entry   string // the name of the function in Text
	Threads int    // in a threadgroup, all along x
	Buffers int    // number of buffers, not counting the sizes
	Shared  int    // bytes of threadgroup memory 0; Metal requires a multiple of 16, so round up
	Barrier bool   // the kernel has barriers
	// Matrices reports whether the kernel uses simdgroup matrices. Then it needs a GPU of family Apple 7 or later, with simdgroups of 32 threads.
	Matrices bool
}

// Error reports WGSL that is invalid or not supported, at a line and a column that count from 1.
type Error struct {
	Line, Col int
	Msg       string
}

func (e *Error) Error() string { return fmt.Sprintf("wgsl %d:%d: %s", e.Line, e.Col, e.Msg) }

// pos is a place in the source. Lines and columns count from 1.
type pos struct{ line, col int }

// fail panics with an *Error, which Translate recovers and returns.
func fail(p pos, format string, args ...any) {
	panic(&Error{p.line, p.col, fmt.Sprintf(format, args...)})
}

// Translate translates a complete WGSL text with one entry point. The error is an *Error. The same text always gives the same result.
func Translate(wgsl string) (k *Kernel, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Error:
			k, err = nil, p
		default:
			panic(p)
		}
	}()
	return translate(parse(wgsl)), nil
}
