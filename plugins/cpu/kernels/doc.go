// Package kernels holds the numeric kernels of the CPU backend: plain functions over slices. Each takes the Pool whose workers
// and instruction set it uses. Tensors are dense and row-major unless an argument gives strides.
//
// Every kernel gives the same bits for any number of threads: work is cut by output element only, and the order in which the
// terms of one element are added depends on the shape alone. Different instruction sets may round differently.
//
// Slices of the wrong length are the caller's mistake and panic. Errors are for what depends on values: an index out of range, an
// integer division by zero.
//
// It imports only core/dtype and core/diag: no IR, no program, no RPC.
package kernels

//go:generate ./generate.sh
