package devicetest

import (
	"math/rand/v2"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// exactSum is the most terms of a sum of products of numbers up to 6 that bf16 still holds: 7 * 36 is less than 256.
const exactSum = 7

// ExactGraph makes a random graph of values of the given element types, whose steps do not round: float values are
// integers of at most 256 in magnitude, and integers wrap. Every correct program for the graph gives the same numbers,
// however it was rewritten. Equal seeds give equal graphs.
func ExactGraph(seed uint64, types []dtype.DType) *ir.Graph {
	return mixedGraph(rand.New(rand.NewPCG(seed, 15)), types, exactGraphs)
}

// ExactValue returns a random value for an input or a param of such a graph: small integers of float types, and the
// whole range of integer types, with its ends.
func ExactValue(rng *rand.Rand, t ir.Type, syms map[string]int64) *tensor.Array {
	x := interp.Random(rng, t, syms, ir.Range{Lo: -6, Hi: 6})
	for i, v := range x.Floats {
		x.Floats[i] = float64(int(v))
	}
	if rng.IntN(2) == 0 {
		extremes(rng, []*tensor.Array{x})
	}
	return x
}

// exactSteps returns functions like those of steps. The float results of these are integers.
func (m *mixer) exactSteps() []func(x *ir.Node) *ir.Node {
	return []func(x *ir.Node) *ir.Node{
		m.exactBinary, m.exactBinary, m.exactBinary, m.exactUnary, m.exactUnary, m.exactUnary, m.compare, m.compare,
		m.where, m.where, m.where,
		m.cast, m.cast, m.cast, m.transpose, m.reshape, m.narrow, m.concat, m.pad, m.expand, m.gather, m.iota,
		m.exactReduce, m.exactReduce, m.topK,
		m.arg, m.exactScan, m.sort, m.flip, m.exactMatMul, m.exactPool, m.im2col, m.scatterAdd,
	}
}

func (m *mixer) exactUnary(x *ir.Node) *ir.Node {
	defs := []*ir.OpDef{op.NegDef, op.AbsDef, op.SignDef, op.SquareDef, op.ReluDef, op.NotDef, op.NotDef, op.RoundDef,
		op.FloorDef, op.CeilDef,
		op.IsnanDef, op.IsfiniteDef, op.IsinfDef, op.ClampDef}
	def := defs[m.IntN(len(defs))]
	if x.Type.DType == dtype.Bool {
		def = op.NotDef
	}
	if def == op.ClampDef {
		return m.add(def, op.ClampAttrs{Min: -3, Max: float64(m.IntN(6))}, x)
	}
	return m.add(def, def.NewAttrs(), x)
}

func (m *mixer) exactBinary(x *ir.Node) *ir.Node {
	y, d := m.partner(x), x.Type.DType
	defs := []*ir.OpDef{op.AddDef, op.SubDef, op.MulDef, op.MaxDef, op.MinDef, op.ModDef, op.RemainderDef}
	switch {
	case d == dtype.Bool:
		defs = []*ir.OpDef{op.AndDef, op.OrDef, op.XorDef}
	case !d.IsFloat():
		defs = append(defs, op.AndDef, op.OrDef, op.XorDef, op.ShiftLeftDef, op.ShiftRightDef, op.DivDef, op.DivDef)
	}
	def := defs[m.IntN(len(defs))]
	switch {
	case def == op.DivDef || def == op.ModDef || def == op.RemainderDef: // a divisor of integers must not be 0
		y = op.Max(y, m.number(1, d))
	case m.IntN(2) == 0:
		x, y = y, x
	}
	return m.add(def, op.NoAttrs{}, x, y)
}

func (m *mixer) exactReduce(x *ir.Node) *ir.Node {
	a, count := op.ReduceAttrs{KeepDims: m.IntN(2) == 0}, int64(1)
	for k, d := range x.Type.Shape {
		if _, most := m.graph.Syms.Bounds(d); m.IntN(2) == 0 {
			a.Axes = append(a.Axes, k)
			count *= most
		}
	}
	defs := []*ir.OpDef{op.ReduceMaxDef, op.ReduceMinDef, op.ReduceSumDef, op.ReduceProdDef}
	switch {
	case len(a.Axes) == 0:
		return nil
	case x.Type.DType == dtype.Bool:
		defs = []*ir.OpDef{op.AnyDef, op.AllDef, op.ReduceMaxDef, op.ReduceMinDef}
	case x.Type.DType.IsFloat() && count > 40:
		defs = defs[:2]
	case x.Type.DType.IsFloat() && count > 3:
		defs = defs[:3]
	}
	return m.add(defs[m.IntN(len(defs))], a, x)
}

func (m *mixer) exactScan(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 || x.Type.DType == dtype.Bool {
		return nil
	}
	a := op.ScanAttrs{Axis: m.IntN(x.Type.Rank()), Exclusive: m.IntN(2) == 0, Reverse: m.IntN(2) == 0}
	defs := []*ir.OpDef{op.CummaxDef, op.CumsumDef, op.CumprodDef}
	_, most := m.graph.Syms.Bounds(x.Type.Shape[a.Axis])
	switch float := x.Type.DType.IsFloat(); {
	case a.Exclusive && float: // an exclusive cummax of floats begins with -Inf
		defs = defs[1:2]
		if most > 40 {
			return nil
		}
	case float && most > 40:
		defs = defs[:1]
	case float && most > 3:
		defs = defs[:2]
	}
	return m.add(defs[m.IntN(len(defs))], a, x)
}

func (m *mixer) flip(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 {
		return nil
	}
	return op.Flip(x, m.IntN(x.Type.Rank()))
}

func (m *mixer) exactMatMul(x *ir.Node) *ir.Node {
	r := x.Type.Rank()
	if r < 2 || !x.Type.DType.IsFloat() || !x.Type.Shape[r-1].IsStatic() || x.Type.Shape[r-1].Const > exactSum {
		return nil
	}
	a, k, n := op.MatMulAttrs{TransB: m.IntN(2) == 0}, x.Type.Shape[r-1].Const, 1+m.Int64N(9)
	dims := []int64{k, n}
	if a.TransB {
		slices.Reverse(dims)
	}
	d := x.Type.DType
	if w := m.types[m.IntN(len(m.types))]; d == dtype.F32 && (w == dtype.F16 || w == dtype.BF16) {
		d = w
	}
	return m.add(op.MatMulDef, a, x, m.param(d, dims...))
}

func (m *mixer) exactPool(x *ir.Node) *ir.Node {
	layout, axes, ok := m.layout(x)
	if !ok || x.Type.DType == dtype.Bool {
		return nil
	}
	return m.add(
		op.PoolDef,
		op.PoolAttrs{Kind: []string{"max", "min", "sum"}[m.IntN(3)], Layout: layout, Kernel: m.numbers(axes, 1, 3),
			Stride: m.numbers(axes, 1, 3), Padding: make([]int, axes)}, x)
}

// scatterAdd adds the rows of x, in pairs, to the rows of a result of the same size.
func (m *mixer) scatterAdd(x *ir.Node) *ir.Node {
	if x.Type.Rank() == 0 || x.Type.DType == dtype.Bool || !x.Type.Shape[0].IsStatic() ||
		x.Type.Shape[0].Const > exactSum {
		return nil
	}
	i := op.Iota(m.graph, 0, ir.Type{DType: dtype.I32, Shape: x.Type.Shape[:1]})
	half := op.Div(i, m.number(2, dtype.I32))
	return m.small(op.ScatterAdd(x, half, x.Type.Shape[0]))
}
