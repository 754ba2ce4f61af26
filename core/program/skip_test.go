package program_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// TestSkips checks which steps a condition makes unnecessary.
func TestSkips(t *testing.T) {
	const head = `graph g
x = input : f32[4]
p = input : bool[]
q = input : bool[]
many = input : bool[4]
f = input : f32[]
a = neg x : f32[4]
b = abs a : f32[4]
c = exp x : f32[4]
`
	for _, c := range []struct{ name, text, want string }{
		{"no condition", "y = add b, c : f32[4]\nreturn y=y", ""},
		{"if", "y = where p, b, c : f32[4]\nreturn y=y", "p=false: a b; p=true: c"},
		{"conditions of a region",
			`y = elementwise_region p, b, x, c {expr="v0=add(i1,i2); v1=where(i0,v0,i3)"} : f32[4]` + "\nreturn y=y",
			"p=false: a b; p=true: c"},
		{"value that a region uses in both cases",
			`y = elementwise_region p, b, c {expr="v0=add(i1,i2); v1=where(i0,v0,i2)"} : f32[4]` + "\nreturn y=y",
			"p=false: a b"},
		{"used elsewhere", "y = where p, b, c : f32[4]\nz = neg c : f32[4]\nreturn y=y, z=z", "p=false: a b"},
		{"output", "y = where p, b, c : f32[4]\nreturn y=y, b=b", "p=true: c"},
		{"operand of a step that is used", "y = where p, b, c : f32[4]\nreturn y=y, a=a", "p=false: b; p=true: c"},
		{"both branches", "y = where p, b, b : f32[4]\nreturn y=y", ""},
		{"several bools", "y = where many, b, c : f32[4]\nreturn y=y", ""},
		{"number as a condition", "y = where f, b, c : f32[4]\nreturn y=y", ""},
		{"nested", "i = where q, b, c : f32[4]\ny = where p, i, x : f32[4]\nreturn y=y",
			"p=false: a b c i; q=false: a b; q=true: c"},
		{"condition that is computed",
			"s = reduce_sum x {axes=[0]} : f32[]\nr = lt s, f : bool[]\nd = tanh b : f32[4]\ny = where r, d, x : f32[4]\nreturn y=y",
			"r=false: d"}, // a and b run before r is known
		{"view of a condition", "r = not p : bool[]\nv = reshape r : bool[1]\nd = neg c : f32[4]\ny = where v, d, x : f32[4]\nreturn y=y",
			"r=false: d"},
		{"condition of a condition",
			"m = gt b, c : bool[4]\nr = any m {axes=[0]} : bool[]\ns = and p, r : bool[]\nreturn s=s",
			"p=false: a b c m r"},
		{"condition that depends on the value",
			"m = gt b, x : bool[4]\nr = any m {axes=[0]} : bool[]\nd = neg b : f32[4]\ny = where r, d, x : f32[4]\nreturn y=y",
			"r=false: d"},
		{"several results", "v, w = top_k b {k=2} : f32[2], i32[2]\nz = const : f32[2]\ny = where p, v, z : f32[2]\nreturn y=y",
			"p=false: a b v,w; p=true: z"},
		{"update of a state",
			"s = state : f32[4]\ni = const : i32[]\nu = kv_append s, b, i : f32[4]\nt = neg u : f32[4]\ny = where p, t, c : f32[4]\nreturn y=y",
			"p=false: t; p=true: c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ir.Parse(head + c.text + "\n")
			if err != nil {
				t.Fatal(err)
			}
			p := &program.Program{Graph: g}
			for _, n := range g.Nodes {
				if program.IsStep(n) && n.Op.Name != "const" || n.Name == "z" && n.Op.Name == "const" {
					p.Steps = append(p.Steps, program.Step{Node: n.ID})
				}
			}
			got := ""
			if s := p.Skips(); s != nil {
				got = describe(p, s)
			}
			if got != c.want {
				t.Errorf("skips %q; want %q", got, c.want)
			}
		})
	}
}

// describe lists the conditions and the steps that they make unnecessary, without steps whose results nothing uses.
func describe(p *program.Program, s *program.Skips) string {
	var parts []string
	for _, list := range append([][]program.Condition{s.Inputs}, s.Steps...) {
		for _, c := range list {
			for k, steps := range c.Steps {
				var names []string
				for _, i := range steps {
					names = append(names, p.Graph.Nodes[p.Steps[i].Node].Label())
				}
				if names != nil {
					parts = append(parts, fmt.Sprintf("%s=%v: %s", p.Graph.Nodes[c.Node].Label(), k == 1,
						strings.Join(names, " ")))
				}
			}
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
