// Package kernels holds the numeric kernels of the CPU backend: plain functions over slices, each given the Pool whose workers
// it may use and whose instruction set it may assume. Tensors are dense and row-major unless an argument gives strides.
//
// Every kernel gives the same bits for any number of threads: work is cut by output element only, and the order in which the
// terms of one element are added depends on the shape alone. Different instruction sets may round differently.
//
// Slices of the wrong length are mistakes of the caller and panic; what depends on values (an index out of range, an integer
// division by zero) is returned as an error.
//
// It imports core/dtype and core/diag only: no IR, no program, no RPC.
package kernels

//go:generate ./generate.sh
