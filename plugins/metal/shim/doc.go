// Package shim tests Metal kernels without a Mac. It implements a device of package gpu on the processor: a C++ compiler compiles the kernels that
// package msl translates, together with the part of Metal's standard library that they use (cxx/metal_stdlib), and the program cxx/host.cc runs them, one
// threadgroup at a time. Each thread is a fiber that waits at barriers.
//
// A test with it shows that a translated kernel computes the right values. It says nothing about speed, or whether Apple's compiler accepts the text.
package shim
