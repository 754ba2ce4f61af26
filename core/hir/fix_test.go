package hir_test

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
)

// TestFixBodies fixes a symbol of a graph whose block has a body with that symbol.
func TestFixBodies(t *testing.T) {
	graphs, err := ir.ParseAll(`graph half
sym N = 1..8
x = input : f32[N]
y = add x, x : f32[N]
return y=y

graph main
sym N = 1..8
a = input : f32[N]
p = input : bool[]
b = if p, a {else=@half, then=@half} : f32[N]
return b=b
`, ir.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := graphs[len(graphs)-1].Fix(map[string]int64{"N": 3})
	if err == nil {
		err = g.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	if text := g.String(); strings.Contains(text, "N") || strings.Count(text, "graph half") != 1 {
		t.Errorf("fixed to:\n%s", text)
	}
}
