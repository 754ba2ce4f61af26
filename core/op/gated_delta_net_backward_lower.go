package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// The expansion of gated_delta_net_backward turns the tokens of a chunk into matrix products (S. Yang et al. 2024,
// "Parallelizing Linear Transformers with the Delta Rule over Sequence Length"). Only the states before chunks are
// stored, and only two loops over the chunks go one after the other: one for the states, one back for their gradients.
//
// Of a chunk, let S be the state before it and z the gradient of the state after it. Rows are tokens. Let a_ij be the
// product of the decays of the tokens j+1 to i for j <= i and 0 otherwise, and c_i that of the first i tokens.
// With the strictly lower triangular matrix A_ij = beta_i a_ij (k_i k_j), the rule of the op is
//
//	(1 + A) D = beta*(V - c*(K S)),  O = c*(Q S) + (a*(Q K^T)) D,  next S = c_last*S + (a_last*K)^T D
//
// where O is still to be divided by sqrt(N). The inverse of 1 + A is computed from the inverses of its diagonal blocks
// of 1, 2, 4, ... rows, which is as accurate as substitution.

// deltaChunk is the number of tokens of a chunk.
const deltaChunk = 32

// deltaChunks has the values of all chunks, which are [chunks,B,H,C,...].
type deltaChunks struct {
	g             *ir.Graph
	tokens, size  int // size is C
	heads         ir.Dim
	scale         float64
	q, k, v, beta *ir.Node // beta is [..,C,1]
	dy            *ir.Node // already divided by sqrt(N)
	below, lower  *ir.Node // bool [C,C]: j < i and j <= i
	decay, since  *ir.Node // a [..,C,C] and c [..,C,1]
	toEnd, whole  *ir.Node // a_last [..,C,1] and c_last [..,1,1]
	kk, qk        *ir.Node // K K^T and Q K^T
	inverse       *ir.Node
}

var _ = ir.LowerTuple(GatedDeltaNetBackwardDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	if t, n := in[0].Type.Shape[1], in[0].Type.Shape[3]; !t.IsStatic() || !n.IsStatic() {
		g.Fail(fmt.Errorf("q has %v tokens and heads of %v; want numbers that are known when the graph is compiled, "+
			"where the target does not run gated_delta_net_backward itself", t, n))
	}
	state, dfinal := in[GatedDeltaNetBackwardState], in[GatedDeltaNetBackwardDFinal]
	stateOf := ir.Type{DType: in[0].Type.DType, Shape: ir.Shape{in[0].Type.Shape[0], in[2].Type.Shape[2],
		in[0].Type.Shape[3], in[2].Type.Shape[3]}}
	before, dstate := initialState(state, g, stateOf), initialState(dfinal, g, stateOf)
	var out []*ir.Node
	if in[0].Type.Shape[1].Is(0) {
		for _, x := range in[:5] {
			out = append(out, Const(g, 0, x.Type))
		}
	} else {
		c := newDeltaChunks(in)
		states, d := c.forward(before)
		dstates, dr, first := c.backward(dstate)
		out, dstate = c.gradients(states, d, dstates, dr), first
		for k := range 2 { // sums over the heads that share a key
			s := in[k].Type.Shape
			shared := append(s[:3:3], ir.Static(c.heads.Const/s[2].Const), s[3])
			out[k] = Reshape(ReduceSum(Reshape(out[k], shared), false, 3), s)
		}
	}
	if state != nil {
		out = append(out, dstate)
	}
	return out
})

// newDeltaChunks divides the tokens into chunks. Zeros fill the last chunk: they change no state.
func newDeltaChunks(in []*ir.Node) *deltaChunks {
	q, v := in[0], in[2]
	c := &deltaChunks{g: q.Graph, tokens: int(q.Type.Shape[1].Const), heads: v.Type.Shape[2],
		scale: 1 / math.Sqrt(float64(q.Type.Shape[3].Const))}
	c.size = min(deltaChunk, c.tokens)
	ofHeads := func(x *ir.Node) *ir.Node { // q or k of each head
		s := x.Type.Shape
		if s[2] == c.heads {
			return x
		}
		wide := append(s[:3:3], ir.Static(c.heads.Const/s[2].Const), s[3])
		return Reshape(Expand(withAxis(x, 3), wide), append(s[:2:2], c.heads, s[3]))
	}
	c.q, c.k, c.v = c.chunked(ofHeads(q)), c.chunked(ofHeads(in[1])), c.chunked(v)
	logs := c.chunked(withAxis(in[3], 3))
	c.beta, c.dy = c.chunked(withAxis(in[4], 3)), timesConst(c.chunked(in[GatedDeltaNetBackwardDY]), c.scale)

	square := ir.TypeOf(dtype.I32, int64(c.size), int64(c.size))
	row, column := Iota(c.g, 0, square), Iota(c.g, 1, square)
	c.below, c.lower = Lt(column, row), Le(column, row)
	// Each logarithm of a_ij is a sum of its own, not the difference of two long sums.
	parts := c.only(c.below, Expand(logs, append(logs.Type.Shape[:4:4], ir.Static(int64(c.size)))))
	c.decay = c.only(c.lower, Exp(Cumsum(parts, ScanAttrs{Axis: 3})))
	c.since = Exp(Cumsum(logs, ScanAttrs{Axis: 3}))
	c.whole = Narrow(c.since, 3, c.size-1, 1)
	c.toEnd = Reshape(Narrow(c.decay, 3, c.size-1, 1), logs.Type.Shape)

	transposed := MatMulAttrs{TransB: true}
	c.kk, c.qk = MatMul(c.k, c.k, transposed), MatMul(c.q, c.k, transposed)
	a := Mul(c.only(c.below, Mul(c.kk, c.decay)), c.beta)
	// Blocks of rows that are together in pairs of 2^(level+1) rows, but not of 2^level.
	i32 := func(v int) *ir.Node { return Const(c.g, float64(v), ir.TypeOf(dtype.I32)) }
	apart := Xor(row, column)
	for level := 0; 1<<level < c.size; level++ {
		part := c.only(Eq(ShiftRight(apart, i32(level)), i32(1)), a)
		if level == 0 {
			c.inverse = Sub(castTo(Eq(row, column), a.Type.DType), part)
			continue
		}
		c.inverse = Sub(c.inverse, MatMul(MatMul(c.inverse, part, MatMulAttrs{}), c.inverse, MatMulAttrs{}))
	}
	if c.inverse == nil {
		c.inverse = Const(c.g, 1, a.Type)
	}
	return c
}

// only returns x where a condition holds, and 0 elsewhere.
func (c *deltaChunks) only(cond, x *ir.Node) *ir.Node { return Where(cond, x, number(0, x)) }

// chunked turns [B,T,H,X] into [chunks,B,H,C,X].
func (c *deltaChunks) chunked(x *ir.Node) *ir.Node {
	s := x.Type.Shape
	chunks := (c.tokens + c.size - 1) / c.size
	if rest := chunks*c.size - c.tokens; rest > 0 {
		x = Pad(x, []int{0, 0, 0, 0}, []int{0, rest, 0, 0}, 0)
	}
	x = Reshape(x, ir.Shape{s[0], ir.Static(int64(chunks)), ir.Static(int64(c.size)), s[2], s[3]})
	return Transpose(x, 1, 0, 3, 2, 4)
}

// joined is the opposite of chunked.
func (c *deltaChunks) joined(x *ir.Node) *ir.Node {
	s := x.Type.Shape
	x = Reshape(Transpose(x, 1, 0, 3, 2, 4), ir.Shape{s[1], ir.Static(s[0].Const * s[3].Const), s[2], s[4]})
	return Narrow(x, 1, 0, c.tokens)
}

// each runs next for all chunks in order, or in reverse. It returns the states before each chunk, the rows that next
// gives for each chunk, and the last state.
func (c *deltaChunks) each(name string, first *ir.Node, reverse bool, steps []*ir.Node,
	next func(state *ir.Node, chunk []*ir.Node) (after, rows *ir.Node)) (states, rows, last *ir.Node) {
	order := func(x *ir.Node) *ir.Node {
		if reverse {
			return Flip(x, 0)
		}
		return x
	}
	body := ir.NewGraph("", c.g.Syms...)
	in := []*ir.Node{first, Const(c.g, 0, first.Type), Const(c.g, 0, ir.Type{DType: c.v.Type.DType,
		Shape: c.v.Type.Shape[1:]})}
	carried := len(in)
	if err := body.Build(func() {
		state := Input(body, "state", first.Type)
		Input(body, "before", first.Type)
		Input(body, "rows", in[2].Type)
		var chunk []*ir.Node
		for k, x := range steps {
			t := ir.Type{DType: x.Type.DType, Shape: x.Type.Shape[1:]}
			chunk, in = append(chunk, Input(body, fmt.Sprint("x", k), t)), append(in, order(x))
		}
		after, y := next(state, chunk)
		body.Return("state", after)
		body.Return("before", state)
		body.Return("rows", y)
	}); err != nil {
		c.g.Fail(err)
	}
	body.NameByText(name)
	out := Loop(LoopAttrs{Body: body, Carried: carried, Steps: len(steps), Length: int(steps[0].Type.Shape[0].Const),
		Results: []int{0, carried + 1, carried + 2}}, in...)
	return order(out[1]), order(out[2]), out[0]
}

// forward returns the states before the chunks, and D.
func (c *deltaChunks) forward(first *ir.Node) (states, d *ir.Node) {
	u := MatMul(c.inverse, Mul(c.v, c.beta), MatMulAttrs{})
	w := MatMul(c.inverse, Mul(c.k, Mul(c.beta, c.since)), MatMulAttrs{})
	states, d, _ = c.each("gated_delta_net", first, false, []*ir.Node{u, w, Mul(c.k, c.toEnd), c.whole},
		func(s *ir.Node, x []*ir.Node) (after, rows *ir.Node) {
			rows = Sub(x[0], MatMul(x[1], s, MatMulAttrs{}))
			return Add(Mul(x[3], s), MatMul(x[2], rows, MatMulAttrs{TransA: true})), rows
		})
	return states, d
}

// backward returns the gradients of the states after the chunks, those of the right sides of the equation of D, and
// that of the first state.
func (c *deltaChunks) backward(final *ir.Node) (dstates, dr, first *ir.Node) {
	inside := MatMul(Mul(c.qk, c.decay), c.dy, MatMulAttrs{TransA: true})
	u := MatMul(c.inverse, inside, MatMulAttrs{TransA: true})
	w := MatMul(c.inverse, Mul(c.k, c.toEnd), MatMulAttrs{TransA: true})
	return c.each("gated_delta_net_backward", final, true, []*ir.Node{u, w, Mul(c.q, c.since), c.dy,
		Mul(c.k, Mul(c.beta, c.since)), c.whole},
		func(z *ir.Node, x []*ir.Node) (after, rows *ir.Node) {
			dr := Add(x[0], MatMul(x[1], z, MatMulAttrs{}))
			from := Sub(MatMul(x[2], x[3], MatMulAttrs{TransA: true}), MatMul(x[4], dr, MatMulAttrs{TransA: true}))
			return Add(Mul(x[5], z), from), dr
		})
}

// gradients returns those of q and k for each head, v, g and beta, of tokens that are joined again.
func (c *deltaChunks) gradients(states, d, dstates, dr *ir.Node) []*ir.Node {
	times := func(a, b *ir.Node) *ir.Node { return MatMul(a, b, MatMulAttrs{}) }
	transposed := func(a, b *ir.Node) *ir.Node { return MatMul(a, b, MatMulAttrs{TransB: true}) }
	turned := func(a, b *ir.Node) *ir.Node { return MatMul(a, b, MatMulAttrs{TransA: true}) }
	sum := func(x *ir.Node) *ir.Node { return ReduceSum(x, true, 4) }

	read, dread := times(c.k, states), Neg(Mul(c.beta, dr)) // dread: of c*(K S)
	dqk := c.only(c.lower, Mul(transposed(c.dy, d), c.decay))
	da := Neg(transposed(dr, d))
	dkk := c.only(c.below, Mul(Mul(da, c.beta), c.decay))
	dyS, drS, dZ := transposed(c.dy, states), transposed(dread, states), Mul(transposed(d, dstates), c.toEnd)

	dq := Add(Mul(c.since, dyS), times(dqk, c.k))
	dk := Add(Add(Mul(c.since, drS), dZ), Add(turned(dqk, c.q), Add(times(dkk, c.k), turned(dkk, c.k))))
	dbeta := Add(sum(Mul(dr, Sub(c.v, Mul(c.since, read)))), sum(c.only(c.below, Mul(Mul(da, c.kk), c.decay))))

	// A logarithm is part of all sums that contain it: those of a_ij with i at or after it and j before it, and those
	// of c_i with i at or after it. The last row has the parts of the next state.
	last := Eq(Iota(c.g, 0, ir.TypeOf(dtype.I32, int64(c.size), 1)),
		Const(c.g, float64(c.size-1), ir.TypeOf(dtype.I32)))
	s := dZ.Type.Shape
	ends := Reshape(sum(Mul(c.k, dZ)), append(s[:3:3], ir.Static(1), s[3]))
	pairs := Add(Add(Mul(dqk, c.qk), Mul(dkk, c.kk)), c.only(last, ends))
	back := ScanAttrs{Axis: 3, Reverse: true}
	from := Mul(c.since, Add(sum(Mul(dread, read)), sum(Mul(c.q, dyS))))
	kept := Mul(c.whole, ReduceSum(Mul(dstates, states), true, 3, 4))
	dg := Add(Cumsum(Add(from, c.only(last, kept)), back), sum(c.only(c.below, Cumsum(pairs, back))))

	out := []*ir.Node{dq, dk, Mul(c.beta, dr), dg, dbeta}
	for k, x := range out {
		out[k] = c.joined(x)
		if k > 2 {
			out[k] = Reshape(out[k], out[k].Type.Shape[:3])
		}
	}
	return out
}
