// Package ptx translates WGSL to PTX, the assembly language that the driver of an NVIDIA GPU compiles. The shaders of
// package kernels are WGSL, so every algorithm is written once. PTX is defined in NVIDIA's Parallel Thread Execution
// ISA.
//
// Package wgsl reads the shaders and says which part of WGSL they may use. Where this package knows less, the error is
// a *wgsl.Error, too.
//
// # How a kernel is called
//
// A text has one .entry, Kernel.Entry. Its parameters are, for each binding of the WGSL in order, a .u64 with the
// address of the binding in device memory and a .u64 with its length in bytes. An address is a multiple of 16. The last
// binding, which holds the shader's parameters, is read through the read-only cache: nothing may write it while the
// kernel runs. Other bindings may overlap. A block has Kernel.Threads threads along x, which .reqntid states, and a
// grid has the workgroups of a dispatch along x and y. Up to 48 KiB of shared memory are declared in the text; beyond
// that, the text declares shared memory without a size, and the launch must pass Kernel.Dynamic bytes.
//
// # What a kernel computes
//
// All functions are called in place. Vectors, structs and arrays of a function are registers, one per scalar. Numbers
// are computed as the text says: products and sums are not fused, divisions and square roots are correctly rounded, and
// denormals are kept. Integers wrap, a division by 0 returns the dividend, shifts use the number of bits modulo 32,
// conversions from float to integer clamp (NaN gives 0), workgroup memory starts as zeros, a read beyond an array reads
// its last element, a write beyond it is dropped in a buffer and goes to the last element elsewhere. The evaluation
// order of operands is unspecified: no shader may depend on it. exp, exp2 and log have errors of at most a few units in
// the last place.
package ptx

import "github.com/rlx-go/rlx/plugins/internal/wgsl"

// Kernel is a translated entry point.
type Kernel struct {
	Text    string
	Entry   string // the name of the entry in Text
	Threads int    // threads of a block, all along x
	Buffers int    // number of bindings
	Shared  int    // bytes of shared memory that Text declares
	Dynamic int    // bytes of shared memory that the launch must pass; more than 48 KiB if it is not 0
}

// Translate translates a complete WGSL text with one entry point. The error is a *wgsl.Error. The same text always
// gives the same result.
func Translate(src string) (k *Kernel, err error) {
	defer wgsl.Catch(&err)
	return translate(wgsl.Must(wgsl.Parse(src))), nil
}
