// Package msl translates WGSL to the Metal Shading Language (MSL), so that the shaders of package kernels, which are WGSL, are the only
// source of every algorithm.
//
// It knows the part of WGSL that those shaders are written in: scalars and vectors of bool, i32, u32 and f32, arrays, structs, atomics,
// storage, workgroup and private variables, functions, and one entry point. Everything else is an *Error with its line and column. WGSL
// is defined at https://www.w3.org/TR/WGSL/, MSL in Apple's Metal Shading Language Specification; neither is needed at run time.
//
// The meaning of WGSL is kept where MSL leaves it open: signed integers wrap, a division by 0 returns the dividend, a number of bits to
// shift by is taken modulo 32, a float that is converted to an integer is clamped, workgroup memory begins as zeros, and an index beyond an array
// is that of its last element, except that a buffer is not written then. One thing is not kept: the order in which the operands of an expression
// are evaluated is that of C++, which is open. No shader may depend on it.
package msl

import "fmt"

// Kernel is a translated entry point. Buffer i of the MSL is binding i of group 0 of the WGSL; the buffer after them has their sizes in bytes, a uint
// for each.
type Kernel struct {
	Text    string
	Entry   string // the name of the function in Text
	Threads int    // of a threadgroup, along x
	Buffers int    // without that of the sizes
	Shared  int    // bytes of threadgroup memory, which is argument 0 of its kind; Metal wants the next multiple of 16
	Barrier bool   // threads wait for each other
}

// Error is a place in the WGSL that is not valid, or that this package does not know.
type Error struct {
	Line, Col int
	Msg       string
}

func (e *Error) Error() string { return fmt.Sprintf("wgsl %d:%d: %s", e.Line, e.Col, e.Msg) }

// pos is a place in the source, counted from 1.
type pos struct{ line, col int }

// fail ends the translation with an *Error, which Translate returns.
func fail(p pos, format string, args ...any) {
	panic(&Error{p.line, p.col, fmt.Sprintf(format, args...)})
}

// Translate translates a complete WGSL text with one entry point. The same text gives the same result.
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
