package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// pickGraph has ops with several results; nothing reads w.
const pickGraph = `graph f
x = input : f32[3,8]
n = neg x : f32[3,8]
v, i = top_k n {k=3} : f32[3,3], i32[3,3]
w, j = top_k n {k=2} : f32[3,2], i32[3,2]
s = add v, v : f32[3,3]
return s=s, i=i, j=j
`

// TestResults: what looks at single values sees each result of an op by its own name; what looks at steps sees the op once.
func TestResults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	d := debugFlags{check: true, checkNaN: true, profile: true}
	d.dumps.Set("[ij]=" + dir)
	d.dumps.Set("top_k=" + filepath.Join(dir, "all"))
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	h, _, err := oneRun(t, pickGraph, d)
	if err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "all", "f.00001.i.npy", "f.00002.j.npy")
	onlyFiles(t, filepath.Join(dir, "all"), "f.00001.i.npy", "f.00001.v.npy", "f.00002.j.npy", "f.00002.w.npy")
	rows, err := profileOf(h.runs[0])
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(rows, func(r profileRow) bool { return r.Op == "top_k" })
	if k < 0 || rows[k].Count != 2 || rows[k].Bytes != 4*(2*24+2*9+2*6) { // operands and all results
		t.Errorf("profile is %+v", rows)
	}
	if err := h.trace.steps(h.runs[0]); err != nil {
		t.Fatal(err)
	}
	k = slices.IndexFunc(h.trace.events, func(e traceEvent) bool { return e.Name == "top_k" })
	if k < 0 || h.trace.events[k].Args["node"] != "v,i" || h.trace.events[k].Args["out"] != "f32[3,3], i32[3,3]" {
		t.Errorf("trace is %+v", h.trace.events)
	}
}

// TestCheckResults: --check compares every result of a step, in whatever order a backend sends them, and names the wrong one;
// so does --check-nan.
func TestCheckResults(t *testing.T) {
	h, _, err := oneRun(t, pickGraph, debugFlags{check: true})
	if err != nil {
		t.Fatal(err)
	}
	l := &loaded{h: h, prog: h.runs[0].prog}
	bound, err := l.prog.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := madeUpInputs(l.prog.Graph, nil)
	right := map[int]tensor.Tensor{}
	values := map[string]*tensor.Array{"x": in["x"].Array()}
	if _, err := interp.RunProgram(l.prog, nil, values, nil, func(n *ir.Node, v *tensor.Array) error {
		right[n.ID] = v.Tensor()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w, err := (&debugFlags{checkNaN: true}).watch(t.Context(), l, bound, in)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := l.prog.Graph.Find("w")
	wantError(t, "a NaN in w", w.verdict(device.Stats{FirstNaN: n.ID}), device.ErrNaN, "f step 3 of 4 (top_k w)")
	for _, wrong := range []string{"", "v", "i", "w", "j"} {
		w, err := (&debugFlags{check: true}).watch(t.Context(), l, bound, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range bound.Steps {
			for _, o := range slices.Backward(s.Outs) {
				x := right[o.Node]
				if l.prog.Graph.Nodes[o.Node].Name == wrong {
					x.Data = slices.Clone(x.Data)
					x.Data[5] ^= 1
				}
				if err == nil {
					err = w.observe(o.Node, o.Shape, x.Data)
				}
			}
		}
		if wrong == "" && err != nil {
			t.Errorf("right values: %v", err)
		} else if wrong != "" {
			wantError(t, wrong, err, CodeCheck, "top_k "+wrong)
		}
	}
}
