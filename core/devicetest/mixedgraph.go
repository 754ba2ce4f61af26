package devicetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// Mixed runs random graphs of core ops on values of many shapes, element types and layouts. Each step's result is
// compared with its op's definition, and the results of a compiled graph with those of its source.
type Mixed struct {
	Seed    uint64 // the seed of the first graph; the next has Seed+1, and so on
	Count   int
	Compile Compiler // may be nil; then graphs run uncompiled
	Exact   bool     // graphs whose steps do not round (ExactGraph)
}

// Compiler compiles a graph, and returns the values of the params that it adds.
type Compiler func(g *ir.Graph) (*ir.Graph, map[string]tensor.Tensor, error)

// Run checks x.Count graphs, or with -short a quarter of them, chosen by SampleEnv. A failure names the seed of its
// graph. To repeat it, set Seed to that number and Count to 1.
func (x Mixed) Run(t testing.TB, b device.Backend) {
	info, err := b.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := sampleFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	s, few := newSuite(b, info), uint64(x.Count)
	if testing.Short() {
		few = (few + 3) / 4
	}
	for _, k := range chosen.some(few, uint64(x.Count)) {
		seed := x.Seed + k
		if g, err := x.check(s, seed); err != nil {
			t.Errorf("seed %d: %s\n%s", seed, clip(err.Error()), clip(fmt.Sprint(g)))
		}
	}
}

// check makes and checks the graph of a seed.
func (x Mixed) check(s *suite, seed uint64) (*ir.Graph, error) {
	g, given, err := x.graph(s, seed, smallGraphs)
	if err == nil && !x.Exact {
		err = s.checkGraph(g, given, seed, false)
	}
	if err != nil || x.Compile == nil {
		return g, err
	}
	source := x.source(s, seed, smallGraphs)
	if !x.Exact {
		interp.ReturnAll(source)
	}
	if g, given, err = x.compiled(source); err == nil {
		err = s.checkSource(source, g, given, seed, x.Exact)
	}
	return source, err
}

// source makes a graph of the element types that the backend has.
func (x Mixed) source(s *suite, seed uint64, size graphSize) *ir.Graph {
	if x.Exact {
		return ExactGraph(seed, slices.DeleteFunc(dtype.All(), func(d dtype.DType) bool { return !s.computes(d) }))
	}
	types := slices.DeleteFunc(slices.Clone(mixedTypes), func(d dtype.DType) bool { return !s.info.Target.HasType(d) })
	return mixedGraph(rand.New(rand.NewPCG(seed, 14)), types, size)
}

// MixedGraph makes a random graph of core ops over the given element types. Its values are small, and most of its steps
// round. Equal seeds give equal graphs.
func MixedGraph(seed uint64, types []dtype.DType) *ir.Graph {
	return mixedGraph(rand.New(rand.NewPCG(seed, 14)), types, smallGraphs)
}

// computes reports whether the backend casts f32 to d and back, and divides integers. Some types it may only store,
// take as indices, or add and compare.
func (s *suite) computes(d dtype.DType) bool {
	g := ir.NewGraph("types")
	x := op.Cast(op.Input(g, "x", ir.TypeOf(dtype.F32)), d)
	if d.IsInt() {
		x = op.Div(x, x)
	}
	op.Cast(x, dtype.F32)
	how, _ := takes(s.info.Target, g)
	return how != target.No
}

// graph makes a graph and, if x.Compile is set, compiles it. given has the params that compiling added.
func (x Mixed) graph(s *suite, seed uint64, size graphSize) (g *ir.Graph, given values, err error) {
	g = x.source(s, seed, size)
	if err := g.Err(); err != nil {
		return g, nil, fmt.Errorf("BUG: devicetest: %w", err)
	}
	return x.compiled(g)
}

func (x Mixed) compiled(g *ir.Graph) (*ir.Graph, values, error) {
	given := values{}
	if x.Compile == nil {
		return g, given, nil
	}
	out, params, err := x.Compile(g)
	if err != nil {
		return g, nil, fmt.Errorf("compile: %w", err)
	}
	for name, v := range params {
		given[name] = v.Array()
	}
	return out, given, nil
}

// mixedTypes are the element types of mixed graphs. Types that a backend lacks are left out.
var mixedTypes = []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.I32, dtype.U32, dtype.Bool}

// mixer grows a graph of values of many shapes and element types. It takes operands from all values so far, so any op
// may read a view, a broadcast or a result of any layout. Type inference decides which operands an op accepts. Numbers
// stay small, so that no number overflows f16.
type mixer struct {
	*rand.Rand
	graph *ir.Graph
	types []dtype.DType
	size  graphSize
	pool  []*ir.Node

	exactness map[*ir.Node]bool // the results of exact
}

// graphSize limits the values and ops of a mixed graph. Sizes are counted with the symbols at their upper bounds.
type graphSize struct {
	elements int64 // per value
	flops    int64 // per op; 0 means no limit
	window   int   // of sliding attention; exclusive
	dims     []int64
	whole    bool // floats are small integers, and no step rounds; see ExactGraph
}

var (
	// smallGraphs are small enough to compare every step with its op's definition, which is slow.
	smallGraphs = graphSize{elements: 3000, window: 4, dims: []int64{1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 32, 33, 64}}
	exactGraphs = graphSize{elements: 1000, dims: []int64{1, 2, 3, 4, 5, 7, 8, 9, 16}, whole: true}
	// largeGraphs have enough work for many threads.
	largeGraphs = graphSize{elements: 300_000, flops: 20_000_000, window: 200,
		dims: []int64{1, 2, 3, 4, 7, 16, 33, 64, 65, 100, 129, 300, 520, 1000}}
)

// mixedGraph makes a random graph of core ops over the given element types. Equal sources give equal graphs.
func mixedGraph(r *rand.Rand, types []dtype.DType, size graphSize) *ir.Graph {
	m := &mixer{Rand: r, graph: ir.NewGraph("mixed", ir.Sym{Name: "N", Min: 1, Max: 5}), types: types, size: size,
		exactness: map[*ir.Node]bool{}}
	for i := range 3 + r.IntN(3) {
		m.pool = append(
			m.pool, op.Input(m.graph, fmt.Sprint("x", i), ir.Type{DType: m.types[r.IntN(len(m.types))],
				Shape: m.shape()}))
	}
	m.pool = append(m.pool, op.Input(m.graph, "x", ir.Type{DType: dtype.F32, Shape: m.shape()}))
	steps := m.steps()
	if size.whole {
		steps = m.exactSteps()
	}
	for try := 0; len(m.graph.Nodes) < 50 && try < 500 && m.graph.Err() == nil; try++ {
		if n := steps[r.IntN(len(steps))](m.any()); n != nil {
			m.pool = append(m.pool, m.small(n))
		}
	}
	for i, uses := range m.graph.UseCounts() { // return every unread value, except for some results of ops with several
		if n := m.graph.Nodes[i]; uses == 0 && !n.Op.Effects && (n.Op != ir.ResultDef || m.IntN(3) > 0) {
			m.graph.Return(fmt.Sprint("out", i), n)
		}
	}
	return m.graph
}

// shape returns a random shape of rank 1 to 5. One of its sizes may depend on N.
func (m *mixer) shape() ir.Shape {
	s, total := ir.Shape{}, int64(1)
	for range 1 + m.IntN(5) {
		d := m.size.dims[m.IntN(len(m.size.dims))]
		if total*d > m.size.elements/2 {
			d = 1 + m.Int64N(2)
		}
		total *= d
		s = append(s, ir.Static(d))
	}
	if k := m.IntN(len(s)); m.IntN(3) == 0 && total < m.size.elements/10 {
		s[k], _ = s[k].Mul(ir.Named("N"))
	}
	return s
}

// any returns one of the values so far. It prefers recent ones.
func (m *mixer) any() *ir.Node {
	return m.pool[len(m.pool)-1-min(m.IntN(len(m.pool)), m.IntN(len(m.pool)))]
}

// like returns a value of x's element type for which ok is true. If a few tries find no such value, it returns x.
func (m *mixer) like(x *ir.Node, ok func(y *ir.Node) bool) *ir.Node {
	for range 20 {
		if y := m.any(); y.Type.DType == x.Type.DType && ok(y) {
			return y
		}
	}
	return x
}

// add adds a node and returns it, or one of its results. It returns nil if the op does not accept the operands, if it
// would make rounding errors of operands visible, or if a result or the number of operations is too large.
func (m *mixer) add(def *ir.OpDef, attrs any, in ...*ir.Node) *ir.Node {
	types := make([]ir.Type, len(in))
	for i, x := range in {
		if x != nil {
			types[i] = x.Type
		}
	}
	outs, err := def.InferResults(attrs, types, ir.Type{}, m.graph.Syms)
	if err != nil ||
		slices.ContainsFunc(
			outs, func(t ir.Type) bool { return m.most(t) > m.size.elements || m.most(t) == 0 || t.Rank() > 8 }) {
		return nil
	}
	if jumps := def.Discontinuous; jumps != nil && jumps(attrs, outs[0]) &&
		slices.ContainsFunc(in, func(x *ir.Node) bool { return x != nil && !m.exact(x) }) {
		return nil
	}
	if largest := m.graph.Syms.Max(); m.size.flops > 0 {
		at := func(ts []ir.Type) (out []ir.Type) {
			for _, t := range ts {
				out = append(out, t.At(largest))
			}
			return out
		}
		if def.FLOPs(attrs, at(types), at(outs)...) > m.size.flops {
			return nil
		}
	}
	results := m.graph.AddResults(len(outs), def, attrs, in...)
	if len(results) == 1 {
		return results[0]
	}
	m.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	for _, n := range results[1:] { // the caller gets the first result, others may go to the pool
		if m.IntN(2) == 0 {
			m.pool = append(m.pool, n)
		}
	}
	return results[0]
}

// most returns the number of elements of a type with the symbols at their upper bounds.
func (m *mixer) most(t ir.Type) int64 { return m.graph.Syms.MaxBytes(t) / int64(t.DType.Size()) }

// number returns a scalar constant. It reuses an equal one.
func (m *mixer) number(v float64, d dtype.DType) *ir.Node {
	for _, n := range m.graph.Nodes {
		if a, ok := n.Attrs.(op.ConstAttrs); ok && a.Value == v && n.Type.DType == d && n.Type.Rank() == 0 {
			return n
		}
	}
	return op.Const(m.graph, v, ir.TypeOf(d))
}

// small clamps x to [-6, 6] if its op may have made the numbers larger.
func (m *mixer) small(x *ir.Node) *ir.Node {
	d := x.Type.DType
	if m.size.whole && !d.IsFloat() && m.IntN(3) > 0 { // large integers, too
		return x
	}
	if d == dtype.Bool ||
		!x.Is(op.AddDef, op.SubDef, op.MulDef, op.DivDef, op.ExpDef, op.ReduceSumDef, op.ReduceProdDef, op.MatMulDef,
			op.Conv1DDef, op.Conv2DDef, op.Conv3DDef, op.ConvTranspose1DDef, op.ConvTranspose2DDef,
			op.ConvTranspose3DDef,
			op.PoolDef, op.CastDef, op.RsqrtDef, op.IotaDef, op.PowDef, op.NegDef, op.AbsDef,
			op.Exp2Def, op.Expm1Def, op.SquareDef, op.ReciprocalDef, op.ShiftLeftDef, op.NotDef, op.XorDef, op.OrDef,
			op.EluDef, op.CeluDef,
			op.LeakyReluDef, op.SeluDef, op.CumsumDef, op.CumprodDef, op.FFTDef, op.IFFTDef, op.RFFTDef, op.IRFFTDef,
			op.ScatterAddDef) {
		return x
	}
	lo := -6.0
	if d == dtype.U32 || d == dtype.U8 {
		lo = 0
	}
	return op.Max(op.Min(x, m.number(6, d)), m.number(lo, d))
}

// static returns a random axis of x with a static size of at least n. If a few tries find no such axis, it returns -1.
func (m *mixer) static(x *ir.Node, n int64) int {
	for range 5 {
		if x.Type.Rank() == 0 {
			break
		}
		if k := m.IntN(x.Type.Rank()); x.Type.Shape[k].IsStatic() && x.Type.Shape[k].Const >= n {
			return k
		}
	}
	return -1
}

// param adds a weight.
func (m *mixer) param(d dtype.DType, dims ...int64) *ir.Node {
	return op.Param(m.graph, fmt.Sprint("w", len(m.graph.Nodes)), ir.TypeOf(d, dims...))
}

func broadcasts(a, b *ir.Node) bool {
	in := []ir.Type{{DType: dtype.F32, Shape: a.Type.Shape}, {DType: dtype.F32, Shape: b.Type.Shape}}
	_, err := op.AddDef.Infer(op.NoAttrs{}, in, ir.Type{}, a.Graph.Syms)
	return err == nil
}

// partner returns a second operand for a binary op on x: another value, a slice of x of size 1 along an axis, or a
// constant.
func (m *mixer) partner(x *ir.Node) *ir.Node {
	switch k := m.static(x, 2); {
	case k >= 0 && m.IntN(3) == 0:
		return op.Narrow(x, k, m.IntN(int(x.Type.Shape[k].Const)), 1)
	case m.IntN(6) == 0 && x.Type.DType != dtype.Bool:
		return m.number(float64(m.IntN(4)), x.Type.DType)
	}
	return m.like(x, func(y *ir.Node) bool { return broadcasts(x, y) })
}
