#include <metal_stdlib>
template <typename T> struct rlx_buffer {
  device T* data;
  uint n;
};
template <typename T> T rlx_get(rlx_buffer<T> x, uint i) {
  return x.data[metal::min(i, x.n - 1u)];
}
template <typename T> void rlx_put(rlx_buffer<T> x, uint i, T v) {
  if (i < x.n) {
    x.data[i] = v;
  }
}
template <typename T, uint N> struct rlx_array {
  T at[N];
};
template <typename T> T rlx_select(T no, T yes, bool c) {
  return c ? yes : no;
}
template <typename T> T rlx_div(T a, T b) {
  return a / metal::select(b, T(1u), b == T(0u));
}
template <> int rlx_div(int a, int b) {
  return a / (b == 0 || (b == -1 && as_type<uint>(a) == 0x80000000u) ? 1 : b);
}
uint rlx_uint(float x) {
  return x == x ? uint(metal::min(metal::max(x, 0.0f), 4294967040.0f)) : 0u;
}
struct Params_ {
  uint rows_;
  float scale_;
  rlx_array<uint, 2> dims_;
};
struct Pair_ {
  float sum_;
  int n_;
};
struct rlx_shared {
  rlx_array<float, 64> parts_;
  metal::atomic_uint count_;
};
struct rlx_kernel {
  rlx_buffer<metal::float4> x_w0_;
  rlx_buffer<uint> y_w0_;
  constant Params_* P_;
  uint seen_ = {};
  threadgroup rlx_shared* shared;
  float half_(float x_) {
    return x_ * 0.5f;
  }
  Pair_ added_(Pair_ a_, metal::float4 v_) {
    return Pair_{a_.sum_ + metal::dot(v_, metal::float4(1.0f)), as_type<int>(as_type<uint>(a_.n_) - as_type<uint>(-3))};
  }
  void main_(metal::uint3 group_, metal::uint3 groups_, uint local_) {
    uint row_ = (group_.y * groups_.x) + group_.x;
    if (row_ >= (*P_).rows_) {
      return;
    }
    Pair_ all_ = {};
    for (uint i_ = local_; i_ < (*P_).dims_.at[1]; i_ = i_ + 64u) {
      Pair_ all_before_ = all_;
      uint i_2_ = rlx_div(row_ * (*P_).dims_.at[1], (*P_).dims_.at[0]) + i_;
      all_ = added_(all_before_, rlx_get(x_w0_, i_2_).wzyx * (*P_).scale_);
      seen_ = seen_ + 1u;
    }
    if (((all_.n_ % 2) == 0) || (!(all_.sum_ < 0.125f))) {
      metal::atomic_fetch_add_explicit(&shared->count_, rlx_uint(half_(all_.sum_)), metal::memory_order_relaxed);
    } else if (all_.n_ == 7) {
      all_.sum_ = -all_.sum_;
    }
    shared->parts_.at[metal::min(local_, 63u)] = all_.sum_;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint s_ = 32u;
    for (; s_ > 0u;) {
      if (local_ < s_) {
        shared->parts_.at[metal::min(local_, 63u)] = shared->parts_.at[metal::min(local_, 63u)] + shared->parts_.at[metal::min(local_ + s_, 63u)];
      }
      metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
      s_ = s_ >> 1u;
    }
    switch (local_) {
    case 0u:
    {
      rlx_put(y_w0_, row_, as_type<uint>(shared->parts_.at[0]));
      break;
    }
    case 1u:
    case 2u:
    {
      rlx_put(y_w0_, (*P_).rows_ + row_, rlx_select(metal::atomic_load_explicit(&shared->count_, metal::memory_order_relaxed), 1u << (local_ & 31u), all_.n_ < 0));
      break;
    }
    default:
    {
      break;
    }
    }
  }
};
kernel void rlx_main(device metal::float4* x_w0_ [[buffer(0)]], device uint* y_w0_ [[buffer(1)]], constant Params_* P_ [[buffer(2)]], constant uint* sizes [[buffer(3)]], threadgroup rlx_shared* shared [[threadgroup(0)]], metal::uint3 group [[threadgroup_position_in_grid]], metal::uint3 groups [[threadgroups_per_grid]], uint local [[thread_index_in_threadgroup]]) {
  rlx_kernel k;
  k.x_w0_ = {x_w0_, sizes[0] / 16};
  k.y_w0_ = {y_w0_, sizes[1] / 4};
  k.P_ = P_;
  for (uint i = local; i < 65; i += 64) {
    ((threadgroup uint*)shared)[i] = 0u;
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  k.shared = shared;
  k.main_(group, groups, local);
}
