{{define "start"}}
@compute @workgroup_size(1)
fn main() {
  var running = 1u;
{{- if .C.Inner}}
  running = outer_word(2u);
{{- end}}
{{- if .C.Guarded}}
  if (((guard_word(P.guard >> 2u) >> ((P.guard & 3u) * 8u)) & 0xffu) == 0u) {
    running = 0u;
  }
{{- end}}
  if (running != 0u) {
    c_put(0u, 0u); // otherwise an error of an earlier run of the loop must stay
  }
  c_put(2u, running);
  c_put(3u, 0xffffffffu);
  c_put(4u, c_word(4u) + 1u);
}
{{end}}

{{define "next"}}
{{- if .C.Checked}}
// refused clears count slots from the one at first on, and returns the first that was set, or count.
fn refused(first: u32, count: u32) -> u32 {
  var found = count;
  for (var k = 0u; k < count; k = k + 1u) {
    let at = (first + k) * 64u;
    if (slots_word(at) != 0u) {
      slots_put(at, 0u);
      found = min(found, k);
    }
  }
  return found;
}
{{- end}}

@compute @workgroup_size(1)
fn main() {
  var running = c_word(2u);
  var t = c_word(3u);
{{- if .C.Checked}}
  let body = refused(P.ofcond, P.ofbody);
  let bad = refused(0u, P.ofcond);
  if (running != 0u && body < P.ofbody) {
    c_put(0u, P.first + P.ofcond + body + 1u);
    c_put(1u, t);
    running = 0u;
  }
{{- end}}
  if (running != 0u && P.last == 0u) {
    t = t + 1u;
{{- if .C.Checked}}
    if (bad < P.ofcond) {
      c_put(0u, P.first + bad + 1u);
      c_put(1u, t);
      running = 0u;
    }
{{- end}}
{{- if .C.Conditional}}
    if ((cond_word(0u) & 0xffu) == 0u) {
      running = 0u;
    }
{{- end}}
  }
  c_put(2u, running);
  c_put(3u, t);
}
{{end}}

{{define "carry"}}
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * {{.C.Group}}u + local;
  if (c_word(2u) == 0u) {
    return;
  }
  var first = 0u;
  for (var k = 0u; k < {{.C.Most}}u; k = k + 1u) {
    if (k < P.count) {
      let end = P.end[k];
      if (i >= first && i < end) {
        io_put(P.dst[k] + i - first, io_word(P.src[k] + i - first));
      }
      first = end;
    }
  }
}
{{end}}

{{define "copy"}}
// Invocation i writes the bytes of the row in word i of those that the row touches.
@compute @workgroup_size({{.C.Group}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * {{.C.Group}}u + local;
  if (P.running != 0u && c_word(2u) == 0u) {
    return;
  }
  let t = c_word(3u);
  let source = P.src + t * P.src_step;
  let dest = P.dst + t * P.dst_step;
  let at = (dest & 0xfffffffcu) + 4u * i;
  let end = dest + P.bytes;
  if (at >= end) {
    return;
  }
  if (at >= dest && at + 4u <= end) {
    let k = source + (at - dest);
    let shift = (k & 3u) * 8u;
    var word = x_word(k >> 2u);
    if (shift != 0u) {
      word = (word >> shift) | (x_word((k >> 2u) + 1u) << (32u - shift));
    }
    y_put(at >> 2u, word);
    return;
  }
  var word = y_word(at >> 2u);
  for (var b = 0u; b < 4u; b = b + 1u) {
    let p = at + b;
    if (p >= dest && p < end) {
      let k = source + (p - dest);
      let value = (x_word(k >> 2u) >> ((k & 3u) * 8u)) & 0xffu;
      word = (word & ~(0xffu << (b * 8u))) | (value << (b * 8u));
    }
  }
  y_put(at >> 2u, word);
}
{{end}}
