// Package shim runs Metal kernels without a Mac, for tests. It implements a device of package gpu on the processor.
// Package msl translates the kernels, a C++ compiler compiles them with the part of Metal's standard library that they
// use (cxx/metal_stdlib), and the program cxx/host.cc runs them, one threadgroup at a time. Each thread is a fiber that
// waits at barriers.
//
// Tests with the shim show that translated kernels compute the right values. They cannot show how fast the kernels are
// on a Mac, or whether Apple's compiler accepts them.
package shim
