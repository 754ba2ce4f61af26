package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// LoopAttrs are the attributes of loop.
type LoopAttrs struct {
	Body    *ir.Graph `attr:"body"`    // the next carried values
	Cond    *ir.Graph `attr:"cond"`    // whether to go on; nil means always
	Carried int       `attr:"carried"` // number of operands, the first, that are initial carried values
	// number of operands, after all others but guard, that have a slice per iteration
	Steps   int  `attr:"steps"`
	Length  int  `attr:"length"`  // the loop ends after this many iterations
	Guarded bool `attr:"guarded"` // the last operand is the guard, bool[]; if it is false, nothing runs
	// Results has the result's numbers: k < Carried is carried value k at the end, Carried+k all values of it.
	Results []int `attr:"results"`
}

// MaxIterations is the largest number of iterations of a loop.
const MaxIterations = math.MaxInt32

// A loop is unrolled if that gives at most UnrollNodes nodes. Then ops are fused across iterations, and a step costs no
// more than outside of a loop. A longer loop stays one step on targets that run loops, so its program is small whatever
// the number of iterations is. For other targets it is unrolled, too, unless that gives more than MaxUnrolled nodes,
// which is an error. Both limits count the nodes of the bodies before they are optimized.
const (
	UnrollNodes = 2048
	MaxUnrolled = 1 << 16
)

// LoopDef is a loop that is one step.
var LoopDef = ir.DefineTuple(ir.TupleDef[LoopAttrs]{
	Name: "loop",
	Doc: "A loop that is one step. The operands are the initial carried values, values that every iteration " +
		"reads, values with a slice for each iteration ([length, ...]; steps of them), and, if guarded, a " +
		"bool[]. Iteration t = 0, 1, ... first evaluates cond, if the loop has it, on the carried values and " +
		"those that do not change. If its output, bool[], is false, the loop ends. Then the outputs of body " +
		"for the carried values, those that do not change, and the slices t are the next carried values. The " +
		"loop ends after at most length iterations, 1 to 2147483647. If guard is false, no iteration runs. " +
		"Each result is a carried value at the end or, for numbers from carried on, a carried value after " +
		"each iteration, of type [length, ...]; rows of iterations that do not run are 0. The bodies may read " +
		"weights. An artifact has a plan and a schedule for each of them. The compiler makes loops of the " +
		"blocks while and scan.",
	Results:  "carried values at the end, or [length, ...] of all iterations",
	Operands: "in...",
	Nested:   true,
	Packed:   true,
	Infer: func(s ir.Sig[LoopAttrs]) ([]ir.Type, error) {
		a := s.Attrs
		if err := a.check(s.In); err != nil {
			return nil, err
		}
		types := a.inputs(s.In)
		if a.Cond != nil {
			out, err := ir.CheckBody("cond", a.Cond, types[:len(types)-a.Steps], s.Syms)
			if err == nil && (len(out) != 1 || !out[0].Equal(ir.Type{DType: dtype.Bool})) {
				err = fmt.Errorf("cond: graph %s returns %v; want one value of type bool[]", a.Cond.Name, out)
			}
			if err != nil {
				return nil, err
			}
		}
		out, err := ir.CheckBody("body", a.Body, types, s.Syms)
		if err != nil {
			return nil, err
		}
		want := s.In[:a.Carried]
		same := len(out) == len(want)
		for k := 0; k < len(want) && same; k++ {
			same = out[k].Equal(want[k])
		}
		if !same {
			return nil, fmt.Errorf("body: graph %s returns %v; want the types of the carried values, %v", a.Body.Name,
				out, want)
		}
		var results []ir.Type
		for _, k := range a.Results {
			t := want[k%a.Carried]
			if k >= a.Carried {
				t.Shape = append(ir.ShapeOf(int64(a.Length)), t.Shape...)
			}
			results = append(results, t)
		}
		return results, nil
	},
	Eval: func(a LoopAttrs, in, out []*tensor.Array) error {
		return a.run(func(g *ir.Graph, in []*tensor.Array) ([]*tensor.Array, error) {
			types := make([]ir.Type, len(in))
			for k, x := range in {
				types[k] = ir.TypeOf(x.DType, sizes(x)...)
			}
			if len(g.Params()) > 0 {
				return nil, fmt.Errorf("graph %s reads weights, which are not given", g.Name)
			}
			if len(g.Syms) > 0 {
				var err error
				if g, err = g.Bind(types, nil); err != nil {
					return nil, err
				}
			}
			values := make([]*tensor.Array, len(g.Outputs))
			for k, o := range g.Outputs {
				values[k] = tensor.NewArray(o.Node.Type.DType, o.Node.Type.Shape.Eval(nil)...)
			}
			return values, evalGraph(g, in, values)
		}, in, out)
	},
	EvalBodies: LoopAttrs.run,
	Memory: func(s ir.Sig[LoopAttrs], _ []ir.Type) (bytes int64) {
		s.Attrs.each(func(n *ir.Node) {
			arrays, own := n.EvalMemory()
			bytes += arrays + own
		})
		return bytes
	},
	FLOPs: func(a LoopAttrs, _, _ []ir.Type) (flops int64) {
		a.each(func(n *ir.Node) {
			in, out := largest(n)
			if flops += n.Op.FLOPs(n.Attrs, in, out...); flops < 0 {
				flops = math.MaxInt64 / 2
			}
		})
		if flops > math.MaxInt64/int64(a.Length) {
			return math.MaxInt64
		}
		return flops * int64(a.Length)
	},
	Tol:   loopTolerance,
	Cases: loopCases,
})

// run evaluates the loop. run evaluates one of its graphs.
func (a LoopAttrs) run(run ir.RunBody, in, out []*tensor.Array) error {
	now, fixed, slices, guard := a.split(in)
	for t := 0; t < a.Length && (guard == nil || (*guard).At(0) != 0); t++ {
		args := append(append([]*tensor.Array(nil), now...), fixed...)
		if a.Cond != nil {
			c, err := run(a.Cond, args)
			if err != nil {
				return fmt.Errorf("iteration %d: %w", t, err)
			}
			if c[0].At(0) == 0 {
				break
			}
		}
		for _, x := range slices {
			y := tensor.NewArray(x.DType, x.Shape[1:]...)
			copyRange(y, 0, x, t*y.Len(), y.Len())
			args = append(args, y)
		}
		var err error
		if now, err = run(a.Body, args); err != nil {
			return fmt.Errorf("iteration %d: %w", t, err)
		}
		for i, k := range a.Results {
			if k >= a.Carried {
				x := now[k-a.Carried]
				copyRange(out[i], t*x.Len(), x, 0, x.Len())
			}
		}
	}
	for i, k := range a.Results {
		if k < a.Carried {
			copyRange(out[i], 0, now[k], 0, now[k].Len())
		}
	}
	return nil
}

// check checks the numbers among the attributes, for operands of the types in.
func (a LoopAttrs) check(in []ir.Type) error {
	n := len(in)
	if a.Guarded {
		n--
		if n < 0 || !in[n].Equal(ir.Type{DType: dtype.Bool}) {
			return fmt.Errorf("guarded is set, and the last of the operands %v is not of type bool[]", in)
		}
	}
	switch {
	case a.Carried < 1 || a.Steps < 0 || a.Carried > n || a.Steps > n-a.Carried:
		return fmt.Errorf(
			"carried is %d and steps %d of %d operands; want 1 or more carried values and 0 or more with slices",
			a.Carried, a.Steps, n)
	case a.Length < 1 || a.Length > MaxIterations:
		return fmt.Errorf("length is %d; want 1 to %d", a.Length, MaxIterations)
	case len(a.Results) == 0:
		return fmt.Errorf("results is empty; want the number of a carried value")
	}
	for i, k := range a.Results {
		if k < 0 || k >= 2*a.Carried || i > 0 && k <= a.Results[i-1] {
			return fmt.Errorf("results are %v; want ascending numbers from 0 to %d", a.Results, 2*a.Carried-1)
		}
	}
	for k, t := range in[n-a.Steps : n] {
		if t.DType.IsPacked() || t.Rank() == 0 || !t.Shape[0].Is(int64(a.Length)) {
			return fmt.Errorf("in[%d] is %v; want %d slices, the length", n-a.Steps+k, t, a.Length)
		}
	}
	return nil
}

// inputs returns the types of the inputs of body, for operands of the types in.
func (a LoopAttrs) inputs(in []ir.Type) []ir.Type {
	types := append([]ir.Type(nil), in...)
	if a.Guarded {
		types = types[:len(types)-1]
	}
	for k := len(types) - a.Steps; k < len(types); k++ {
		types[k].Shape = types[k].Shape[1:]
	}
	return types
}

// split divides operands by their meaning. guard is nil if the loop has no guard.
func (a LoopAttrs) split(in []*tensor.Array) (carried, fixed, slices []*tensor.Array, guard **tensor.Array) {
	return splitLoop(a, in)
}

func splitLoop[T any](a LoopAttrs, in []T) (carried, fixed, slices []T, guard *T) {
	if a.Guarded {
		in, guard = in[:len(in)-1], &in[len(in)-1]
	}
	last := len(in) - a.Steps
	return in[:a.Carried:a.Carried], in[a.Carried:last:last], in[last:], guard
}

// graphs returns the graphs of the loop: body, and cond if the loop has a condition.
func (a LoopAttrs) graphs() []*ir.Graph {
	if a.Cond == nil {
		return []*ir.Graph{a.Body}
	}
	return []*ir.Graph{a.Cond, a.Body}
}

// each calls f for the nodes of the loop's graphs that compute something.
func (a LoopAttrs) each(f func(n *ir.Node)) {
	for _, g := range a.graphs() {
		for _, n := range g.Nodes {
			if n.Op != ir.ResultDef && !n.Op.Effects {
				f(n)
			}
		}
	}
}

// largest returns the types of a node's operands and results at the upper bounds of the symbols.
func largest(n *ir.Node) (in, out []ir.Type) {
	for _, t := range n.InTypes() {
		if t.Present() {
			t = n.Graph.Syms.AtMost(t)
		}
		in = append(in, t)
	}
	for _, t := range n.ResultTypes() {
		out = append(out, n.Graph.Syms.AtMost(t))
	}
	return in, out
}

// loopTolerance adds up the tolerances of the ops in an iteration, over all iterations but at most 100: a body that
// diverges has no useful bound.
func loopTolerance(a LoopAttrs, _, out []ir.Type) []ir.Tolerance {
	var sum ir.Tolerance
	a.each(func(n *ir.Node) {
		in, results := largest(n)
		for _, t := range n.Op.Tol(n.Attrs, in, results...) {
			sum.Abs, sum.Rel = sum.Abs+t.Abs, sum.Rel+t.Rel
		}
	})
	times := float64(min(a.Length, 100))
	tols := make([]ir.Tolerance, len(out))
	for k, t := range out {
		if t.DType.IsFloat() {
			tols[k] = ir.Tolerance{Abs: times * sum.Abs, Rel: times * sum.Rel}
		}
	}
	return tols
}

// Nodes returns the number of nodes that unrolling the loop gives, about. Loops in its graphs are unrolled, too.
func (a LoopAttrs) Nodes() int64 {
	one := int64(a.Steps)
	for _, g := range a.graphs() {
		for _, n := range g.Nodes {
			if inner, ok := n.Attrs.(LoopAttrs); ok {
				one += inner.Nodes()
			} else {
				one++
			}
			one = min(one, math.MaxInt32)
		}
	}
	return one * int64(a.Length) // both are at most 2^31
}

// Loop adds a loop and returns its results.
func Loop(a LoopAttrs, in ...*ir.Node) []*ir.Node {
	return in[0].Graph.AddResults(len(a.Results), LoopDef, a, in...)
}

// loopCases are made of graphs in text form: with and without a condition, slices, trajectories, a guard, and a loop in
// a loop.
func loopCases() []ir.Case[LoopAttrs] {
	const newton = `graph newton
x = input : f32[4]
a = input : f32[4]
h = const {value=0.5} : f32[]
q = div a, x : f32[4]
s = add x, q : f32[4]
y = mul s, h : f32[4]
return y=y

graph far
x = input : f32[4]
a = input : f32[4]
e = const {value=0.001} : f32[]
xx = mul x, x : f32[4]
d = sub xx, a : f32[4]
m = abs d : f32[4]
f = gt m, e : bool[4]
c = any f {axes=[0]} : bool[]
return c=c

graph sum
h = input : f32[4]
n = input : i32[]
w = input : f32[4]
x = input : f32[4]
i = const {value=1} : i32[]
p = mul w, x : f32[4]
s = add h, p : f32[4]
t = tanh s : f32[4]
k = add n, i : i32[]
return h=t, n=k

graph outer
x = input : f32[4]
a = input : f32[4]
y = loop x, a {body=@newton, carried=1, length=3, results=[0]} : f32[4]
m = mul y, a : f32[4]
z = tanh m : f32[4]
return z=z

graph main
x = input : f32[4]
o = loop x, x {body=@outer, carried=1, length=2, results=[0]} : f32[4]
p = loop x, x {body=@newton, carried=1, cond=@far, length=9, results=[0]} : f32[4]
n = const : i32[]
v = const : f32[5,4]
q = loop x, n, x, v {body=@sum, carried=2, length=5, results=[0], steps=1} : f32[4]
return o=o, p=p, q=q
`
	main, err := ir.Parse(newton)
	if err != nil {
		panic("BUG: op: " + err.Error())
	}
	graphs := map[string]*ir.Graph{}
	for _, g := range main.Bodies() {
		graphs[g.Name] = g
	}
	row, flag := f32(4), ir.Type{DType: dtype.Bool}
	one := func(a LoopAttrs, in ...ir.Type) ir.Case[LoopAttrs] {
		c := ir.Case[LoopAttrs]{Attrs: a, In: in}
		for _, t := range in {
			r := ir.Range{Lo: 0.5, Hi: 2}
			if !t.DType.IsFloat() {
				r = ir.Range{Lo: 0, Hi: 1}
			}
			c.Fill = append(c.Fill, r)
		}
		return c
	}
	body := graphs["newton"]
	sum := LoopAttrs{Body: graphs["sum"], Carried: 2, Steps: 1, Length: 5, Results: []int{0}}
	with := func(guarded bool, results ...int) LoopAttrs {
		a := sum
		a.Guarded, a.Results = guarded, results
		return a
	}
	none := one(with(true, 1, 2), row, i32(), row, f32(5, 4), flag)
	none.Fill[4] = ir.Range{}
	return []ir.Case[LoopAttrs]{
		one(LoopAttrs{Body: body, Carried: 1, Length: 7, Results: []int{0}}, row, row),
		one(LoopAttrs{Body: body, Cond: graphs["far"], Carried: 1, Length: 1000, Results: []int{0}}, row, row),
		one(LoopAttrs{Body: body, Cond: graphs["far"], Carried: 1, Length: 9, Results: []int{0, 1}}, row, row),
		one(with(false, 0), row, i32(), row, f32(5, 4)), one(with(false, 0, 1, 2, 3), row, i32(), row, f32(5, 4)),
		one(with(true, 0, 2), row, i32(), row, f32(5, 4), flag), none,
		one(LoopAttrs{Body: graphs["outer"], Carried: 1, Length: 4, Results: []int{0}}, row, row),
	}
}
