// The interface between the program of host.cc and the kernels.
#pragma once
#include <metal_stdlib>

using metal::uint3;

// rlx_any is a pointer that converts to any pointer type.
struct rlx_any {
  void* p;
  template <typename T> operator T*() const { return (T*)p; }
};

// A library exports one of these for each of its kernels.
struct rlx_kernel_entry {
  void (*run)(rlx_any* buffers, void* shared, uint3 group, uint3 groups, uint local);
  uint threads, buffers, shared;
  bool barrier;
};
