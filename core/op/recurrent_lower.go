package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
)

// The expansion of recurrent is a loop for each direction. A direction that goes backwards gets its steps in reverse
// order. As steps from a sequence's length on change nothing, that is also right for sequences of different lengths.
var _ = ir.LowerTuple(RecurrentDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) []*ir.Node {
	a, x, dirs := n.Attrs.(RecurrentAttrs), in[0], int(in[1].Type.Shape[0].Const)
	if !x.Type.Shape[0].IsStatic() {
		g.Fail(fmt.Errorf("the number of steps is %v; want a known number where the target does not run recurrent "+
			"itself, as cpu does", x.Type.Shape[0]))
	}
	var ys []*ir.Node
	last := make([][]*ir.Node, 2)
	for d := range dirs {
		y, states := a.direction(g, in, d)
		ys = append(ys, y)
		for k, s := range states {
			last[k] = append(last[k], s)
		}
	}
	out := []*ir.Node{Stack(2, ys...), Stack(0, last[0]...)}
	if a.LSTM() {
		out = append(out, Stack(0, last[1]...))
	}
	return out
})

// direction returns y [T,B,H] and the final states [B,H] of one direction.
func (a RecurrentAttrs) direction(g *ir.Graph, in []*ir.Node, d int) (y *ir.Node, states []*ir.Node) {
	x, hidden := in[0], int(in[1].Type.Shape[2].Const)
	steps, gates := int(x.Type.Shape[0].Const), a.Gates()
	state := ir.Type{DType: x.Type.DType, Shape: ir.Shape{x.Type.Shape[1], ir.Static(int64(hidden))}}
	pick := func(k int) *ir.Node {
		if in[k] == nil {
			return nil
		}
		v := Narrow(in[k], 0, d, 1)
		return Reshape(v, v.Type.Shape[1:])
	}
	first := func(k int) *ir.Node {
		if in[k] == nil {
			return Const(g, 0, state)
		}
		return pick(k)
	}
	outer := []*ir.Node{first(RecurrentH)}
	if a.LSTM() {
		outer = append(outer, first(RecurrentC))
	}
	carried := len(outer)
	if steps == 0 {
		empty := state
		empty.Shape = append(ir.ShapeOf(0), state.Shape...)
		return Const(g, 0, empty), outer
	}
	order := func(v *ir.Node) *ir.Node {
		if a.Backwards(d) {
			return Flip(v, 0)
		}
		return v
	}
	cell := recurrentCell{attrs: a, hidden: hidden}
	body := ir.NewGraph("step", g.Syms...)
	inner := func(name string, v *ir.Node) *ir.Node {
		if v == nil {
			return nil
		}
		outer = append(outer, v)
		return Input(body, name, v.Type)
	}
	err := body.Build(func() {
		var now []*ir.Node
		for _, v := range outer {
			now = append(now, Input(body, fmt.Sprint("state", len(now)), v.Type))
		}
		cell.r, cell.bias = inner("r", pick(1)), inner("bias", pick(RecurrentBias))
		cell.p = inner("p", pick(RecurrentPeephole))
		lengths := in[RecurrentLengths]
		var t *ir.Node
		if lengths != nil {
			lengths = inner("lengths", lengths)
			outer = append(outer, order(Iota(g, 0, ir.TypeOf(lengths.Type.DType, int64(steps)))))
			t = Input(body, "t", ir.TypeOf(lengths.Type.DType))
		}
		outer = append(outer, order(Narrow(x, 2, d*gates*hidden, gates*hidden)))
		at := Input(body, "x", ir.Type{DType: x.Type.DType, Shape: outer[len(outer)-1].Type.Shape[1:]})
		next := cell.step(at, now)
		for k, v := range next {
			if lengths != nil {
				v = Where(Reshape(Lt(t, lengths), ir.Shape{state.Shape[0], ir.Static(1)}), v, now[k])
			}
			body.Return(fmt.Sprint("next", k), v)
		}
	})
	if err != nil {
		g.Fail(err)
	}
	attrs := LoopAttrs{Body: body, Carried: carried, Steps: 1, Length: steps}
	if in[RecurrentLengths] != nil {
		attrs.Steps = 2
	}
	for k := range carried {
		attrs.Results = append(attrs.Results, k)
	}
	attrs.Results = append(attrs.Results, carried)
	results := Loop(attrs, outer...)
	y = order(results[carried])
	if l := in[RecurrentLengths]; l != nil {
		t := Iota(g, 0, ir.TypeOf(l.Type.DType, int64(steps)))
		used := Lt(Reshape(t, ir.ShapeOf(int64(steps), 1, 1)), Reshape(l, ir.Shape{state.Shape[0], ir.Static(1)}))
		y = Where(used, y, number(0, y))
	}
	return y, results[:carried]
}

// recurrentCell is one step of a direction, as nodes.
type recurrentCell struct {
	attrs      RecurrentAttrs
	hidden     int
	r, bias, p *ir.Node // [G*H,H]; [G*H] and [3*H] or nil
}

// part returns columns k*H to (k+1)*H-1.
func (c *recurrentCell) part(x *ir.Node, k int) *ir.Node {
	return Narrow(x, x.Type.Rank()-1, k*c.hidden, c.hidden)
}

// weigh returns the product of a state with the weights of count gates from one on, and their bias.
func (c *recurrentCell) weigh(h *ir.Node, from, count int) *ir.Node {
	y := MatMul(h, Narrow(c.r, 0, from*c.hidden, count*c.hidden), MatMulAttrs{TransB: true})
	if c.bias != nil {
		y = Add(y, Narrow(c.bias, 0, from*c.hidden, count*c.hidden))
	}
	return y
}

func (c *recurrentCell) peep(v *ir.Node, k int, cell *ir.Node) *ir.Node {
	if c.p == nil {
		return v
	}
	return Add(v, Mul(c.part(c.p, k), cell))
}

// step returns the states after one step.
func (c *recurrentCell) step(x *ir.Node, now []*ir.Node) []*ir.Node {
	h := now[0]
	switch c.attrs.Kind {
	case "rnn_tanh":
		return []*ir.Node{Tanh(Add(x, c.weigh(h, 0, 1)))}
	case "rnn_relu":
		return []*ir.Node{Relu(Add(x, c.weigh(h, 0, 1)))}
	case "gru":
		both := Sigmoid(Add(Narrow(x, 1, 0, 2*c.hidden), c.weigh(h, 0, 2)))
		z, reset := c.part(both, 0), c.part(both, 1)
		var v *ir.Node
		if c.attrs.ResetAfter {
			v = Mul(reset, c.weigh(h, 2, 1))
		} else {
			v = c.weigh(Mul(reset, h), 2, 1)
		}
		v = Tanh(Add(c.part(x, 2), v))
		return []*ir.Node{Add(Mul(Sub(number(1, z), z), v), Mul(z, h))}
	}
	cell, all := now[1], Add(x, c.weigh(h, 0, 4))
	i := Sigmoid(c.peep(c.part(all, 0), 0, cell))
	f := Sigmoid(c.peep(c.part(all, 2), 2, cell))
	next := Add(Mul(f, cell), Mul(i, Tanh(c.part(all, 3))))
	o := Sigmoid(c.peep(c.part(all, 1), 1, next))
	return []*ir.Node{Mul(o, Tanh(next)), next}
}
