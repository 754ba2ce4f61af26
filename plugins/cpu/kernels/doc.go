// Package kernels holds no code. The packages below it are the numeric kernels of the CPU backend: plain functions over
// slices. Each takes the pool.Pool whose workers and instruction set it uses. Tensors are dense and row-major unless an
// argument gives strides.
//
// # Layers
//
// A package imports only packages of the lines above its own. deps_test.go checks it.
//
//	isa                     the instruction sets; which of them the processor has; tables of routines by set
//	pool                    threads, and their scratch memory
//	vec                     copies, transpositions, conversions and stencils of floats
//	stored                  values as they are stored: f32, f16, bf16, 8-bit integers, packed blocks
//	elementwise             functions of elements, fused regions, casts
//	layout                  movement of elements, gather and scatter, resizing
//	reduce                  reductions, pooling
//	product                 matrix products: floats, bfloat16, packed weights
//	norm, quad              normalisations and softmax; matrix products of 8-bit integers
//	attention, conv         attention and rotary embeddings; convolutions
//	fft, scan, solve        Fourier transforms; scans and recurrences; linear equations
//	ranking, sample         sorting and top-k; sampling
//	raster                  Gaussian splats
//
// Each family has a struct of the routines that differ between instruction sets, and a table of them by set. The files
// routines*.go have both. The function On, or on, returns a set's routines.
//
// # Rules
//
// Every kernel gives the same bits for any number of threads: work is cut by output element only, and the order in
// which the terms of one element are added depends on the shape alone. Different instruction sets may round
// differently.
//
// A slice of the wrong length is a bug of the caller and panics. Errors do not name the op. They depend on values: an
// index out of range, an integer division by zero.
//
// The packages know no IR, programs or RPC.
//
// # Terms
//
//   - set: an instruction set, type isa.Set. The set "generic" is plain Go, the others are in assembly.
//   - lanes: the number of float32 in a vector of the set.
//   - task, grain: Pool.Run divides work into tasks for its workers. A grain is the least number of items that is worth
//     a task.
//   - ld: the distance between the starts of two rows in memory, in elements (the leading dimension of BLAS).
//   - k, depth: the axis that a matrix product sums over.
//   - panel: up to mr rows of A or nr columns of B, packed so that the values for one k are contiguous.
//   - strip: adjacent columns that a worker goes down row by row.
//   - spill: floats past the end of a buffer that a copy of whole vectors may overwrite.
//   - half: f16 or bf16.
//   - pair: two bfloat16 that are adjacent along k, in 32 bits, as the instructions for bfloat16 products take them.
//   - quad: four 8-bit integers that are adjacent along k, in 32 bits, as VNNI and AMX take them.
//   - tile: a matrix register of AMX, 16 rows of 64 bytes. In attention also the keys whose scores are held at a time.
package kernels

//go:generate ./generate.sh
