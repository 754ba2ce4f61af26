package target_test

import (
	"fmt"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// TestRuleFor checks, for the cases of each op, that the rule for one case accepts it, that the rule for all cases
// accepts all, and that both are legal in a file.
func TestRuleFor(t *testing.T) {
	for _, def := range ir.Defs() {
		if def.Block || def.Effects || def == ir.ResultDef {
			continue
		}
		var all []*ir.Node
		for i, c := range def.Cases() {
			g := ir.NewGraph("g")
			n := &ir.Node{Op: def, Attrs: c.Attrs, Graph: g, In: make([]*ir.Node, max(len(c.In), len(def.Operands)))}
			for k, x := range c.In {
				if x.Present() {
					n.In[k] = op.Input(g, fmt.Sprint("x", k), x)
				}
			}
			var err error
			if n.Type, n.Results, err = n.Infer(c.Out, nil); err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
			checkRule(t, fmt.Sprint(def.Name, " ", i), n)
		}
		if len(all) > 0 {
			checkRule(t, def.Name, all...)
		}
	}
}

func checkRule(t *testing.T, what string, nodes ...*ir.Node) {
	t.Helper()
	r := target.RuleFor(nodes)
	d := (&target.Description{Name: "x", Version: "1"}).With(nil, 0, 0, r)
	if nodes[0].Op.Nested { // for the ops of its graphs
		d = d.With(nil, 0, 0, target.Rule{How: target.Reference, Op: target.AnyOp})
	}
	for _, n := range nodes {
		for _, b := range inner(n) {
			for _, x := range b.Nodes {
				if inner := target.RuleFor([]*ir.Node{x}); x.Op.Nested && inner.String() != r.String() {
					d = d.With(nil, 0, 0, inner)
				}
				for _, v := range x.ResultTypes() {
					d = d.With([]dtype.DType{v.DType}, 0, 0)
				}
			}
		}
		for _, x := range n.Types() {
			d = d.With([]dtype.DType{x.DType}, 0, 0)
		}
	}
	again, err := target.Parse(d.String())
	if err != nil || !again.Equal(d) || again.Check() != nil {
		t.Errorf("%s: %v is not legal: %v, %v", what, r, err, again.Check())
		return
	}
	for _, n := range nodes {
		if how, why := again.Takes(n); how != target.Native {
			t.Errorf("%s: %v is %v: %s", what, r, how, why)
		}
	}
}

// inner returns the graphs that n runs as programs of its own, and theirs.
func inner(n *ir.Node) (list []*ir.Graph) {
	for _, b := range n.Programs() {
		list = append(list, b)
		for _, x := range b.Nodes {
			list = append(list, inner(x)...)
		}
	}
	return list
}
