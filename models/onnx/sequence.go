package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file has ops of sequences of opset 26 and later, and those of ai.onnx.preview.

// The ranks of inputs.
var (
	_ = ranks("3 3 3 4 3 3", "LinearAttention")
	_ = ranks("4 4 4", "ai.onnx.preview.FlexAttention")
)

var (
	_ = on("SwiGLU", 27, func(n *node) []*value {
		a, alpha := n.x(0), n.float("alpha", 1)
		y := op.Silu(a)
		if alpha != 1 {
			y = op.Mul(a, op.Sigmoid(op.Mul(a, number(alpha, a))))
		}
		return one(op.Mul(y, n.x(1)))
	})
	_ = on("CausalConvWithState", 27, causalConv)
	_ = register("LinearAttention", conversion{since: 27, convert: linearAttention, note: "the length must be known"})
	_ = registerIn("ai.onnx.preview", "FlexAttention", conversion{since: 1, keep: true, convert: flexAttention})
)

// causalConv is CausalConvWithState of [N,C,L], weights [C,1,K] and a state [N,C,K-1].
func causalConv(n *node) []*value {
	x, w := n.x(0), n.x(1)
	s := w.Type.Shape
	if x.Type.Rank() != 3 || len(s) != 3 || !s[2].IsStatic() {
		n.fail("input is %v and weight %v; want [N,C,L] and [C,1,K]", x.Type, w.Type)
	}
	swap := func(v *ir.Node) *ir.Node { return op.Transpose(v, 0, 2, 1) }
	var silu bool
	switch a := n.str("activation", "none"); a {
	case "none":
	case "silu", "swish":
		silu = true
	default:
		n.fail("activation is %q; allowed are none, silu and swish", a)
	}
	var state *ir.Node
	if n.has(3) {
		state = swap(n.x(3))
	}
	y, next := op.CausalConv1D(swap(x), op.Reshape(w, ir.Shape{s[0], s[2]}), n.maybe(2), state, silu)
	return many(swap(y), swap(next))
}

// linearAttention converts LinearAttention. Its state [B,H,K,V] decays. Each step adds the outer product of its key and
// its value, or of its key and the difference of the value to the state's.
func linearAttention(n *node) []*value {
	hq, hkv := n.int("q_num_heads", 0), n.int("kv_num_heads", 0)
	rule := n.str("update_rule", "gated_delta")
	delta := rule == "delta" || rule == "gated_delta"
	if !delta && rule != "linear" && rule != "gated" {
		n.fail("update_rule is %q; allowed are linear, gated, delta and gated_delta", rule)
	}
	if hkv < 1 || hq < 1 || hq%hkv != 0 {
		n.fail("q_num_heads is %d and kv_num_heads %d; want a multiple", hq, hkv)
	}
	d := n.typeOf(0).DType
	// rows returns [B,T,H*D] as [T,B,H,D] in f32.
	rows := func(i, heads int) *ir.Node {
		x := cast(n.x(i), dtype.F32)
		s := x.Type.Shape
		each, ok := s[2].FloorDiv(int64(heads))
		if x.Type.Rank() != 3 || !ok || !each.IsStatic() || !s[1].IsStatic() {
			n.fail("input %d is %v of %d heads; want [B,T,H*D] with a length and D that are known", i, x.Type, heads)
		}
		return op.Transpose(op.Reshape(x, ir.Shape{s[0], s[1], ir.Static(int64(heads)), each}), 1, 0, 2, 3)
	}
	q, k, v := rows(0, hq), rows(1, hkv), rows(2, hkv)
	length, batch := q.Type.Shape[0], q.Type.Shape[1]
	keys, values := k.Type.Shape[3], v.Type.Shape[3]
	stateType := ir.Type{DType: dtype.F32, Shape: ir.Shape{batch, ir.Static(int64(hkv)), keys, values}}
	state, stored := op.Const(n.b.g, 0, stateType), d
	if n.has(3) {
		state, stored = cast(n.x(3), dtype.F32), n.typeOf(3).DType
	}
	scale := n.float("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(keys.Const))
	}
	zero := op.Const(n.b.g, 0, ir.Type{DType: dtype.F32, Shape: ir.Shape{batch, ir.Static(int64(hq)), values}})
	outer := []*ir.Node{state, zero, q, k, v}
	steps := 3
	gated := n.has(4)
	if gated {
		outer = append(outer, rows(4, hkv))
		steps++
	}
	if delta {
		heads := hkv
		if n.typeOf(5).Shape[2].Is(1) {
			heads = 1
		}
		outer = append(outer, rows(5, heads))
		steps++
	}
	body := ir.NewGraph("step", n.b.g.Syms...)
	err := body.Build(func() {
		slice := func(name string, i int) *ir.Node {
			return op.Input(body, name, ir.Type{DType: dtype.F32, Shape: outer[i].Type.Shape[1:]})
		}
		s := op.Input(body, "state", stateType)
		op.Input(body, "last", zero.Type)
		qt, kt, vt := slice("q", 2), slice("k", 3), slice("v", 4)
		at := func(x *ir.Node, axis int) *ir.Node { // adds an axis
			sh := append(append(append(ir.Shape{}, x.Type.Shape[:axis]...), ir.Static(1)), x.Type.Shape[axis:]...)
			return op.Reshape(x, sh)
		}
		next := 5
		if gated {
			s = op.Mul(s, op.Exp(at(slice("decay", next), 3)))
			next++
		}
		if delta {
			beta := slice("beta", next)
			had := op.ReduceSum(op.Mul(s, at(kt, 3)), false, 2)
			vt = op.Mul(beta, op.Sub(vt, had))
		}
		s = op.Add(s, op.Mul(at(kt, 3), at(vt, 2)))
		group := ir.Static(int64(hq / hkv))
		qg := op.Reshape(qt, ir.Shape{batch, ir.Static(int64(hkv)), group, keys})
		o := op.MatMul(qg, s, op.MatMulAttrs{})
		o = op.Mul(o, number(scale, o))
		body.Return("state", s)
		body.Return("o", op.Reshape(o, zero.Type.Shape))
	})
	if err != nil {
		n.b.g.Fail(err)
	}
	a := hir.ScanAttrs{Body: body, Length: int(length.Const), Carried: 2, Steps: steps}
	final := n.b.g.Add(hir.ScanDef, a, outer...)
	a.Trajectory, a.Result = true, 1
	y := n.b.g.Add(hir.ScanDef, a, outer...) // [T,B,H,V]
	width := n.product(ir.Shape{ir.Static(int64(hq)), values})
	y = op.Reshape(op.Transpose(y, 1, 0, 2, 3), ir.Shape{batch, length, width})
	return many(cast(y, d), cast(final, stored))
}

// flexAttention is FlexAttention: attention with graphs that change the scores and the probabilities.
func flexAttention(n *node) []*value {
	q, k, v := n.x(0), n.x(1), n.x(2)
	d := q.Type.DType
	s, t := q.Type.Shape, k.Type.Shape
	if q.Type.Rank() != 4 || k.Type.Rank() != 4 || v.Type.Rank() != 4 || !s[1].IsStatic() || !t[1].IsStatic() ||
		t[1].Const < 1 || s[1].Const%t[1].Const != 0 {
		n.fail("operands are %v, %v and %v; want [B,H,L,E] with heads of q that are a multiple", q.Type, k.Type, v.Type)
	}
	group := s[1].Const / t[1].Const
	wide := dtype.F32
	if d == dtype.F64 {
		wide = dtype.F64
	}
	if p := n.int("softmax_precision", 0); p != 0 {
		wide = n.dtype(p)
	}
	scale := n.float("scale", 1/math.Sqrt(float64(s[3].Const)))
	root := number(float64(float32(math.Sqrt(float64(float32(scale))))), q)
	repeated := func(x *ir.Node) *ir.Node {
		if group == 1 {
			return x
		}
		return op.Repeat(x, 1, int(group))
	}
	scores := cast(op.MatMul(op.Mul(q, root), op.Mul(repeated(k), root), op.MatMulAttrs{TransB: true}), wide)
	changed := func(name string, x *ir.Node) *ir.Node {
		if n.attr(name) == nil {
			return x
		}
		out := n.inline(n.graph(name), one(x))
		if len(out) != 1 {
			n.fail("%s has %d outputs; want 1", name, len(out))
		}
		return cast(n.b.at(out[0]), wide)
	}
	p := changed("prob_mod", op.Softmax(changed("score_mod", scores), 3))
	return one(cast(op.MatMul(p, cast(repeated(v), wide), op.MatMulAttrs{}), d))
}
