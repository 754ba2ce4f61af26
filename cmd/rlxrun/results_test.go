package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// pickGraph has ops with several results. Nothing reads w.
const pickGraph = `graph f
x = input : f32[3,8]
n = neg x : f32[3,8]
v, i = top_k n {k=3} : f32[3,3], i32[3,3]
w, j = top_k n {k=2} : f32[3,2], i32[3,2]
s = add v, v : f32[3,3]
return s=s, i=i, j=j
`

// TestResults checks that code that inspects values sees each result of an op by its own name, and that code that
// inspects steps sees the op once.
func TestResults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	d := debugFlags{check: true, checkNaN: true, profile: true}
	d.dumps.Set("[ij]=" + dir)
	d.dumps.Set("top_k=" + filepath.Join(dir, "all"))
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	session := graphSession(t, pickGraph, d)
	if _, err := someRun(t, session); err != nil {
		t.Fatal(err)
	}
	onlyFiles(t, dir, "all", "f.00001.i.npy", "f.00002.j.npy")
	onlyFiles(t, filepath.Join(dir, "all"), "f.00001.i.npy", "f.00001.v.npy", "f.00002.j.npy", "f.00002.w.npy")
	rows := profileOf(session.runs[0])
	k := slices.IndexFunc(rows, func(r profileRow) bool { return r.Op == "top_k" })
	if k < 0 || rows[k].Count != 2 || rows[k].Bytes != 4*(2*24+2*9+2*6) { // operands and all results
		t.Errorf("profile is %+v", rows)
	}
	session.trace.steps(session.runs[0])
	k = slices.IndexFunc(session.trace.events, func(e traceEvent) bool { return e.Name == "top_k" })
	if k < 0 || session.trace.events[k].Args["node"] != "v,i" ||
		session.trace.events[k].Args["out"] != "f32[3,3], i32[3,3]" {
		t.Errorf("trace is %+v", session.trace.events)
	}
}
