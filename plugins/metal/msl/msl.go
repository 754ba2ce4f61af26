// Package msl translates WGSL to the Metal Shading Language (MSL). The shaders of package kernels are WGSL, so every
// algorithm is written once.
//
// Package wgsl reads the shaders and says which part of WGSL they may use. Where this package knows less, or MSL lacks
// something, the error is a *wgsl.Error, too. MSL is defined in Apple's Metal Shading Language Specification.
//
// Where MSL leaves behaviour undefined, the translation keeps the meaning of WGSL: signed integers wrap, a division by
// 0 returns the dividend, shifts use the number of bits modulo 32, conversions from float to integer clamp, workgroup
// memory starts as zeros, a read beyond an array reads its last element, and a write beyond a buffer is dropped. The
// evaluation order of operands is unspecified, as in C++: no shader may depend on it.
package msl

import "github.com/rlx-go/rlx/plugins/internal/wgsl"

// Kernel is a translated entry point. Buffer i of the MSL is binding i of group 0 of the WGSL. One more buffer follows:
// an array of uints with the sizes of the others in bytes.
type Kernel struct {
	Text    string
	Entry   string // the name of the function in Text
	Threads int    // in a threadgroup, all along x
	Buffers int    // number of buffers, not counting the sizes
	Shared  int    // bytes of threadgroup memory 0; Metal requires a multiple of 16, so round up
	Barrier bool   // the kernel has barriers
	// Matrices reports whether the kernel uses simdgroup matrices. Then it needs a GPU of family Apple 7 or later, with
	// simdgroups of 32 threads.
	Matrices bool
}

// Translate translates a complete WGSL text with one entry point. The error is a *wgsl.Error. The same text always
// gives the same result.
func Translate(src string) (k *Kernel, err error) {
	defer wgsl.Catch(&err)
	return translate(wgsl.Must(wgsl.Parse(src))), nil
}
