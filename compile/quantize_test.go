package compile_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
)

// TestQuantizeGraphs checks which products of a graph in text form get packed weights: those in either orientation and
// in blocks, and not those whose depth is not a multiple of 32, or whose weight is no matrix.
func TestQuantizeGraphs(t *testing.T) {
	const text = `graph main
sym N = 1..3
x = input : f32[N,2,64]
a = param : f32[64,32]
b = param : f32[40,64]
c = param : bf16[32,64]
d = param : f32[1,64,5]
e = param : f32[40,40]
p = matmul x, a : f32[N,2,32]
q = matmul x, b {trans_b=true} : f32[N,2,40]
t = transpose c {perm=[1,0]} : bf16[64,32]
r = matmul x, t : f32[N,2,32]
s = matmul x, d : f32[N,2,5]
u = matmul q, e : f32[N,2,40]
v = linear x, b : f32[N,2,40]
return p, q, r, s, u, v
`
	dir := t.TempDir()
	path := filepath.Join(dir, "g.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for scheme, want := range map[string][]string{
		"q8_0": {"a q8_0", "b q8_0", "c q8_0"}, "q4_k": {"a q8_0", "b q8_0", "c q8_0"},
		"q4_0": {"a q4_0", "b q4_0", "c q4_0"},
	} {
		r, err := compile.Checkpoint(context.Background(), path,
			compile.Options{Output: filepath.Join(dir, scheme+".rlx"), Quantize: scheme, Targets: []string{"cpu"}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range r.Packed {
			got = append(got, p.Name+" "+p.DType.String())
			if !(p.Error > 0 && p.Error < 0.1) {
				t.Errorf("%s: error of %s is %v", scheme, p.Name, p.Error)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s packed %v; want %v", scheme, got, want)
		}
	}
	small := strings.NewReplacer("64", "24", "f32[64,32]", "f32[24,32]").Replace(text)
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := compile.Checkpoint(context.Background(), path,
		compile.Options{Output: filepath.Join(dir, "s.rlx"), Quantize: "q8_0", Targets: []string{"cpu"}})
	if err == nil || !strings.Contains(err.Error(), "multiple of 32") {
		t.Errorf("got %v; want an error about the depth", err)
	}
}
