// Sums of rows, with a part of everything that the translator knows.
@group(0) @binding(0) var<storage, read_write> x_w0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y_w0: array<u32>;
struct Params {
  rows: u32,
  scale: f32,
  dims: array<u32, 2>,
}
@group(0) @binding(2) var<storage, read> P: Params;
const lanes = 64u;
const shift = -3; // a whole number, of no type
var<workgroup> parts: array<f32, lanes>;
var<workgroup> count: atomic<u32>;
var<private> seen: u32;

struct Pair {
  sum: f32,
  n: i32,
}

fn half(x: f32) -> f32 { return x * 0.5; } // a type of MSL

fn added(a: Pair, v: vec4<f32>) -> Pair {
  return Pair(a.sum + dot(v, vec4<f32>(1.0)), a.n - shift);
}

fn unused() -> u32 { return seen; }

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let row = group.y * groups.x + group.x;
  if (row >= P.rows) {
    return;
  }
  var all: Pair;
  for (var i = local; i < P.dims[1]; i = i + lanes) {
    let all_before = all;
    let i = row * P.dims[1] / P.dims[0] + i; // hides the other
    all = added(all_before, x_w0[i].wzyx * P.scale);
    seen = seen + 1u;
  }
  if (all.n % 2 == 0 || !(all.sum < 0x1p-3)) {
    atomicAdd(&count, u32(half(all.sum)));
  } else if (all.n == 7) {
    all.sum = -all.sum;
  }
  parts[local] = all.sum;
  workgroupBarrier();
  var s = lanes / 2u;
  while (s > 0u) {
    if (local < s) {
      parts[local] = parts[local] + parts[local + s];
    }
    workgroupBarrier();
    s = s >> 1u;
  }
  switch (local) {
    case 0u: {
      y_w0[row] = bitcast<u32>(parts[0]);
    }
    case 1u, 2u: {
      y_w0[P.rows + row] = select(atomicLoad(&count), 1u << local, all.n < 0);
    }
    default: {}
  }
}
