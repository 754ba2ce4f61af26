package llm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
)

// TestLastLayer checks that a run which only chooses the next token computes the last layer for one token, apart from
// its keys and values and the values on which they depend. TestGolden checks that the logits are right.
func TestLastLayer(t *testing.T) {
	forAll := regexp.MustCompile(`input_layernorm|\.[kv]_|linear_attn`)
	for _, g := range cases {
		c := g.compile(t)
		p := c.Find(t, "extend", "cpu")
		wanted := make([]bool, len(p.Graph.Outputs))
		for i, o := range p.Graph.Outputs {
			wanted[i] = o.Name == "greedy"
		}
		last := ""
		for _, n := range p.Graph.Nodes {
			var i int
			if k, _ := fmt.Sscanf(n.Name, "model.layers.%d.", &i); k == 1 {
				last = fmt.Sprintf("model.layers.%d", i)
			}
		}
		steps := 0
		for i, needed := range p.Needed(wanted, nil) {
			n := p.Graph.Nodes[p.Steps[i].Node]
			if !needed || !strings.HasPrefix(n.Name, last) || forAll.MatchString(n.Name) {
				continue
			}
			steps++
			if slices.ContainsFunc(n.Type.Shape, func(d ir.Dim) bool { return !d.IsStatic() }) {
				t.Errorf("%s%s: step %d, %s, computes %v", g.name, g.prefix, i, n.Name, n.Type)
			}
		}
		if steps < 4 {
			t.Errorf("%s%s: %d steps of %s; want its feed-forward block", g.name, g.prefix, steps, last)
		}
	}
}
