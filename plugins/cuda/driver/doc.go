// Package driver implements the interfaces of plugins/internal/gpu with CUDA's driver API: libcuda.so.1, which every
// NVIDIA driver for Linux installs. No CUDA toolkit is needed, at build time or at run time. The library is called
// without cgo.
//
// Kernels are PTX text: either translated from WGSL by plugins/cuda/ptx, or written for the hardware by
// plugins/cuda/matrix. The driver compiles them to machine code, which is kept in the user's cache directory.
package driver
