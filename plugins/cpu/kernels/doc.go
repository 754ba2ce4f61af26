// Package kernels holds the numeric kernels of the CPU backend: plain functions over slices. Each takes the Pool whose
// workers and instruction set it uses. Tensors are dense and row-major unless an argument gives strides.
//
// Every kernel gives the same bits for any number of threads: work is cut by output element only, and the order in
// which the terms of one element are added depends on the shape alone. Different instruction sets may round
// differently.
//
// A slice of the wrong length is a bug of the caller and panics. Errors do not name the op. They depend on values: an
// index out of range, an integer division by zero.
//
// The package knows no IR, programs or RPC.
//
// These terms are used throughout:
//
//   - set: an instruction set with its routines, type isa. The set "generic" is plain Go, the others are in assembly.
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
