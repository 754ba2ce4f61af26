// Package shim is a stand-in for the driver of an NVIDIA GPU: it runs PTX on the processor, for tests. It knows exactly
// the instructions that package ptx writes; any other is an error. It also checks what a GPU does not report: an access
// outside of the bindings of a kernel, a read of a register or of shared memory before it is written, two threads that
// access the same word of shared memory between barriers, of which one writes, and barriers that some threads of a
// block do not reach.
package shim
