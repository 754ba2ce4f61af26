package compile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
)

const sizedGraphs = `graph main
sym B = 1..4
sym S = 2..64
x = input : f32[B,S,8]
w = param : f32[8,8]
h = matmul x, w : f32[B,S,8]
r = reshape h : f32[B*S,8]
v, i = top_k r {k=2} : f32[B*S,2], i32[B*S,2]
n = iota {axis=0} : i32[(S+7)/8]
return v=v, i=i, n=n

graph other
sym S = 1..32
x = input : f32[S]
y = neg x : f32[S]
return y=y

graph fixed
x = input : f32[4]
y = neg x : f32[4]
return y=y
`

// TestSizes compares graphs compiled with Options.Sizes with graphs in which the numbers were written by hand.
func TestSizes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.txt")
	if err := os.WriteFile(path, []byte(sizedGraphs), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sizes map[string]int64
		by    *strings.Replacer
	}{
		{map[string]int64{"S": 16}, strings.NewReplacer("sym S = 2..64\n", "", "sym S = 1..32\n", "", "(S+7)/8", "2",
			"B*S", "16*B", "S,", "16,", "[S]", "[16]")},
		{map[string]int64{"B": 3}, strings.NewReplacer("sym B = 1..4\n", "", "B*S", "3*S", "[B,", "[3,")},
		{map[string]int64{"S": 3, "B": 2}, strings.NewReplacer("sym S = 2..64\n", "", "sym S = 1..32\n", "",
			"sym B = 1..4\n", "", "(S+7)/8", "1", "B*S", "6", "B,S", "2,3", "[S]", "[3]")},
	} {
		m, err := Load(t.Context(), path, Options{Sizes: c.sizes})
		if err != nil {
			t.Errorf("%v: %v", c.sizes, err)
			continue
		}
		want, err := ir.ParseAll(c.by.Replace(sizedGraphs), ir.Limits{})
		if err != nil {
			t.Fatalf("%v: %v", c.sizes, err)
		}
		for i, g := range m.built.Methods {
			if got, want := g.String(), want[i].String(); got != want {
				t.Errorf("%v: compiled\n%s\nwant\n%s", c.sizes, got, want)
			}
		}
		m.Close()
	}
	for _, c := range []struct {
		sizes map[string]int64
		want  string
	}{
		{map[string]int64{"T": 3}, "--size T: no graph has this symbol; symbols are B, S"},
		{map[string]int64{"B": 5}, "--size B=5: B of graph main is from 1 to 4"},
		{map[string]int64{"B": 0, "S": 4}, "--size B=0 --size S=4: B of graph main is from 1 to 4"},
		{map[string]int64{"S": 48}, "--size S=48: S of graph other is from 1 to 32"},
		{map[string]int64{"S": 1}, "--size S=1: S of graph main is from 2 to 64"},
	} {
		_, err := Load(t.Context(), path, Options{Sizes: c.sizes})
		if d, ok := diag.CodeOf(err); !ok || d != diag.Usage || !strings.HasPrefix(fmt.Sprint(err), c.want) {
			t.Errorf("%v: %v; want %s", c.sizes, err, c.want)
		}
	}
}

// TestSizesContradict checks sizes that a reshape does not allow.
func TestSizesContradict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g.txt")
	text := "graph g\nsym S = 1..8\nsym T = 1..4\nx = input : f32[S]\nt = input : f32[T]\n" +
		"y = reshape x : f32[2,T]\nz = add y, t : f32[2,T]\nreturn z=z\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), path, Options{Sizes: map[string]int64{"S": 6, "T": 2}})
	d, ok := diag.CodeOf(err)
	if !ok || d != diag.Usage || !strings.Contains(fmt.Sprint(err), "y of graph g: reshape") {
		t.Errorf("%v", err)
	}
	if _, err := Load(t.Context(), path, Options{Sizes: map[string]int64{"S": 6, "T": 3}}); err != nil {
		t.Error(err)
	}
}
