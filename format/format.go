// Package format reads and writes artifacts, the .rlx files. An artifact is a small container with digests, msgpack
// sections that describe programs, and the weights as raw bytes. spec/format.md defines the format for other
// implementations.
//
// Write makes an artifact. Open and Verify read one and return a Verified, which no other package can make. They check
// sizes before they allocate, and verify everything before use. Every check has a number, and a failed check k returns
// the error RLX4000+k (checks.go).
//
// The package imports only core/{diag,dtype,ir,op,program,task} and internal/atomicfile: no compiler, plugin, model or
// command.
package format

import (
	"math"

	_ "github.com/rlx-go/rlx/core/op" // registers the ops that artifacts may name
	"github.com/rlx-go/rlx/core/program"
)

// Versions. A reader accepts every minor version of its major version if it knows the required features.
const (
	Major  = 1
	Minor  = 0
	Opset  = 1 // the ops, their attributes and meanings
	Schema = 5 // of each msgpack section
)

// Sizes and alignments of the container, in bytes.
const (
	HeaderSize   = 128
	EntrySize    = 80
	SectionAlign = 64       // of msgpack sections and CHNK
	WeightsAlign = 64 << 10 // alignment of WGTS: the largest page size in use, so that it can be mapped anywhere
	ChunkSize    = 4 << 20  // of WGTS, each with a digest
	digestSize   = 32

	// HugeAlign is the alignment of a WGTS section of HugeWeights bytes or more. It is the size of a huge page on amd64
	// and arm64. Linux can then cache and map the section in huge pages, and reading it takes a TLB entry for each 2
	// MiB instead of each 4 KiB.
	HugeAlign   = 2 << 20
	HugeWeights = 64 << 20

	// TensorAlign is the alignment of tensors in WGTS, in bytes. Tensors of LargeTensor bytes or more are aligned to
	// LargeAlign, so that a GPU can use their pages without a copy.
	TensorAlign = 256
	LargeTensor = 1 << 20
	LargeAlign  = 16 << 10
)

// Limits. An artifact that exceeds one is refused under any policy. Rank, dims, elements and the length of names
// are limited by core/ir (ir.MaxRank, ir.MaxDim, ir.MaxElems, ir.MaxName, ir.MaxSyms).
const (
	MaxFileSize      = 1 << 44 // bytes
	MaxSections      = 64
	MaxSectionSize   = 128 << 20 // bytes, one msgpack section
	MaxSectionsTotal = 384 << 20 // bytes, all msgpack sections
	MaxDepth         = 16        // of msgpack nesting
	MaxValues        = 1 << 25   // msgpack values in one section
	MaxName          = 512       // bytes
	MaxString        = 4 << 10   // bytes, of strings that are not names
	MaxTensorBytes   = 1 << 42
	MaxArenaBytes    = 1 << 42
	MaxPrograms      = 256
	MaxMethods       = 64
	MaxSignature     = 1024    // inputs, or outputs, of a method
	MaxNodes         = 1 << 20 // of a program; a body counts once for each attribute that refers to it
	MaxBodies        = 4096    // of a program
	MaxOps           = 4096    // distinct ops that one program counts
	MaxSteps         = 1 << 21
	MaxOperands      = 4096    // of one node
	MaxAllOperands   = 1 << 20 // of all nodes of a program together
	// different symbolic dims in one section; also, in all sections, those whose bounds are expensive to compute
	MaxDims       = 4096
	MaxAttrs      = 64
	MaxInts       = 4096 // in one attribute
	MaxWeights    = 1 << 20
	MaxPairs      = 256
	MaxSources    = 4096
	MaxAliasChain = 64 // length of a chain of views of views
)

// Upper bounds of the memory that a process needs to read, verify, send or run the structure of an artifact, in bytes:
// MemoryPerByte per byte of the msgpack sections, and MemoryPerOperand per operand of the loaded programs.
const (
	MemoryPerByte    = 32
	MemoryPerOperand = 256
)

// StructureMemory returns the memory that a process needs for the structure, in bytes. size is the size of the msgpack
// sections in bytes.
func StructureMemory(size int64, loaded ...*program.Program) int64 {
	n := MemoryPerByte * size
	for _, p := range loaded {
		for _, g := range append(p.Graph.Bodies(), p.Graph) {
			for _, x := range g.Nodes {
				n += MemoryPerOperand * int64(x.Arity())
			}
		}
	}
	return n
}

// within reports whether off+size <= n for values from a file, without overflow. Compute off+size only if it returns
// true.
func within(off, size, n int64) bool { return off >= 0 && size >= 0 && off <= n && size <= n-off }

// alignUp rounds n up to a multiple of align, a power of two. n must be at most MaxFileSize.
func alignUp(n, align int64) int64 {
	if n > math.MaxInt64-align {
		panic("BUG: alignUp of an unchecked value")
	}
	return (n + align - 1) &^ (align - 1)
}
