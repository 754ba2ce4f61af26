package op_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// eachCase runs f for every case of every op of this package.
func eachCase(t *testing.T, f func(t *testing.T, def *ir.OpDef, c ir.Case[any])) {
	for _, def := range ir.Defs() {
		t.Run(def.Name, func(t *testing.T) {
			for i, c := range def.Cases() {
				t.Run(fmt.Sprintf("%d", i), func(t *testing.T) { f(t, def, c) })
			}
		})
	}
}

// caseGraph returns a graph with one op on inputs named i0, i1, ....
func caseGraph(t *testing.T, def *ir.OpDef, c ir.Case[any]) *ir.Graph {
	t.Helper()
	g := ir.NewGraph("case")
	in := make([]*ir.Node, len(c.In))
	for i, typ := range c.In {
		if typ.Present() {
			in[i] = op.Input(g, fmt.Sprintf("i%d", i), typ)
		}
	}
	outs, _ := def.InferResults(c.Attrs, c.In, c.Out, nil)
	if def.Updates { // first give the states, as many as there are results, the values of inputs
		zero := op.Const(g, 0, ir.TypeOf(dtype.I32))
		for k := range outs {
			in[k] = op.KVAppend(op.State(g, fmt.Sprint("state", k), c.In[k], 0), in[k], zero, 0)
		}
	}
	if def.Tuple {
		for k, n := range g.AddResults(len(outs), def, c.Attrs, in...) {
			g.Return(fmt.Sprint("out", k), n.Named(fmt.Sprint("out", k)))
		}
	} else {
		g.Return("out", g.AddDeclared(def, c.Attrs, c.Out, in...).Named("out"))
	}
	if err := g.Verify(); err != nil {
		t.Fatalf("%v %+v: %v", c.In, c.Attrs, err)
	}
	return g
}

// results evaluates a case on operands and returns all results.
func results(t *testing.T, def *ir.OpDef, c ir.Case[any], in []*tensor.Array) []*tensor.Array {
	t.Helper()
	types, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*tensor.Array, len(types))
	for k, typ := range types {
		out[k] = tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
	}
	if err := def.Eval(c.Attrs, in, out...); err != nil {
		t.Fatal(err)
	}
	return out
}

// eval evaluates an op by its definition.
func eval(t *testing.T, def *ir.OpDef, attrs any, in ...*tensor.Array) *tensor.Array {
	t.Helper()
	out, err := tryEval(def, attrs, in...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryEval(def *ir.OpDef, attrs any, in ...*tensor.Array) (*tensor.Array, error) {
	types := make([]ir.Type, len(in))
	for i, x := range in {
		types[i] = interp.TypeOf(x)
	}
	typ, err := def.Infer(attrs, types, ir.Type{}, nil)
	if err != nil {
		return nil, err
	}
	out := tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
	return out, def.Eval(attrs, in, out)
}

func TestDefinitionsAreComplete(t *testing.T) {
	for _, def := range ir.Defs() {
		if def == ir.ResultDef { // belongs to the tuple node before it
			continue
		}
		t.Run(def.Name, func(t *testing.T) {
			if len(def.Cases()) == 0 {
				t.Errorf("%s has no cases", def.Name)
			}
			if def.Eval == nil && !def.Effects {
				t.Errorf("%s has no reference evaluation", def.Name)
			}
			if def.Block && !def.CanLower() {
				t.Errorf("%s is a block, but has no expansion", def.Name)
			}
			if def.Declared && def.Elementwise {
				t.Errorf("%s is declared, so it cannot be elementwise", def.Name)
			}
			if def.Commutative && (len(def.Operands) != 2 || def.Required() != 2) {
				t.Errorf("%s is commutative, but not binary", def.Name)
			}
			for _, name := range def.AttrNames() {
				if def.AttrKind(name) == "" {
					t.Errorf("%s: attribute %s has no kind", def.Name, name)
				}
			}
		})
	}
}

// TestCases checks for every case that its types can be inferred, that its cost and tolerance are plausible, that
// evaluating it does not change its operands and gives values of its type, and that it survives printing and parsing.
func TestCases(t *testing.T) {
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		g := caseGraph(t, def, c)
		n, _ := g.Outputs[0].Node.Maker()
		types := n.ResultTypes()
		tols := def.Tol(c.Attrs, c.In, types...)
		if len(tols) != len(types) {
			t.Errorf("%d tolerances for %d results", len(tols), len(types))
		}
		for _, tol := range tols {
			if !(tol.Abs >= 0 && tol.Rel >= 0 && tol.Abs < 0.1 && tol.Rel < 0.1) {
				t.Errorf("tolerance is %v", tol)
			}
		}
		if f := def.FLOPs(c.Attrs, c.In, types...); f < 0 {
			t.Errorf("%d FLOPs", f)
		}
		if _, ok := n.View(); def.AlwaysView && !ok {
			t.Error("the result is not a view")
		}
		text := g.String()
		back, err := ir.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got := back.String(); got != text {
			t.Errorf("text is\n%swant\n%s", got, text)
		}
		if got, _ := back.Outputs[0].Node.Maker(); !reflect.DeepEqual(got.Attrs, c.Attrs) {
			t.Errorf("attributes from text are %+v; want %+v", got.Attrs, c.Attrs)
		}
		if def.Eval == nil {
			return
		}
		in, again := interp.CaseInputs(c, 1), interp.CaseInputs(c, 1)
		outs := results(t, def, c, in)
		if !reflect.DeepEqual(in, again) {
			t.Error("Eval wrote its operands")
		}
		for _, out := range outs {
			if out.DType != dtype.F32 {
				if err := interp.Compare(out.Tensor().Array(), out, ir.Tolerance{}); err != nil {
					t.Errorf("result is not of its type: %v", err)
				}
			}
			for i, v := range out.Floats {
				if math.IsNaN(v) && tensor.Numel(in[0].Shape) > 0 {
					t.Fatalf("element %d is NaN", i)
				}
			}
		}
	})
}

// TestPlainer checks that a plainer form computes the same as the op, and that repeating this ends.
func TestPlainer(t *testing.T) {
	tried := map[string]bool{} // for ops with plainer forms that -run selects: whether a case has one
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		if !def.HasPlainer() {
			return
		}
		if !tried[def.Name] {
			tried[def.Name] = false
		}
		g := caseGraph(t, def, c)
		in := interp.CaseInputs(c, 2)
		want := results(t, def, c, in)
		tol := loweredTolerance(want[0].DType)
		for forms := 0; ; forms++ {
			if forms == 10 {
				t.Fatalf("no end of plainer forms:\n%v", g)
			}
			changed := false
			next, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
				r := n.Op.PlainTo(out, n, in)
				changed = changed || r != nil
				return r
			})
			if err != nil {
				t.Fatal(err)
			}
			if !changed {
				break
			}
			tried[def.Name] = true
			got, err := interp.Run(next, nil, interpInputs(next, in), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := interp.Compare(got["out"], want[0], tol); err != nil {
				t.Error(err)
			}
			g = next
		}
	})
	for name, found := range tried {
		if !found {
			t.Errorf("no case of %s has a plainer form", name)
		}
	}
}

// loweredTolerance returns how far a lowering may differ from the definition. It rounds half floats in between and
// constants to f32.
func loweredTolerance(d dtype.DType) ir.Tolerance {
	switch d {
	case dtype.F16:
		return ir.Tolerance{Abs: 0.02, Rel: 0.01}
	case dtype.BF16:
		return ir.Tolerance{Abs: 0.1, Rel: 0.05}
	case dtype.F32:
		return ir.Tolerance{Abs: 1e-6, Rel: 1e-6}
	}
	return ir.Tolerance{Abs: 1e-12, Rel: 1e-9}
}

// TestLowered checks that the lowering of an op computes the same as its definition. Nothing is rounded inside a fused
// op, so half floats may differ by a few units more than in a kernel.
func TestLowered(t *testing.T) {
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		if !def.CanLower() || def.Eval == nil {
			return
		}
		g, err := lowered(t, def, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		for _, n := range g.Nodes {
			if n.Op == def {
				t.Fatal("lowers to itself")
			}
		}
		check := func(in []*tensor.Array) {
			got, err := interp.Run(g, nil, interpInputs(g, in), nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range results(t, def, c, in) {
				if err := interp.Compare(got[g.Outputs[k].Name], want, loweredTolerance(want.DType)); err != nil {
					t.Errorf("result %d: %v", k, err)
				}
			}
		}
		in := interp.CaseInputs(c, 2)
		check(in)
		if def.Elementwise {
			for _, x := range in {
				for i := range x.Floats {
					x.Floats[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 30, -30,
						1}[i%8]
				}
			}
			check(in)
		}
	})
}

// lowered returns a graph with the lowering of a case.
func lowered(t *testing.T, def *ir.OpDef, c ir.Case[any]) (*ir.Graph, error) {
	t.Helper()
	if !def.Updates {
		return interp.LowerOne(def, c.Attrs, c.In, c.Out)
	}
	g, _, err := caseGraph(t, def, c).Expand(func(n *ir.Node) bool { return n.Op == def })
	return g, err
}

// interpInputs assigns the operands that are there to the graph's inputs in order.
func interpInputs(g *ir.Graph, in []*tensor.Array) map[string]*tensor.Array {
	named := map[string]*tensor.Array{}
	in = slices.DeleteFunc(slices.Clone(in), func(a *tensor.Array) bool { return a == nil })
	for i, x := range g.Inputs() {
		named[x.Name] = in[i]
	}
	return named
}

// TestElementwise checks that an elementwise op on broadcast operands gives the same as on expanded operands and,
// element by element, as on scalars.
func TestElementwise(t *testing.T) {
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		if !def.Elementwise {
			return
		}
		in := interp.CaseInputs(c, 3)
		out := eval(t, def, c.Attrs, in...)
		full := make([]*tensor.Array, len(in))
		for k, x := range in {
			full[k] = tensor.NewArray(x.DType, out.Shape...)
			if err := op.ExpandDef.Eval(op.NoAttrs{}, []*tensor.Array{x}, full[k]); err != nil {
				t.Fatal(err)
			}
		}
		if err := interp.Compare(eval(t, def, c.Attrs, full...), out, ir.Tolerance{}); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, out.Len() / 2, out.Len() - 1} {
			if out.Len() == 0 {
				break
			}
			one := make([]*tensor.Array, len(in))
			for k, x := range full {
				one[k] = tensor.NewArray(x.DType)
				if x.Floats != nil {
					one[k].Floats[0] = x.Floats[i]
				} else {
					one[k].Ints[0] = x.Ints[i]
				}
			}
			if got := eval(t, def, c.Attrs, one...).At(0); interp.Excess(got, out.At(i), ir.Tolerance{}) > 0 {
				t.Errorf("element %d is %v; alone it is %v", i, out.At(i), got)
			}
		}
	})
}

// TestInPlace checks that an op gives the same result if it overwrites an operand that it may overwrite.
func TestInPlace(t *testing.T) {
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		for r, list := range def.ResultsInPlace {
			for _, k := range list {
				in := interp.CaseInputs(c, 6)
				types, err := def.InferResults(c.Attrs, c.In, ir.Type{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				want, out := make([]*tensor.Array, len(types)), make([]*tensor.Array, len(types))
				for i, typ := range types {
					want[i] = tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
					out[i] = tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
				}
				out[r] = in[k]
				if err := errors.Join(def.Eval(c.Attrs, in, want...), def.Eval(c.Attrs, in, out...)); err != nil {
					t.Fatal(err)
				}
				for i := range out {
					if err := interp.Compare(out[i], want[i], ir.Tolerance{}); err != nil {
						t.Errorf("result %d with result %d over operand %d: %v", i, r, k, err)
					}
				}
			}
		}
		for _, k := range def.InPlace {
			if k >= len(c.In) || !c.In[k].Present() {
				continue
			}
			in := interp.CaseInputs(c, 6)
			want := eval(t, def, c.Attrs, in...)
			if !interp.TypeOf(in[k]).Equal(interp.TypeOf(want)) {
				continue
			}
			if err := def.Eval(c.Attrs, in, in[k]); err != nil {
				t.Fatal(err)
			}
			if err := interp.Compare(in[k], want, ir.Tolerance{}); err != nil {
				t.Errorf("over operand %d: %v", k, err)
			}
		}
	})
}

// TestCommutative checks that swapping the operands changes nothing.
func TestCommutative(t *testing.T) {
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		if def.Commutative {
			in := interp.CaseInputs(c, 4)
			if err := interp.Compare(eval(t, def, c.Attrs, in[1], in[0]), eval(t, def, c.Attrs, in[0], in[1]),
				ir.Tolerance{}); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestViews checks that the bytes of a view are those of its operand at the offset that View returns.
func TestViews(t *testing.T) {
	views := 0
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		g := caseGraph(t, def, c)
		n := g.Outputs[0].Node
		offset, ok := n.View()
		if !ok {
			return
		}
		views++
		in := interp.CaseInputs(c, 5)
		out := tensor.NewArray(n.Type.DType, n.Type.Shape.Eval(nil)...)
		if err := def.Eval(c.Attrs, in, out); err != nil {
			t.Fatal(err)
		}
		got, src := out.Tensor().Data, in[0].Tensor().Data
		if string(got) != string(src[offset:offset+int64(len(got))]) {
			t.Errorf("not the %d bytes of its operand at %d", len(got), offset)
		}
	})
	if views < 10 {
		t.Errorf("only %d cases are views", views)
	}
}

// TestPackedRefused checks that ops neither accept nor return packed types unless they declare it.
func TestPackedRefused(t *testing.T) {
	eachCase(t, func(t *testing.T, def *ir.OpDef, c ir.Case[any]) {
		if def.Packed || def.Block {
			return
		}
		for k, typ := range c.In {
			if !typ.Present() {
				continue
			}
			in := slices.Clone(c.In)
			in[k].DType = dtype.Q8_0
			if _, err := def.InferResults(c.Attrs, in, c.Out, nil); err == nil ||
				!strings.Contains(err.Error(), "dequant_matmul") {
				t.Errorf("operand %d is %v, and the error is %v", k, in[k], err)
			}
		}
		if def.Declared {
			if _, err := def.InferResults(c.Attrs, c.In, ir.Type{DType: dtype.MXFP4, Shape: c.Out.Shape},
				nil); err == nil {
				t.Errorf("the declared type may be packed")
			}
		}
	})
}
