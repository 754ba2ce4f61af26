// Package shim is Metal for package gpu where no Mac is at hand: for tests. Kernels that package msl has translated are compiled by a C++ compiler,
// with a small standard library of Metal (cxx/metal_stdlib), and run on the host's processor by the program of cxx/host.cc, a group of threads at
// a time, each thread a fiber that waits at barriers.
//
// It tells whether a translated kernel computes what it should, not how fast, and not whether Apple's compiler takes it.
package shim
