package golden

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Rewritten is the result of a pass.
type Rewritten struct {
	Graph *ir.Graph
	// Fired has the names of the rules that fired. Missed has the missed ones as "rule:Reason".
	Fired, Missed []string
	// Params are weights that the pass created.
	Params map[string]tensor.Tensor
}

// Rewrite runs the pass under test.
type Rewrite func(g *ir.Graph, f *File) (Rewritten, error)

// Pass tests a pass on the files in a folder. The section "in" is a graph; "out" is the graph after the pass. Comment
// lines "expect: RULE ..." and "expect-not: RULE ..." name rules that must and must not fire. "expect-miss:
// RULE:REASON" names misses that must be reported; a REASON that ends in * is a prefix.
//
// A rewrite must keep the meaning of the graph: Pass runs both graphs on random inputs, at both ends of the symbols'
// ranges, and compares the outputs within the tolerance of their ops. It does this a second time with every
// intermediate value as a further output, to detect a fusion that removes a value which another node reads.
func Pass(t *testing.T, dir string, rewrite Rewrite) {
	t.Helper()
	Files(t, dir, func(t *testing.T, f *File) string {
		text, ok := f.Section("in")
		if !ok {
			t.Fatal("no section in")
		}
		parse := func() *ir.Graph {
			g, err := ir.Parse(text)
			if err == nil {
				err = g.Verify()
			}
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		got, err := rewrite(parse(), f)
		if err != nil {
			t.Fatal(err)
		}
		f.checkRules(t, got)
		if err := SameMeaning(parse(), got); err != nil {
			t.Errorf("the meaning changed: %v\n%s", err, got.Graph)
		}
		all := parse()
		returnAll(all)
		gotAll, err := rewrite(all, f)
		if err == nil {
			err = SameMeaning(all, gotAll)
		}
		if err != nil {
			t.Errorf("with every value returned: %v\n%s", err, gotAll.Graph)
		}
		return got.Graph.String()
	})
}

func (f *File) checkRules(t *testing.T, got Rewritten) {
	t.Helper()
	for _, r := range f.Values("expect") {
		if !slices.Contains(got.Fired, r) {
			t.Errorf("rule %s did not fire; fired: %v, missed: %v", r, got.Fired, got.Missed)
		}
	}
	for _, r := range f.Values("expect-not") {
		if slices.Contains(got.Fired, r) {
			t.Errorf("rule %s fired", r)
		}
	}
	for _, r := range f.Values("expect-miss") {
		start, prefix := strings.CutSuffix(r, "*")
		if !slices.ContainsFunc(
			got.Missed, func(m string) bool {
				return m == r || strings.HasPrefix(m, r+": ") || prefix && strings.HasPrefix(m, start)
			}) {
			t.Errorf("miss %s was not reported; reported: %v", r, got.Missed)
		}
	}
}

func returnAll(g *ir.Graph) {
	for _, n := range g.Nodes {
		if !n.Op.Effects && !n.Op.Tuple {
			g.Return(fmt.Sprintf("value.%d", n.ID), n)
		}
	}
}

// SameMeaning runs a graph and its rewritten form on the same random inputs, at both ends of the symbols' ranges, and
// compares the outputs.
func SameMeaning(g *ir.Graph, r Rewritten) error {
	if err := r.Graph.Verify(); err != nil {
		return err
	}
	for _, syms := range []map[string]int64{g.Syms.Min(), g.Syms.Max()} {
		if g.CheckSyms(syms) != nil {
			continue // at these bounds, sizes that must be equal are not
		}
		inputs := map[string]*tensor.Array{}
		for _, n := range g.Inputs() {
			inputs[n.Name] = random(n, syms)
		}
		want, err := interp.Run(g, syms, inputs, Weights(g))
		if err != nil {
			return fmt.Errorf("before: %w", err)
		}
		old := Weights(g)
		got, err := interp.Run(r.Graph, syms, inputs, func(name string) (*tensor.Array, error) {
			if v, ok := r.Params[name]; ok {
				return v.Array(), nil
			}
			return old(name)
		})
		if err != nil {
			return fmt.Errorf("after: %w", err)
		}
		tol := tolerance(g, r.Graph)
		if len(got) != len(want) {
			return fmt.Errorf("%d outputs; want %d", len(got), len(want))
		}
		for i, o := range g.Outputs {
			if r.Graph.Outputs[i].Name != o.Name {
				return fmt.Errorf("output %d is %s; want %s", i, r.Graph.Outputs[i].Name, o.Name)
			}
			if err := interp.Compare(got[o.Name], want[o.Name], tol); err != nil {
				return fmt.Errorf("%v: output %s: %w", syms, o.Name, err)
			}
		}
	}
	return nil
}

// Weights returns a random value for each param of g. It depends only on the param's name and type.
func Weights(g *ir.Graph) interp.Params {
	return func(name string) (*tensor.Array, error) {
		n, ok := g.Find(name)
		if !ok || strings.HasPrefix(name, "folded/") {
			return nil, fmt.Errorf("no param %q", name)
		}
		return random(n, nil), nil
	}
}

func random(n *ir.Node, syms map[string]int64) *tensor.Array {
	h := fnv.New64()
	h.Write([]byte(n.Name))
	r := ir.Range{Lo: -1, Hi: 1}
	if !n.Type.DType.IsFloat() {
		r = ir.Range{Lo: 0, Hi: 1}
	}
	return interp.Random(rand.New(rand.NewPCG(h.Sum64(), 3)), n.Type, syms, r)
}

// tolerance returns the largest tolerance of any op in the graphs, with a margin for splats that are rounded to f32.
func tolerance(graphs ...*ir.Graph) ir.Tolerance {
	tol := ir.Tolerance{Abs: 1e-6, Rel: 1e-6}
	for _, g := range graphs {
		for _, n := range g.Nodes {
			if n.Op == ir.ResultDef || !n.Type.Shape.IsStatic() {
				continue
			}
			for _, t := range n.Op.Tol(n.Attrs, n.InTypes(), n.ResultTypes()...) {
				tol.Abs, tol.Rel = max(tol.Abs, t.Abs), max(tol.Rel, t.Rel)
			}
		}
	}
	return tol
}
