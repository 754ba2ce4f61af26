// Package shim runs kernels that package msl has translated on the host's processor, where no Mac is at hand: for tests. cxx/metal_stdlib is a
// small standard library of Metal in C++, so that a C++ compiler takes the kernels; cxx/host.cc is the program that runs them, a group of
// threads at a time, each thread a fiber that waits at barriers.
//
// It tells whether a translated kernel computes what it should, not how fast, and not whether Apple's compiler takes it.
package shim
