package devicetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// graphMaker makes a random graph of about 50 cheap ops. Most values have the shape [1,8*N,6]; the others are derived
// from these.
type graphMaker struct {
	*rand.Rand
	g    *ir.Graph
	full ir.Type
	row  *ir.Node   // a param of shape [6]
	pool []*ir.Node // of the full type
	last *ir.Node   // the last result of any
	rest []*ir.Node // f32 values of other shapes
}

// randomGraph makes a random graph. Equal sources give equal graphs. If exact is set, every step computes integers of
// at most 64 in magnitude, so nothing is rounded. If fused is set, the graph also has fused ops, unless it is exact.
func randomGraph(r *rand.Rand, exact, fused bool) *ir.Graph {
	g := ir.NewGraph("random", ir.Sym{Name: "N", Min: 1, Max: 5})
	m := graphMaker{Rand: r, g: g,
		full: ir.Type{DType: dtype.F32, Shape: ir.Shape{ir.Static(1), ir.MustDim("8*N"), ir.Static(6)}}}
	m.pool = []*ir.Node{op.Input(g, "x", m.full), op.Input(g, "y", m.full)}
	m.row = op.Param(g, "row", ir.TypeOf(dtype.F32, 6))
	steps := append([]func() *ir.Node{}, m.exactSteps()...)
	if !exact {
		steps = append(steps, m.roundedSteps()...)
	}
	if fused && !exact {
		steps = append(steps, m.fusedSteps()...)
	}
	for len(g.Nodes) < 50 && g.Err() == nil {
		n := steps[r.IntN(len(steps))]()
		if g.Err() != nil {
			break
		}
		if exact && n.Type.Equal(m.full) && r.IntN(2) == 0 || exact && n.Op == op.ReduceSumDef {
			n = m.clamp(n)
		}
		if n.Type.Equal(m.full) {
			m.pool = append(m.pool, n)
		} else {
			m.rest = append(m.rest, n)
		}
	}
	all := append(m.rest, m.pool...)
	for i := range 1 + r.IntN(4) {
		g.Return(fmt.Sprint("out", i), all[len(all)-1-r.IntN(min(len(all), 8))])
	}
	return g
}

// clamp bounds a value to 64 in magnitude.
func (m *graphMaker) clamp(x *ir.Node) *ir.Node {
	return op.Max(op.Min(x, m.number(64)), m.number(-64))
}

func (m *graphMaker) number(v float64) *ir.Node { return op.Const(m.g, v, ir.TypeOf(dtype.F32)) }

// any returns a value of the full type. It prefers recent ones, and it often returns the same one again, so that ops
// read a value twice.
func (m *graphMaker) any() *ir.Node {
	if m.last == nil || m.IntN(4) > 0 {
		m.last = m.recent()
	}
	return m.last
}

func (m *graphMaker) recent() *ir.Node {
	return m.pool[len(m.pool)-1-min(m.IntN(len(m.pool)), m.IntN(len(m.pool)))]
}

// back reshapes x to the full shape.
func (m *graphMaker) back(x *ir.Node) *ir.Node { return op.Reshape(x, m.full.Shape) }

// exactSteps returns steps whose results are integers if their operands are.
func (m *graphMaker) exactSteps() []func() *ir.Node {
	any := m.any
	number := func(v float64) *ir.Node { return op.Const(m.g, v, ir.TypeOf(dtype.F32)) }
	return []func() *ir.Node{
		func() *ir.Node { return m.clamp(op.Add(any(), any())) },
		func() *ir.Node { return m.clamp(op.Sub(any(), m.row)) },
		func() *ir.Node { return op.Max(any(), any()) },
		func() *ir.Node { return op.Min(m.row, any()) },
		func() *ir.Node { return op.Neg(any()) },
		func() *ir.Node { return op.Abs(any()) },
		func() *ir.Node { return op.Sign(any()) },
		func() *ir.Node { return m.clamp(op.Square(op.Clamp(any(), -8, 8))) },
		func() *ir.Node { return op.Remainder(any(), m.number(7)) },
		func() *ir.Node { return op.Mod(any(), m.number(-5)) },
		func() *ir.Node { return op.Where(any(), any(), m.row) },
		func() *ir.Node { return op.Where(op.And(op.Lt(any(), any()), op.Not(op.Isnan(m.row))), any(), any()) },
		func() *ir.Node { return op.Where(op.Xor(op.Isfinite(any()), op.Gt(any(), m.row)), m.row, any()) },
		func() *ir.Node { return op.Cast(op.Neg(op.Abs(op.Cast(any(), dtype.I32))), dtype.F32) },
		func() *ir.Node { return op.Relu(op.Neg(any())) },
		func() *ir.Node { return op.Where(op.Lt(any(), any()), any(), m.row) },
		func() *ir.Node { return op.Cast(op.Cast(any(), dtype.I32), dtype.F32) },
		func() *ir.Node { return op.Cast(op.Neg(op.Cast(any(), dtype.F16)), dtype.F32) },
		func() *ir.Node { // a view of a view
			return m.back(op.Abs(op.Reshape(any(), ir.Shape{ir.Static(-1), ir.Static(2)})))
		},
		func() *ir.Node { // a narrow of an inner axis is not a view
			return op.Narrow(op.Pad(any(), []int{0, 0, 1}, []int{0, 0, 2}, 7), 2, m.IntN(4), 6)
		},
		func() *ir.Node {
			return op.Transpose(op.Relu(op.Transpose(any(), 0, 2, 1)), 0, 2, 1)
		},
		func() *ir.Node { // swap two parts of a value
			x := any()
			a, b := op.Narrow(x, 2, 0, 2), op.Narrow(x, 2, 2, 4)
			return op.Concat(2, b, a)
		},
		func() *ir.Node { // a narrow of a leading axis is a view; its parent must stay alive
			return op.Abs(op.Narrow(any(), 1, m.IntN(4), 1+m.IntN(4)))
		},
		func() *ir.Node { // row i of the result is row i/2
			idx := op.Iota(m.g, 0, ir.Type{DType: dtype.I32, Shape: m.full.Shape[1:2]})
			half := op.Div(idx, op.Const(m.g, 2, ir.TypeOf(dtype.I32)))
			return op.Gather(any(), half, 1)
		},
		func() *ir.Node { return op.Roll(op.Flip(any(), 1, 2), []int{1, 2}, []int{m.IntN(20) - 10, 2}) },
		func() *ir.Node { // a slice whose start is known only at run time
			x := op.Concat(1, any(), any())
			start := op.Cast(op.ReduceMax(op.Mul(m.row, number(0)), false, 0), dtype.I32)
			return op.Narrow(op.Concat(1, op.DynamicSlice(x, start, 1, 8), any()), 1, 0, 8)
		},
		func() *ir.Node { // sums of up to two rows
			rows := m.full.Shape[1:2]
			half := op.Div(op.Iota(m.g, 0, ir.Type{DType: dtype.I32, Shape: rows}),
				op.Const(m.g, 2, ir.TypeOf(dtype.I32)))
			return m.clamp(m.back(op.ScatterAdd(op.Reshape(any(), m.full.Shape[1:]), half, rows[0])))
		},
		func() *ir.Node { // repeat every other column
			wide := op.Resize(any(), m.full.Shape[1], ir.Static(9),
				op.ResizeAttrs{Mode: op.ResizeNearest, Coords: op.HalfPixel})
			return op.Narrow(wide, 2, m.IntN(4), 6)
		},
		func() *ir.Node { return op.Max(any(), op.ReduceMax(any(), true, 2)) },
		func() *ir.Node { // two results; nothing reads one of them
			values, indices := op.TopK(any(), 6)
			return []*ir.Node{values, op.Cast(indices, dtype.F32)}[m.IntN(2)]
		},
		func() *ir.Node { // two results, both read
			values, indices := op.TopK(any(), 6)
			return op.Max(values, op.Cast(indices, dtype.F32))
		},
		func() *ir.Node { return op.Max(any(), op.Cast(op.ArgMax(any(), 2, true), dtype.F32)) },
		func() *ir.Node { // one boolean per column
			return op.Where(op.Any(op.Lt(any(), m.row), true, 1), any(), m.row)
		},
		func() *ir.Node { return m.clamp(op.Add(any(), m.clamp(op.ReduceSum(any(), true, 1)))) },
		func() *ir.Node {
			return m.clamp(op.Cumsum(any(), op.ScanAttrs{Axis: 1 + m.IntN(2), Reverse: m.IntN(2) == 0}))
		},
		func() *ir.Node { return op.Cummax(any(), op.ScanAttrs{Axis: 1 + m.IntN(2)}) },
		func() *ir.Node { return op.Min(op.Expand(m.row, m.full.Shape), any()) },
		func() *ir.Node { return op.ReduceMin(any(), false, 1) },
		func() *ir.Node { // parts of different values
			return op.Concat(1, op.Narrow(any(), 1, 1, 2), op.Narrow(any(), 1, 5, 3))
		},
	}
}

// roundedSteps returns steps whose results are rounded. None of them makes values grow.
func (m *graphMaker) roundedSteps() []func() *ir.Node {
	any, vector := m.any, m.vector
	return []func() *ir.Node{
		func() *ir.Node { return op.Tanh(op.Mul(any(), any())) },
		func() *ir.Node { return op.Gelu(any()) },
		func() *ir.Node { return op.Sigmoid(any()) },
		func() *ir.Node { return op.Hardswish(op.LeakyRelu(any(), 0.25)) },
		func() *ir.Node { return op.Softplus(op.Neg(op.Softplus(any(), 1, 20)), 2, 20) },
		func() *ir.Node { return op.Mish(op.Elu(any(), 0.5)) },
		func() *ir.Node { return op.Log1p(op.Abs(any())) },
		func() *ir.Node { return op.Softmax(any(), 2) },
		func() *ir.Node { return op.Softmax(any(), 1) },
		func() *ir.Node { return op.IRFFT(op.Tanh(op.RFFT(any(), op.NormOrtho)), 6, op.NormOrtho) },
		func() *ir.Node { return op.Tanh(op.LogSoftmax(any(), 2)) },
		func() *ir.Node { return op.L2Norm(any(), 0.5, 1, 2) },
		func() *ir.Node { return op.Tanh(op.LogSumExp(any(), false, 2)) },
		func() *ir.Node { return op.LayerNorm(any(), vector("gamma", 6), vector("beta", 6), 0.5) },
		func() *ir.Node { return op.Tanh(op.MatMul(any(), vector("w", 6, 6), op.MatMulAttrs{TransB: true})) },
		func() *ir.Node { // multiply row i by matrix i modulo 3
			rows, three := m.full.Shape[1:2], op.Const(m.g, 3, ir.TypeOf(dtype.I32))
			i := op.Iota(m.g, 0, ir.Type{DType: dtype.I32, Shape: rows})
			x := op.Reshape(any(), m.full.Shape[1:])
			return op.Tanh(
				m.back(
					op.GroupedMatMul(x, vector("experts", 3, 6, 6), op.Sub(i, op.Mul(op.Div(i, three), three)),
						op.GroupedMatMulAttrs{TransB: m.IntN(2) == 0})))
		},
		func() *ir.Node { return op.Sub(any(), op.ReduceMean(any(), true, 1)) },
		func() *ir.Node { return op.Exp(op.Neg(op.Abs(any()))) },
		func() *ir.Node {
			x := any()
			return op.Attention(x, any(), x, op.AttentionOperands{}, op.AttentionAttrs{Heads: 2, Layout: op.BSE})
		},
		func() *ir.Node {
			return op.Rope(any(), op.RopeOperands{},
				op.RopeAttrs{HeadDim: 3, Rot: 2, Style: op.GPTJ, Layout: op.BSE, Base: 100})
		},
	}
}

// fusedSteps returns steps that use fused ops. A backend may write a product over its residual, unless the residual is
// also a factor.
func (m *graphMaker) fusedSteps() []func() *ir.Node {
	any, vector := m.any, m.vector
	linear := func(bias *ir.Node) *ir.Node {
		return op.Tanh(
			op.FusedMatMul(any(), vector("w", 6, 6), bias, any(), op.FusedMatMulAttrs{Act: "tanh", TransB: true}))
	}
	return []func() *ir.Node{
		func() *ir.Node { return linear(nil) },
		func() *ir.Node { return linear(m.row) },
		func() *ir.Node { return op.ElementwiseRegion("v0=mul(i0,i1); v1=tanh(v0)", any(), any()) },
		func() *ir.Node {
			return op.ElementwiseRegion("v0=sub(i0,i1); v1=max(v0,i2); v2=tanh(v1)", any(), any(), any())
		},
	}
}

// vector returns the param of that name. It adds the param if the graph does not have it yet.
func (m *graphMaker) vector(name string, dims ...int64) *ir.Node {
	if n, ok := m.g.Find(name); ok {
		return n
	}
	return op.Param(m.g, name, ir.TypeOf(dtype.F32, dims...))
}
