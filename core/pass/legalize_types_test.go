package pass_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// caseOf is a case of an op, or that case with other element types.
type caseOf struct {
	def *ir.OpDef
	ir.Case[any]
	outs []ir.Type
}

func (c caseOf) String() string {
	return fmt.Sprintf("%s %v %+v -> %v", c.def.Name, c.In, c.Attrs, c.outs)
}

// typedCases returns the cases of devicetest.TypedCases.
func typedCases(def *ir.OpDef) (out []caseOf) {
	for _, c := range devicetest.TypedCases(def) {
		outs, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
		if err != nil {
			panic(err)
		}
		out = append(out, caseOf{def, c, outs})
	}
	return out
}

// graph returns a graph of the op alone.
func (c caseOf) graph() *ir.Graph {
	g := ir.NewGraph(c.def.Name)
	in := make([]*ir.Node, len(c.In))
	for k, t := range c.In {
		if t.Present() {
			in[k] = op.Input(g, fmt.Sprint("x", k), t)
		}
	}
	if c.def.Updates {
		zero := op.Const(g, 0, ir.TypeOf(dtype.I32))
		for k := range c.outs {
			in[k] = op.KVAppend(op.State(g, fmt.Sprint("state", k), c.In[k], 0), in[k], zero, 0)
		}
	}
	if c.def.Tuple {
		for k, n := range g.AddResults(len(c.outs), c.def, c.Attrs, in...) {
			g.Return(fmt.Sprint("y", k), n)
		}
		return g
	}
	g.Return("y", g.AddDeclared(c.def, c.Attrs, c.Case.Out, in...))
	return g
}

// values returns operands for two runs: random ones, and the ends of the integer types with, for elementwise ops,
// special floats.
func (c caseOf) values() [][]*tensor.Array {
	rng := rand.New(rand.NewPCG(4, 4))
	ends := interp.CaseInputs(c.Case, 3)
	for _, x := range ends {
		if x == nil {
			continue
		}
		specials := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1, 0.5, 2.5, -3, 100}
		for i := range x.Floats {
			if c.def.Elementwise {
				x.Floats[i] = specials[rng.IntN(len(specials))]
			}
		}
		if x.Ints == nil || x.DType == dtype.Bool {
			continue
		}
		lo, hi := x.DType.IntRange()
		pool := []int64{lo, hi, lo + 1, hi - 1, 0, 1, 2, 7, 8, 9, 15, 16, 31, 32, 100, max(lo, -1), max(lo, -7)}
		for i := range x.Ints {
			x.Ints[i] = pool[rng.IntN(len(pool))]
		}
	}
	return [][]*tensor.Array{interp.CaseInputs(c.Case, 2), ends}
}

// everything takes every node.
func everything() *target.Description {
	d := &target.Description{Name: "everything", Version: "1", Types: dtype.Known()}
	for _, def := range ir.Defs() {
		if !def.Block && !def.Effects && def != ir.ResultDef {
			d.Rules = append(d.Rules, target.RuleOf(def, target.Native))
		}
	}
	return d.Sort()
}

// without returns a description whose rules for an op are replaced by one that accepts only the given element types. It
// has no rule if types is empty.
func without(d *target.Description, def *ir.OpDef, types []dtype.DType) *target.Description {
	out := *d
	out.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(r target.Rule) bool {
		return r.Op == def.Name || r.Op == target.AnyOp
	})
	if len(types) > 0 && len(def.Operands) > 0 {
		r := target.RuleOf(def, target.Native)
		r.In = []target.Operand{{Types: types}}
		out.Rules = append(out.Rules, r)
	}
	return out.Sort()
}

// targetsOf returns the built-in targets, and targets that lack the op or some of its types.
func targetsOf(c caseOf) []*target.Description {
	out := target.Builtin()
	for _, base := range []*target.Description{out[len(out)-1], everything()} {
		out = append(out, without(base, c.def, nil), without(base, c.def, []dtype.DType{dtype.F32, dtype.I32}),
			without(base, c.def, []dtype.DType{dtype.F32, dtype.I32, dtype.Bool}))
		var used []dtype.DType
		for _, t := range c.In {
			if t.Present() && !slices.Contains(used, t.DType) {
				used = append(used, t.DType)
				rest := slices.DeleteFunc(dtype.Known(), func(d dtype.DType) bool { return d == t.DType })
				out = append(out, without(base, c.def, rest))
			}
		}
	}
	return out
}

// TestLegalizeTypes takes away the rules of every op for every element type, and compares the nodes that legalize makes
// instead with the op. It tries a part of the cases, which RLX_CONFORMANCE chooses.
func TestLegalizeTypes(t *testing.T) {
	compared := 0
	for _, def := range ir.Defs() {
		if def.Eval == nil || def.Block || def.Effects {
			continue
		}
		for _, c := range chosen(typedCases(def)) {
			g := c.graph()
			if err := g.Err(); err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			seen := map[string]bool{g.String(): true}
			for _, to := range targetsOf(c) {
				out, _, err := pass.RunOne(g, to, "legalize", pass.Options{Verify: true})
				if err != nil {
					var e *diag.Error
					if !errors.As(err, &e) || e.Code != code.Untaken {
						t.Errorf("%v: %v", c, err)
					}
					continue
				}
				if text := out.String(); !seen[text] {
					seen[text] = true
					compared++
					if err := c.compare(g, out); err != nil {
						t.Errorf("%s: %v: %v\n%v", to.Name, c, err, out)
					}
				}
			}
		}
	}
	if compared < 500 {
		t.Errorf("%d rewrites were compared; want at least 500", compared)
	}
	t.Logf("%d rewrites compared", compared)
}

// chosen returns a tenth of the cases, with at least one for each type of the first operand, or all with
// RLX_CONFORMANCE=all.
func chosen(cases []caseOf) (out []caseOf) {
	env := os.Getenv(devicetest.SampleEnv)
	if env == "all" {
		return cases
	}
	seen := map[dtype.DType]bool{}
	seed, _ := strconv.ParseUint(env, 10, 64)
	rng := rand.New(rand.NewPCG(seed, 33))
	rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	for _, c := range cases {
		if d := append(c.In, c.outs...)[0].DType; !seen[d] || rng.IntN(10) == 0 {
			seen[d] = true
			out = append(out, c)
		}
	}
	return out
}

// compare compares the results of the op with those of the graph that legalize made of it.
func (c caseOf) compare(g, out *ir.Graph) error {
	wider := true // legalize only changed types and shapes
	for _, n := range out.Nodes {
		wider = wider && (n.Op == c.def || n.Op == ir.ResultDef || n.Is(op.InputDef, op.CastDef, op.ExpandDef))
	}
	for _, in := range c.values() {
		if err := sameValues(g, out, in, wider); err != nil {
			return err
		}
	}
	return nil
}

// sameValues compares two graphs. If exact is set, their outputs must be equal. Otherwise they may differ by a rounding
// of half floats, and by the tolerance for the lowerings of package op.
func sameValues(g, out *ir.Graph, in []*tensor.Array, exact bool) error {
	named := map[string]*tensor.Array{}
	for k, x := range g.Inputs() {
		named[x.Name] = in[k]
	}
	want, refused := interp.Run(g, nil, named, nil)
	got, err := interp.Run(out, nil, named, nil)
	if (err == nil) != (refused == nil) {
		return fmt.Errorf("errors are %v and, rewritten, %v", refused, err)
	}
	for name, w := range want {
		tol := map[dtype.DType]ir.Tolerance{dtype.F32: {Abs: 1e-6, Rel: 1e-6}, dtype.F64: {Abs: 1e-12, Rel: 1e-9},
			dtype.F16: {Abs: 1e-6, Rel: 0x1p-10}, dtype.BF16: {Abs: 1e-6, Rel: 0x1p-7}}[w.DType]
		if exact {
			tol = ir.Tolerance{}
		}
		if err := interp.Compare(got[name], w, tol); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
