package onnx

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/hir"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// A recurrent layer becomes the op recurrent. If that op does not have its activations or attributes, it becomes a scan
// over time for each direction. The product of the inputs with W does not depend on the state, so it is one product
// before the scan.

const recurrentNote = "other activations, clip and input_forget: the length must be known"

// The ranks of inputs.
var (
	_ = ranks("3 3 3 2 1 3 3 2", "RNN", "GRU", "LSTM")
)

var (
	_ = register("RNN", conversion{since: 7, convert: recurrent(1, 1, "Tanh"), note: recurrentNote})
	_ = register("GRU", conversion{since: 7, convert: recurrent(3, 1, "Sigmoid Tanh"), note: recurrentNote})
	_ = register("LSTM", conversion{since: 7, convert: recurrent(4, 2, "Sigmoid Tanh Tanh"), note: recurrentNote})
)

// layer is one direction of a recurrent layer.
type layer struct {
	n       *node
	hidden  int64
	batch   ir.Dim
	acts    []func(x *ir.Node) *ir.Node
	clip    float64
	gates   int64
	states  int64
	r, b, p *ir.Node // [gates*H,H], [2*gates*H] or nil, [3H] or nil
}

// recurrent converts a layer whose cell has that many gates and states.
func recurrent(gates, states int64, defaults string) func(n *node) []*value {
	return func(n *node) []*value {
		r := n.recurrentLayer(gates, states, strings.Fields(defaults))
		if kind := r.kind(); kind != "" {
			return r.native(kind)
		}
		return r.loops()
	}
}

// recurrentLayer is a node with its operands.
type recurrentLayer struct {
	*node
	names         []string // of the activations, by gate, in lower case
	x             *ir.Node // [T,B,I]
	gates, states int64
	hidden        int64
	dirs          int
	reverse       bool // one direction, backwards
	batchFirst    bool
}

func (n *node) recurrentLayer(gates, states int64, names []string) *recurrentLayer {
	r := n.x(2)
	l := &recurrentLayer{node: n, x: n.x(0), gates: gates, states: states, dirs: 1,
		batchFirst: n.int("layout", 0) != 0}
	if l.batchFirst {
		l.x = op.Transpose(l.x, 1, 0, 2)
	}
	hidden := r.Type.Shape[r.Type.Rank()-1]
	if l.x.Type.Rank() != 3 || !hidden.IsStatic() {
		n.fail("input is %v and the state has %v values; want rank 3 and a size that is known", l.x.Type, hidden)
	}
	l.hidden = hidden.Const
	switch direction := n.str("direction", "forward"); direction {
	case "forward":
	case "reverse":
		l.reverse = true
	case "bidirectional":
		l.dirs = 2
	default:
		n.fail("direction is %q; allowed are forward, reverse and bidirectional", direction)
	}
	for range l.dirs {
		for _, name := range names {
			l.names = append(l.names, strings.ToLower(name))
		}
	}
	if a := n.attr("activations"); a != nil && len(a.GetStrings()) > 0 {
		if len(a.GetStrings()) != len(l.names) {
			n.fail("activations has %d names; want %d", len(a.GetStrings()), len(l.names))
		}
		for i, s := range a.GetStrings() {
			l.names[i] = strings.ToLower(string(s))
		}
	}
	return l
}

// kind returns the kind of the op recurrent that computes the layer, or "".
func (l *recurrentLayer) kind() string {
	if l.float("clip", 0) > 0 || l.int("input_forget", 0) != 0 {
		return ""
	}
	per := len(l.names) / l.dirs
	if l.dirs == 2 && !slices.Equal(l.names[:per], l.names[per:]) {
		return ""
	}
	return map[string]string{"sigmoid tanh tanh": "lstm", "sigmoid tanh": "gru", "tanh": "rnn_tanh",
		"relu": "rnn_relu"}[strings.Join(l.names[:per], " ")]
}

// zeros reports whether x is a part of a constant 0, as exporters write the state before the first step.
func zeros(x *ir.Node) bool {
	for {
		switch x.Op {
		case op.ConstDef:
			return x.Attrs.(op.ConstAttrs).Value == 0
		case op.ReshapeDef, op.ExpandDef, op.NarrowDef, op.TransposeDef, op.CastDef:
			x = x.In[0]
		default:
			return false
		}
	}
}

// native converts to the op recurrent.
func (l *recurrentLayer) native(kind string) []*value {
	n, a := l.node, op.RecurrentAttrs{Kind: kind, Reverse: l.reverse}
	a.ResetAfter = kind == "gru" && n.int("linear_before_reset", 0) != 0
	stored := l.x.Type.DType
	wide := func(v *ir.Node) *ir.Node { // 16 bits would be rounded at every step
		if v != nil && v.Type.DType.IsFloat() && v.Type.DType != dtype.F64 {
			return cast(v, dtype.F32)
		}
		return v
	}
	given := func(i int) *ir.Node {
		if !n.has(i) {
			return nil
		}
		return wide(n.x(i))
	}
	state := func(i int) *ir.Node {
		v := given(i)
		if v == nil || zeros(v) { // the default
			return nil
		}
		if l.batchFirst {
			v = op.Transpose(v, 1, 0, 2)
		}
		return v
	}
	x, w, g := wide(l.x), wide(n.x(1)), int(l.gates*l.hidden)
	w = op.Reshape(w, ir.Shape{ir.Static(int64(l.dirs * g)), w.Type.Shape[2]})
	products := op.MatMul(x, w, op.MatMulAttrs{TransB: true})
	bias := given(3)
	if bias != nil {
		first := op.Narrow(bias, 1, 0, g)
		bias = op.Narrow(bias, 1, g, g)
		if !a.ResetAfter { // one bias
			first, bias = op.Add(first, bias), nil
		}
		products = op.Add(products, op.Reshape(first, ir.ShapeOf(int64(l.dirs*g))))
	}
	in := []*ir.Node{products, wide(n.x(2)), bias, state(5), nil, nil, nil}
	if n.has(4) {
		in[op.RecurrentLengths] = n.x(4)
	}
	if a.LSTM() {
		in[op.RecurrentC], in[op.RecurrentPeephole] = state(6), given(7)
	}
	results := op.Recurrent(a, in...)
	for k, v := range results {
		v = cast(v, stored)
		switch {
		case k == 0 && l.batchFirst:
			v = op.Transpose(v, 1, 0, 2, 3)
		case k == 0:
			v = op.Transpose(v, 0, 2, 1, 3)
		case l.batchFirst:
			v = op.Transpose(v, 1, 0, 2)
		}
		results[k] = v
	}
	return many(results...)
}

// loops converts a layer that the op recurrent is not to a scan over time for each direction.
func (l *recurrentLayer) loops() []*value {
	n, x, w := l.node, l.x, l.node.x(1)
	length, batch := x.Type.Shape[0], x.Type.Shape[1]
	if !length.IsStatic() {
		n.fail("input is %v; want a length that is known for such activations, clip or input_forget", x.Type)
	}
	all, per := n.activations(l.names), len(l.names)/l.dirs
	var outs, finals, cells []*ir.Node
	for d := range l.dirs {
		pick := func(i int) *ir.Node {
			if !n.has(i) {
				return nil
			}
			v := op.Narrow(n.x(i), 0, d, 1)
			return op.Reshape(v, v.Type.Shape[1:])
		}
		initial := func(i int) *ir.Node {
			if !n.has(i) {
				return op.Const(n.b.g, 0, ir.Type{DType: x.Type.DType, Shape: ir.Shape{batch, ir.Static(l.hidden)}})
			}
			v := n.x(i)
			if l.batchFirst {
				v = op.Transpose(v, 1, 0, 2)
			}
			v = op.Narrow(v, 0, d, 1)
			return op.Reshape(v, v.Type.Shape[1:])
		}
		one := layer{n: n, hidden: l.hidden, batch: batch, acts: all[d*per : (d+1)*per], clip: n.float("clip", 0),
			gates: l.gates, states: l.states, r: pick(2), b: pick(3)}
		if l.states == 2 {
			one.p = pick(7)
		}
		state := initial(5)
		if l.states == 2 {
			state = op.Concat(1, state, initial(6))
		}
		back := l.reverse || d == 1
		in := x
		if back {
			in = n.backwards(x)
		}
		wd := op.Reshape(op.Narrow(w, 0, d, 1), w.Type.Shape[1:])
		trajectory := one.run(op.MatMul(in, wd, op.MatMulAttrs{TransB: true}), state)
		last := op.Reshape(op.Narrow(trajectory, 0, int(length.Const)-1, 1), trajectory.Type.Shape[1:])
		y := trajectory
		if l.states == 2 {
			y = op.Narrow(trajectory, 2, 0, int(l.hidden))
			cells = append(cells, op.Narrow(last, 1, int(l.hidden), int(l.hidden)))
			last = op.Narrow(last, 1, 0, int(l.hidden))
		}
		if n.has(4) { // nothing after the end
			t := n.along(y.Type.Shape, 0)
			y = op.Where(op.Lt(t, n.at(cast(n.x(4), dtype.I64), 1, 3)), y, number(0, y))
		}
		if back {
			y = n.backwards(y)
		}
		outs, finals = append(outs, y), append(finals, last)
	}
	y := op.Stack(1, outs...)
	h := op.Stack(0, finals...)
	if l.batchFirst {
		y, h = op.Transpose(y, 2, 0, 1, 3), op.Transpose(h, 1, 0, 2)
	}
	if l.states == 1 {
		return many(y, h)
	}
	c := op.Stack(0, cells...)
	if l.batchFirst {
		c = op.Transpose(c, 1, 0, 2)
	}
	return many(y, h, c)
}

// backwards reverses sequences along axis 0, each by its own length if the layer has lengths.
func (n *node) backwards(x *ir.Node) *ir.Node {
	if !n.has(4) {
		return op.Flip(x, 0)
	}
	return n.reversed(x, n.x(4), 0, 1)
}

// run returns the state after each step: h, and c beside it for an LSTM. xw is the product of the inputs with W.
func (l *layer) run(xw, state *ir.Node) *ir.Node {
	n := l.n
	length := int(xw.Type.Shape[0].Const)
	outer := []*ir.Node{state}
	body := ir.NewGraph("step", n.b.g.Syms...)
	err := body.Build(func() {
		s := op.Input(body, "state", state.Type)
		inner := func(name string, v *ir.Node) *ir.Node {
			if v == nil {
				return nil
			}
			outer = append(outer, v)
			return op.Input(body, name, v.Type)
		}
		in := *l
		in.r, in.b, in.p = inner("r", l.r), inner("b", l.b), inner("p", l.p)
		var lens, t *ir.Node
		if n.has(4) {
			lens = inner("lens", cast(n.x(4), dtype.I64))
			outer = append(outer, op.Iota(n.b.g, 0, ir.TypeOf(dtype.I64, int64(length))))
		}
		outer = append(outer, xw)
		if lens != nil {
			t = op.Input(body, "t", ir.TypeOf(dtype.I64))
		}
		x := op.Input(body, "x", ir.Type{DType: xw.Type.DType, Shape: xw.Type.Shape[1:]})
		next := in.cell(x, s)
		if lens != nil {
			next = op.Where(op.Reshape(op.Lt(t, lens), ir.Shape{l.batch, ir.Static(1)}), next, s)
		}
		body.Return("next", next)
	})
	if err != nil {
		n.b.g.Fail(err)
	}
	steps := 1
	if n.has(4) {
		steps = 2
	}
	return n.b.g.Add(hir.ScanDef, hir.ScanAttrs{Body: body, Length: length, Carried: 1, Steps: steps, Trajectory: true},
		outer...)
}

// part returns columns i*H to (i+1)*H-1.
func (l *layer) part(x *ir.Node, i int64) *ir.Node {
	return op.Narrow(x, x.Type.Rank()-1, int(i*l.hidden), int(l.hidden))
}

func (l *layer) act(i int, x *ir.Node) *ir.Node {
	if l.clip > 0 {
		x = op.Clamp(x, -l.clip, l.clip)
	}
	return l.acts[i](x)
}

// cell is one step.
func (l *layer) cell(x, s *ir.Node) *ir.Node {
	n := l.n
	g := l.gates * l.hidden
	var rb *ir.Node
	if l.b != nil {
		x = op.Add(x, op.Narrow(l.b, 0, 0, int(g)))
		rb = op.Narrow(l.b, 0, int(g), int(g))
	}
	product := func(h, r, b *ir.Node) *ir.Node {
		y := op.MatMul(h, r, op.MatMulAttrs{TransB: true})
		if b != nil {
			y = op.Add(y, b)
		}
		return y
	}
	switch l.gates {
	case 1:
		return l.act(0, op.Add(x, product(s, l.r, rb)))
	case 3: // z, r, h
		rows := func(v *ir.Node, from, count int64) *ir.Node {
			if v == nil {
				return nil
			}
			return op.Narrow(v, 0, int(from*l.hidden), int(count*l.hidden))
		}
		zr := op.Add(op.Narrow(x, 1, 0, int(2*l.hidden)), product(s, rows(l.r, 0, 2), rows(rb, 0, 2)))
		z, r := l.act(0, l.part(zr, 0)), l.act(0, l.part(zr, 1))
		var h *ir.Node
		if n.int("linear_before_reset", 0) != 0 {
			h = op.Mul(r, product(s, rows(l.r, 2, 1), rows(rb, 2, 1)))
		} else {
			h = product(op.Mul(r, s), rows(l.r, 2, 1), rows(rb, 2, 1))
		}
		h = l.act(1, op.Add(l.part(x, 2), h))
		return op.Add(op.Mul(op.Sub(number(1, z), z), h), op.Mul(z, s))
	}
	h, c := l.part(s, 0), l.part(s, 1) // i, o, f, c
	all := op.Add(x, product(h, l.r, rb))
	peep := func(v *ir.Node, i int64, c *ir.Node) *ir.Node {
		if l.p == nil {
			return v
		}
		return op.Add(v, op.Mul(l.part(l.p, i), c))
	}
	i := l.act(0, peep(l.part(all, 0), 0, c))
	f := op.Sub(number(1, i), i)
	if n.int("input_forget", 0) == 0 {
		f = l.act(0, peep(l.part(all, 2), 2, c))
	}
	next := op.Add(op.Mul(f, c), op.Mul(i, l.act(1, l.part(all, 3))))
	o := l.act(0, peep(l.part(all, 1), 1, next))
	return op.Concat(1, op.Mul(o, l.acts[2](next)), next)
}

// activations returns the functions with the given names.
func (n *node) activations(names []string) (out []func(x *ir.Node) *ir.Node) {
	var alphas, betas []float32
	if a := n.attr("activation_alpha"); a != nil {
		alphas = a.GetFloats()
	}
	if a := n.attr("activation_beta"); a != nil {
		betas = a.GetFloats()
	}
	next := func(l *[]float32, otherwise float64) float64 {
		if len(*l) == 0 {
			return otherwise
		}
		v := (*l)[0]
		*l = (*l)[1:]
		return float64(v)
	}
	for _, name := range names {
		switch name {
		case "sigmoid":
			out = append(out, op.Sigmoid)
		case "tanh":
			out = append(out, op.Tanh)
		case "relu":
			out = append(out, op.Relu)
		case "softsign":
			out = append(out, func(x *ir.Node) *ir.Node { return op.Div(x, op.Add(number(1, x), op.Abs(x))) })
		case "softplus":
			out = append(out, func(x *ir.Node) *ir.Node { return op.Softplus(x, 1, 1e9) })
		case "leakyrelu":
			a := next(&alphas, 0.01)
			out = append(out, func(x *ir.Node) *ir.Node { return op.LeakyRelu(x, a) })
		case "elu":
			a := next(&alphas, 1)
			out = append(out, func(x *ir.Node) *ir.Node { return op.Elu(x, a) })
		case "hardsigmoid":
			a, b := next(&alphas, 0.2), next(&betas, 0.5)
			out = append(out, func(x *ir.Node) *ir.Node { return op.Hardsigmoid(x, a, b) })
		case "affine":
			a, b := next(&alphas, 1), next(&betas, 0)
			out = append(out, func(x *ir.Node) *ir.Node { return op.Add(op.Mul(number(a, x), x), number(b, x)) })
		case "scaledtanh":
			a, b := next(&alphas, 1), next(&betas, 1)
			out = append(
				out, func(x *ir.Node) *ir.Node { return op.Mul(number(a, x), op.Tanh(op.Mul(number(b, x), x))) })
		default:
			n.fail("activation %q is unknown", name)
		}
	}
	return out
}
