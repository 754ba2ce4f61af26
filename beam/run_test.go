package rlxbeam_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	rlxbeam "github.com/rlx-go/rlx/beam"
	"github.com/rlx-go/rlx/internal/rlxtest"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// sumGraph takes a batch: row i of y is the sum of row i of x, squared.
const sumGraph = `graph f
sym B = 1..4
x = input : f32[B,3]
s = reduce_sum x {axes=[1]} : f32[B]
y = mul s, s : f32[B]
return y=y
`

func floats(values ...float32) (out []byte) {
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func tensorsName(t rlxbeam.Tensors) string { return t.Name }

// TestRun checks a method that takes batches: results, their order within batches, and inputs that it does not take.
func TestRun(t *testing.T) {
	path := rlxtest.Artifact(t, nil, tinymodel.Program(t, sumGraph, "cpu"))
	var in []rlxbeam.Tensors
	for i := range 10 {
		x := float32(i)
		in = append(in, rlxbeam.Tensors{Name: fmt.Sprintf("e%d", i),
			Values: []rlxbeam.Tensor{{Name: "x", DType: "f32", Shape: []int{1, 3}, Data: floats(x, x, 1)}}})
	}
	bad := map[string]rlxbeam.Tensor{
		"bad name":  {Name: "z", DType: "f32", Shape: []int{1, 3}, Data: floats(1, 2, 3)},
		"bad shape": {Name: "x", DType: "f32", Shape: []int{1, 2}, Data: floats(1, 2)},
		"bad type":  {Name: "x", DType: "i32", Shape: []int{1, 3}, Data: floats(1, 2, 3)},
		"bad bytes": {Name: "x", DType: "f32", Shape: []int{1, 3}, Data: floats(1, 2)},
		"bad sizes": {Name: "x", DType: "f32", Shape: []int{-1, -3}, Data: floats(1, 2, 3)},
		"bad rows":  {Name: "x", DType: "f32", Shape: []int{2, 3}, Data: floats(1, 2, 3, 4, 5, 6)},
	}
	for name, x := range bad {
		in = append(in, rlxbeam.Tensors{Name: name, Values: []rlxbeam.Tensor{x}})
	}
	in = append(in, rlxbeam.Tensors{Name: "bad none"})
	counts := run(t, func(s beam.Scope) {
		out, failed := rlxbeam.Run(s, rlxbeam.Model{Path: path}, "f", rlxbeam.RunOptions{}, beam.CreateList(s, in))
		keep(t, s, "out", out)
		keep(t, s, "failed", failed)
	})
	out := elementsOf(t, "out", tensorsName)
	if len(out) != 10 {
		t.Fatalf("%d results; want 10", len(out))
	}
	for i, o := range out {
		want := float32(2*i+1) * float32(2*i+1)
		if o.Name != fmt.Sprintf("e%d", i) || len(o.Values) != 1 || string(o.Values[0].Data) != string(floats(want)) {
			t.Errorf("result %d: %+v; want y=%v", i, o, want)
		}
	}
	failed := elementsOf(t, "failed", failureName)
	if len(failed) != len(bad)+1 {
		t.Errorf("failures %+v", failed)
	}
	for _, f := range failed {
		if !strings.HasPrefix(f.Name, "bad ") || f.Kind != "input" || f.Code == "" {
			t.Errorf("failure %+v", f)
		}
	}
	if counts["elements"] != 17 || counts["failures"] != 7 || counts["batch_size"] != 10 || counts["sessions"] != 1 {
		t.Errorf("metrics %v", counts)
	}
}

// TestRunAlike checks that results of a product do not depend on what shares a run.
func TestRunAlike(t *testing.T) {
	const graph = `graph f
sym B = 1..16
x = input : f32[B,64]
w = iota : f32[64]
k = const {value=0.37} : f32[]
a = mul w, k : f32[64]
c = sin a : f32[64]
m = reshape c : f32[64,1]
v = sin w : f32[64]
n = reshape v : f32[1,64]
p = matmul m, n : f32[64,64]
y = matmul x, p : f32[B,64]
return y=y
`
	path := rlxtest.Artifact(t, nil, tinymodel.Program(t, graph, "cpu"))
	results := map[string]string{}
	for round, n := range []int{1, 5, 40} {
		var in []rlxbeam.Tensors
		for i := range n {
			row := make([]float32, 64)
			for j := range row {
				row[j] = float32(math.Sin(float64(64*i + j)))
			}
			in = append(in, rlxbeam.Tensors{Name: fmt.Sprint(i),
				Values: []rlxbeam.Tensor{{Name: "x", DType: "f32", Shape: []int{1, 64}, Data: floats(row...)}}})
		}
		what := fmt.Sprint("out", round)
		run(t, func(s beam.Scope) {
			out, _ := rlxbeam.Run(s, rlxbeam.Model{Path: path}, "f", rlxbeam.RunOptions{}, beam.CreateList(s, in))
			keep(t, s, what, out)
		})
		for _, o := range elementsOf(t, what, tensorsName) {
			got := string(o.Values[0].Data)
			if other, ok := results[o.Name]; ok && other != got {
				t.Errorf("element %s has another result among %d", o.Name, n)
			}
			results[o.Name] = got
		}
	}
	if len(results) != 40 {
		t.Errorf("%d results; want 40", len(results))
	}
}
