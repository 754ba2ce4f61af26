var<workgroup> partial: array<{{.C.Type}}, {{mul .C.Rows .C.Lanes}}>;

fn join(acc: {{.C.Type}}, v: {{.C.Type}}) -> {{.C.Type}} {
  return {{.C.Fold}};
}

// A workgroup handles {{.C.Rows}} blocks of lines with {{.C.Lanes}} invocations each.
@compute @workgroup_size({{mul .C.Rows .C.Lanes}})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
  let first = (group.y * groups.x + group.x) * {{.C.Rows}}u;
  if (first >= P.lines * P.blocks) {
    return;
  }
{{- if .C.Inner}}
  let r = local % {{.C.Rows}}u; // neighbouring invocations take neighbouring lines, whose elements are adjacent
  let lane = local / {{.C.Rows}}u;
  let apart = {{.C.Rows}}u;
{{- else}}
  let r = local / {{.C.Lanes}}u;
  let lane = local % {{.C.Lanes}}u;
  let apart = 1u;
{{- end}}
  let last = local - lane * apart + {{sub .C.Lanes 1}}u * apart;
  let place = min(first + r, P.lines * P.blocks - 1u);
  let line = place % P.lines;
  let block = place / P.lines;
  let base = (line / P.inner) * P.n * P.inner + line % P.inner;
  let begins = block * P.block;
  let ends = min(begins + P.block, P.n);
  var carry = {{.C.Zero}};
{{- if .C.Totals}}
  for (var k = begins + lane; k < ends; k = k + {{.C.Lanes}}u) {
    carry = join(carry, x0(base + {{.C.At}} * P.inner));
  }
  partial[local] = carry;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      carry = join(carry, partial[local + s * apart]);
      partial[local] = carry;
    }
  }
  if (lane == 0u && first + r < P.lines * P.blocks) {
    totals_put(line * P.blocks + block, totals_encode(carry));
  }
{{- else}}
{{- if .C.Blocks}}
  // The fold of the blocks before this one.
  for (var j = lane; j < block; j = j + {{.C.Lanes}}u) {
    carry = join(carry, totals(line * P.blocks + j));
  }
  partial[local] = carry;
  for (var s = {{div .C.Lanes 2}}u; s > 0u; s = s / 2u) {
    workgroupBarrier();
    if (lane < s) {
      carry = join(carry, partial[local + s * apart]);
      partial[local] = carry;
    }
  }
  workgroupBarrier();
  carry = partial[local - lane * apart];
  workgroupBarrier();
{{- end}}
  for (var t = 0u; t < P.block; t = t + {{mul .C.Lanes .C.Each}}u) {
    // Each invocation folds {{.C.Each}} elements; then all of them combine their folds.
    let begin = begins + t + lane * {{.C.Each}}u;
    var acc = {{.C.Zero}};
{{- range seq .C.Each}}
    if (begin + {{.}}u < ends) {
      let k = begin + {{.}}u;
      acc = join(acc, x0(base + {{$.C.At}} * P.inner));
    }
    let s{{.}} = acc;
{{- end}}
    partial[local] = acc;
    for (var s = 1u; s < {{.C.Lanes}}u; s = s * 2u) {
      workgroupBarrier();
      if (lane >= s) {
        acc = join(partial[local - s * apart], acc);
      }
      workgroupBarrier();
      partial[local] = acc;
    }
    workgroupBarrier();
    var before = carry;
    if (lane > 0u) {
      before = join(carry, partial[local - apart]);
    }
    carry = join(carry, partial[last]);
    workgroupBarrier();
    if (first + r < P.lines * P.blocks) {
{{- range seq .C.Each}}
      if (begin + {{.}}u < ends) {
        let k = begin + {{.}}u;
{{- if not $.C.Exclusive}}
        y_put(base + {{$.C.At}} * P.inner, y_encode(join(before, s{{.}})));
{{- else if eq . 0}}
        y_put(base + {{$.C.At}} * P.inner, y_encode(before));
{{- else}}
        y_put(base + {{$.C.At}} * P.inner, y_encode(join(before, s{{sub . 1}})));
{{- end}}
      }
{{- end}}
    }
  }
{{- end}}
}
