package pass

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
)

// legalize rewrites nodes that the target does not run natively into nodes that it does. For a node it tries, in order,
//
//  1. the same op on operands that are broadcast first, except suffixes: mul x, s  ->  mul x, (expand s)
//  2. the same op in a wider type, where the target has it: gelu h    ->  cast (gelu (cast h {to=f32})) {to=f16}
//  3. the same op on operands of equal shapes:              add x, c  ->  add x, (expand c)
//  4. a plainer node of the same op (ir.Plainer)
//  5. the op's own expansion (ir.Lower)
//
// and repeats them until all nodes are native. If that fails, a node that the target runs by reference stays unchanged;
// otherwise an expansion may contain such nodes. A node for which nothing works is an error. Half floats go through f32
// before they are expanded because the ops' definitions round once, at the end. An expansion that would round half
// floats twice is not made.
//
// With Options.Elsewhere a node for which nothing works stays as it is if another target runs it.
func legalize(c *context, g *ir.Graph) (*ir.Graph, error) {
	l := &legalizer{to: c.target}
	expanded := map[*ir.Node][]*ir.Node{} // the results of each op that is rewritten
	var failed error
	next, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, _ []*ir.Node, lookup func(*ir.Node) *ir.Node) *ir.Node {
		by, result := n.Maker()
		if failed != nil {
			return nil
		}
		how, _ := c.target.Takes(by)
		if how == target.Native || Stored(by) {
			return nil
		}
		if expanded[by] == nil {
			in := by.MapIn(lookup)
			values, why := l.express(out, by, in)
			switch {
			case values != nil:
				c.fired(by.OpName(), by)
				c.report.Rewritten = count(c.report.Rewritten, by.OpName())
				expanded[by] = values
			case how == target.Reference, c.keep, c.elsewhere != nil && c.elsewhere(by):
				return nil
			default:
				failed = untaken(c.target, by, why)
				return nil
			}
		}
		return expanded[by][result]
	})
	if failed != nil {
		return nil, failed
	}
	return next, err
}

// legalizer rewrites nodes for a target.
type legalizer struct{ to *target.Description }

// express adds nodes to out that compute the results of n from its operands in. The target runs these nodes natively,
// or at least by reference if it does not run n itself. If there are no such nodes, express adds nothing, and why is
// the reason.
func (l *legalizer) express(out *ir.Graph, n *ir.Node, in []*ir.Node) (values []*ir.Node, why string) {
	values, why = l.rewrite(out, n, in, target.Native)
	if values != nil {
		return values, ""
	}
	if how, _ := l.to.Takes(n); how == target.Reference {
		return nil, why
	}
	return l.rewrite(out, n, in, target.Reference)
}

// emit adds n to out unchanged if the target runs it at least as well as least. Otherwise it rewrites n.
func (l *legalizer) emit(out *ir.Graph, n *ir.Node, in []*ir.Node, least target.How) (values []*ir.Node, why string) {
	probe := *n
	probe.In, probe.Graph = in, out
	how, why := l.to.Takes(&probe)
	if how >= least || Stored(n) {
		if n.Op.Tuple {
			return out.AddResults(len(n.Results), n.Op, n.Attrs, in...), ""
		}
		return []*ir.Node{out.AddDeclared(n.Op, n.Attrs, n.Type, in...)}, ""
	}
	if how == target.Reference {
		why = n.OpName() + " runs by reference"
	}
	values, deeper := l.rewrite(out, &probe, in, least)
	if values == nil && deeper != "" {
		why = deeper
	}
	return values, why
}

// rewrite tries the ways to express a node in their order.
func (l *legalizer) rewrite(out *ir.Graph, n *ir.Node, in []*ir.Node, least target.How) (
	values []*ir.Node, why string) {
	_, why = l.to.Takes(n)
	for _, way := range ways {
		s, leaves := scratch(n)
		var results []*ir.Node
		if err := s.Build(func() { results = way.rewrite(s, leaves, n) }); err != nil || results == nil {
			if err != nil {
				why = err.Error()
			}
			continue
		}
		if roundsHalves(s) > 1 {
			why = n.OpName() +
				" rounds half floats once; the nodes that express it would round them several times, and it is not run in f32 either"
			continue
		}
		before := len(out.Nodes)
		values, w := l.copyAll(out, s, leaves, in, results, least)
		if values != nil {
			return values, ""
		}
		out.Nodes = out.Nodes[:before]
		why = w
	}
	return nil, why
}

// roundsHalves counts the nodes of a graph whose results are half floats and rounded. In f16 and bf16 more than one
// such node in a row would exceed the tolerance of the op that they express.
func roundsHalves(g *ir.Graph) (count int) {
	for _, n := range g.Nodes {
		if n.Op == ir.ResultDef || n.Op.Eval == nil {
			continue
		}
		types := n.ResultTypes()
		for k, tol := range n.Op.Tol(n.Attrs, n.InTypes(), types...) {
			if d := types[k].DType; (d == dtype.F16 || d == dtype.BF16) && tol != (ir.Tolerance{}) {
				count++
			}
		}
	}
	return count
}

// copyAll emits the nodes of a scratch graph that the results need. in replaces the leaves of the scratch graph.
func (l *legalizer) copyAll(out, s *ir.Graph, leaves, in, results []*ir.Node, least target.How) (
	values []*ir.Node, why string) {
	need := needed(s, results)
	to := make([]*ir.Node, len(s.Nodes))
	for k, x := range leaves {
		if x != nil {
			to[x.ID] = in[k]
		}
	}
	for _, x := range s.Nodes {
		if to[x.ID] != nil || !need[x.ID] || x.Op == ir.ResultDef {
			continue
		}
		operands := x.MapIn(func(y *ir.Node) *ir.Node { return to[y.ID] })
		made, w := l.emit(out, x, operands, least)
		if made == nil {
			return nil, w
		}
		for k, v := range x.Values() {
			to[v.ID] = made[k]
		}
	}
	for _, r := range results {
		values = append(values, to[r.ID])
	}
	return values, ""
}

// needed reports, by node, whether the results need it.
func needed(s *ir.Graph, results []*ir.Node) []bool {
	need := make([]bool, len(s.Nodes))
	for _, r := range results {
		need[r.ID] = true
	}
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		for _, x := range s.Nodes[i].Operands() {
			need[x.ID] = need[x.ID] || need[i]
		}
	}
	return need
}

// scratch returns a graph with a leaf for each operand of a node. The leaf is a param if the operand is known before
// the run.
func scratch(n *ir.Node) (g *ir.Graph, leaves []*ir.Node) {
	g = ir.NewGraph("expansion", n.Graph.Syms...)
	return g, n.MapIn(func(x *ir.Node) *ir.Node {
		def := op.InputDef
		if known(x) {
			def = op.ParamDef
		}
		return g.AddDeclared(def, op.NoAttrs{}, x.Type)
	})
}

// known reports whether n is a weight or a constant, or a view of one.
func known(n *ir.Node) bool {
	for {
		if _, view := n.View(); !view {
			return n.Is(op.ParamDef, op.ConstDef)
		}
		n = n.In[0]
	}
}

// ways are the rewrites that legalize tries. Each adds nodes to g that compute n from the operands in. It returns nil
// if it does not apply.
var ways = []struct {
	name    string // for people
	rewrite func(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node
}{
	{"with operands that are broadcast first", spread},
	{"in a wider type", func(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node {
		return widen(g, in, n, false)
	}},
	{"in a wider type, weights too", func(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node {
		return widen(g, in, n, true)
	}},
	{"with operands of equal shapes", spreadAll},
	{"by a plainer form", func(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node {
		if r := n.Op.PlainTo(g, moved(g, n, in), in); r != nil {
			return []*ir.Node{r}
		}
		return nil
	}},
	{"by its expansion", func(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node {
		if !n.Op.CanLower() {
			return nil
		}
		return n.Op.LowerTo(g, moved(g, n, in), in)
	}},
}

// moved copies n to another graph, with the operands in.
func moved(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	m := *n
	m.Graph, m.In = g, in
	return &m
}

// spread inserts expands before an elementwise op, so that the shape of each operand is a suffix of the result's. Most
// targets can broadcast suffixes.
func spread(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node {
	return expandUnless(g, in, n, op.IsSuffix)
}

// spreadAll expands all operands to the same shape, for targets that cannot broadcast.
func spreadAll(g *ir.Graph, in []*ir.Node, n *ir.Node) []*ir.Node {
	return expandUnless(g, in, n, ir.Shape.Equal)
}

// expandUnless copies an elementwise op and expands each operand to its shape unless fits is true for the operand. It
// returns nil if all fit.
func expandUnless(g *ir.Graph, in []*ir.Node, n *ir.Node, fits func(s, full ir.Shape) bool) []*ir.Node {
	if !n.Op.Elementwise {
		return nil
	}
	full := slices.Clone(in)
	for i, x := range full {
		if !fits(x.Type.Shape, n.Type.Shape) {
			full[i] = op.Expand(x, n.Type.Shape)
		}
	}
	if slices.Equal(full, in) {
		return nil
	}
	return []*ir.Node{g.Add(n.Op, n.Attrs, full...)}
}

// widen computes an op in a wider element type if its definition allows that (ir.OpDef.Wider). Params keep their type
// unless weights is set.
func widen(g *ir.Graph, in []*ir.Node, n *ir.Node, weights bool) []*ir.Node {
	results := n.ResultTypes()
	wide, changed := slices.Clone(in), false
	for i, x := range in {
		if x == nil {
			continue
		}
		if d, ok := n.Op.Wider(x.Type.DType); ok && (weights || !x.Is(op.ParamDef)) {
			wide[i], changed = op.Cast(x, d), true
		}
	}
	if !changed {
		return nil
	}
	values := g.AddResults(len(results), n.Op, n.Attrs, wide...)
	for k, v := range values {
		if !v.Type.Shape.Equal(results[k].Shape) {
			return nil
		}
		if v.Type.DType != results[k].DType {
			values[k] = op.Cast(v, results[k].DType)
		}
	}
	return values
}

// untaken returns the error for a node that the target does not run in any form.
func untaken(to *target.Description, n *ir.Node, why string) error {
	var others []string
	for _, d := range target.Builtin() {
		if d.Name != to.Name && Runs(d, n) {
			others = append(others, d.Name)
		}
	}
	e := diag.New(code.Untaken, n.OpName(), "target %s does not run it on %s, at %s: %s", to.Name, Types(n), origin(n),
		why)
	if hint := typeHint(to, n); hint != "" {
		return e.WithHint("%s; --gaps lists all that %s lacks", hint, to.Name)
	}
	if others == nil {
		return e.WithHint("no built-in target runs it; --gaps lists all that %s lacks", to.Name)
	}
	return e.WithHint(
		"these targets run it: %s; compile for one of them, or let one run what %s lacks: --fallback %s; "+
			"--gaps lists all that %s lacks", strings.Join(others, ", "), to.Name, others[0], to.Name)
}

// typeHint says what to do about a weight or an input of an element type that the target lacks, or returns "".
func typeHint(to *target.Description, n *ir.Node) string {
	t := n.Type.DType
	if !n.Is(op.ParamDef, op.InputDef) || to.HasType(t) {
		return ""
	}
	rule := fmt.Sprintf("add %v to the target's types, and rules for the ops that read it", t)
	f32 := to.HasType(dtype.F32)
	if f32 && (t == dtype.F16 || t == dtype.BF16) {
		rule = fmt.Sprintf("add %v to the target's types, and the rule run cast(%v) -> f32", t, t)
	}
	if f32 && n.Is(op.ParamDef) && (t.IsFloat() || t.IsPacked()) {
		return "--dtype f32 stores the weights of a checkpoint as f32; or " + rule
	}
	return rule
}

// Types returns the types of a node's operands and results as text.
func Types(n *ir.Node) string {
	var in, out []string
	for k, x := range n.Operands() {
		name := ""
		if k < len(n.Op.Operands) && n.Op.Operands[k].Optional {
			name = n.Op.Operands[k].Name + ": "
		}
		in = append(in, name+x.Type.String())
	}
	for _, t := range n.ResultTypes() {
		out = append(out, t.String())
	}
	return fmt.Sprintf("(%s) -> %s", strings.Join(in, ", "), strings.Join(out, ", "))
}

// Runs reports whether a target runs a node in some form.
func Runs(d *target.Description, n *ir.Node) bool {
	if Stored(n) {
		return d.HasType(n.Type.DType)
	}
	if how, _ := d.Takes(n); how != target.No {
		return true
	}
	g, leaves := scratch(n)
	values, _ := (&legalizer{d}).express(g, n, leaves)
	return values != nil
}

// origin describes where in the model a node comes from. It returns the name of the node, or of the nearest value that
// has a name.
func origin(n *ir.Node) string {
	if n.Name != "" {
		return n.Name
	}
	near := []*ir.Node{n}
	for i := 0; i < len(near); i++ { // near grows in the loop: a breadth-first search
		if i > 0 && near[i].Name != "" {
			return fmt.Sprintf("%s, near %s", n.Label(), near[i].Name)
		}
		for _, x := range near[i].Operands() {
			near = append(near, x)
		}
	}
	return n.Label()
}

// Stored reports whether n is a const or iota that becomes a weight, so that no target needs a kernel for it, only its
// element type.
func Stored(n *ir.Node) bool {
	if !n.Is(op.ConstDef, op.IotaDef) || !n.Type.Shape.IsStatic() {
		return false
	}
	elems, ok := n.Type.Shape.Numel()
	return ok && elems.Const <= foldElems
}

// refuse returns the reason not to replace old by n, or "". A target must run n at least as well as old. An op that it
// runs in a wider type counts as one that it runs. If other backends run the ops that the target lacks, n must be an op
// that the target runs: an activation that runs elsewhere must not be fused with a product that the target runs.
func (c *context) refuse(old, n *ir.Node) string {
	if rank, why := c.rank(n); rank < target.Native {
		if before, _ := c.rank(old); rank < before || rank == target.No && c.elsewhere != nil {
			return missTarget + ": " + why
		}
	}
	return ""
}

func (c *context) rank(n *ir.Node) (target.How, string) {
	how, why := c.target.Takes(n)
	if how == target.Native || Stored(n) {
		return target.Native, ""
	}
	for _, weights := range []bool{false, true} {
		s, leaves := scratch(n)
		var wide []*ir.Node
		if err := s.Build(func() { wide = widen(s, leaves, n, weights) }); err != nil || wide == nil {
			continue
		}
		if !slices.ContainsFunc(
			s.Nodes, func(x *ir.Node) bool { h, _ := c.target.Takes(x); return h != target.Native }) {
			return target.Native, ""
		}
	}
	if how == target.Reference {
		why = n.OpName() + " would run by reference"
	}
	return how, why
}

// missTarget means that the target does not run the new node.
const missTarget = "NotTaken"
