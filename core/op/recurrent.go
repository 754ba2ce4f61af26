package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// RecurrentAttrs are the attributes of recurrent.
type RecurrentAttrs struct {
	Kind       string `attr:"kind"`        // lstm, gru, rnn_tanh or rnn_relu
	ResetAfter bool   `attr:"reset_after"` // of a gru: the reset gate scales the product with r, not the state
	Reverse    bool   `attr:"reverse"`     // the only direction goes from the last step to the first
}

// Optional operands of recurrent.
const (
	RecurrentBias = 2 + iota
	RecurrentH
	RecurrentC
	RecurrentLengths
	RecurrentPeephole
)

// Gates returns the number of gates, or 0 if the kind is unknown.
func (a RecurrentAttrs) Gates() int {
	return map[string]int{"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}[a.Kind]
}

// LSTM reports whether the kind has a cell.
func (a RecurrentAttrs) LSTM() bool { return a.Kind == "lstm" }

// Backwards reports whether a direction goes from the last step to the first.
func (a RecurrentAttrs) Backwards(direction int) bool { return a.Reverse || direction == 1 }

// RecurrentDef defines recurrent layers.
var RecurrentDef = ir.DefineTuple(ir.TupleDef[RecurrentAttrs]{
	Name: "recurrent",
	Doc: "A recurrent layer of D directions (1 or 2; the second goes from the last step to the first): an LSTM, a GRU or an Elman network as ONNX defines them. " +
		"x [T,B,D*G*H] are the products of the inputs with the weights of the G gates of H units, with their biases; r [D,G*H,H] are the weights of the state, and bias [D,G*H] is added to their products. " +
		"h and c [D,B,H] are the first states, or 0. For each sequence and direction, with a = x_t + h r^T + bias, whose parts follow one another: " +
		"rnn_tanh and rnn_relu: h = f(a). " +
		"gru, with the parts z, r, n: z = sigmoid(a_z), r = sigmoid(a_r), n = tanh(x_n + (r*h) r_n^T + bias_n) or, with reset_after, tanh(x_n + r*(h r_n^T + bias_n)); h = (1-z)*n + z*h. " +
		"lstm, with the parts i, o, f, g, and the weights p [D,3*H] of i, o and f for the cell, if they are given: i = sigmoid(a_i + p_i*c), f = sigmoid(a_f + p_f*c), c = f*c + i*tanh(a_g), o = sigmoid(a_o + p_o*c) with the new c, h = o*tanh(c). " +
		"Steps from lengths [B] on do not change the states, and y is 0 there. Only an lstm has c and p. The float types are equal.",
	Results:  "y [T,B,D,H], the final h [D,B,H]; of an lstm, the final c [D,B,H]",
	Operands: "x, r, bias?, h?, c?, lengths?, p?",
	Infer:    inferRecurrent,
	Eval: func(a RecurrentAttrs, in, out []*tensor.Array) error {
		a.eval(in, out)
		return nil
	},
	Memory: func(s ir.Sig[RecurrentAttrs], _ []ir.Type) int64 { return s.Attrs.memory(s.In[1].Shape[2].Const) },
	FLOPs:  func(_ RecurrentAttrs, in, _ []ir.Type) int64 { return 2 * numel(in[0]) * in[1].Shape[2].Const },
	Tol: func(_ RecurrentAttrs, in, out []ir.Type) []ir.Tolerance {
		tol := make([]ir.Tolerance, len(out))
		for k := range out {
			tol[k] = summed(out[k].DType, 4*in[1].Shape[2].Const)
		}
		return tol
	},
	Cases: recurrentCases,
})

func inferRecurrent(s ir.Sig[RecurrentAttrs]) ([]ir.Type, error) {
	x, r, gates := s.In[0], s.In[1], int64(s.Attrs.Gates())
	if gates == 0 {
		return nil, fmt.Errorf("kind is %q; allowed are lstm, gru, rnn_tanh and rnn_relu", s.Attrs.Kind)
	}
	if x.DType != dtype.F32 && x.DType != dtype.F64 {
		return nil, fmt.Errorf("x is %v; want f32 or f64", x)
	}
	if x.Rank() != 3 || r.Rank() != 3 || !r.Shape.IsStatic() {
		return nil, fmt.Errorf("x and r are %v and %v; want [T,B,D*G*H] and [D,G*H,H] with known D and H", x, r)
	}
	d, h := r.Shape[0], r.Shape[2]
	if d.Const < 1 || d.Const > 2 || h.Const < 1 || r.Shape[1].Const != gates*h.Const {
		return nil, fmt.Errorf("r is %v; want [D,%d*H,H] with 1 or 2 directions and a unit or more", r, gates)
	}
	if s.Attrs.ResetAfter && s.Attrs.Kind != "gru" {
		return nil, fmt.Errorf("reset_after is set for kind %q; only a gru has it", s.Attrs.Kind)
	}
	if s.Attrs.Reverse && d.Const == 2 {
		return nil, fmt.Errorf("reverse is set for two directions, of which the second goes backwards; want false")
	}
	for k := range s.In {
		if (k == RecurrentC || k == RecurrentPeephole) && s.In[k].Present() && !s.Attrs.LSTM() {
			return nil, fmt.Errorf("%s is given for kind %q; only an lstm has it", []string{RecurrentC: "c",
				RecurrentPeephole: "p"}[k], s.Attrs.Kind)
		}
	}
	steps, batch, hidden := x.Shape[0], x.Shape[1], h.Const
	typed := func(dims ...ir.Dim) ir.Type { return ir.Type{DType: x.DType, Shape: dims} }
	state, lengths := typed(d, batch, h), ir.Type{DType: dtype.I64, Shape: ir.Shape{batch}}
	if l := s.In[RecurrentLengths]; l.Present() && l.DType == dtype.I32 {
		lengths.DType = dtype.I32
	}
	want := []ir.Type{typed(steps, batch, ir.Static(d.Const*gates*hidden)), typed(r.Shape...),
		typed(d, ir.Static(gates*hidden)), state, state, lengths, typed(d, ir.Static(3*hidden))}
	if err := operandsAre("recurrent", s.In, want); err != nil {
		return nil, err
	}
	results := []ir.Type{typed(steps, batch, d, h), state}
	if s.Attrs.LSTM() {
		results = append(results, state)
	}
	return results, nil
}

// recurrentEval evaluates one direction of one sequence at a time. Its slices have a value for each unit.
type recurrentEval struct {
	RecurrentAttrs
	in, out                           []*tensor.Array
	d, b                              int // the direction and the sequence
	h, c, nextH, nextC, reset, scaled []float64
}

// memory returns the bytes that eval allocates: the slices and little else.
func (a RecurrentAttrs) memory(hidden int64) int64 { return 6*8*hidden + 1024 }

func (a RecurrentAttrs) eval(in, out []*tensor.Array) {
	hidden := in[1].Shape[2]
	all := make([]float64, 6*hidden)
	part := func(k int) []float64 { return all[k*hidden : (k+1)*hidden] }
	e := recurrentEval{a, in, out, 0, 0, part(0), part(1), part(2), part(3), part(4), part(5)}
	for e.d = range in[1].Shape[0] {
		for e.b = range in[0].Shape[1] {
			e.sequence()
		}
	}
}

func (e *recurrentEval) sequence() {
	x := e.in[0]
	steps, batch, dirs, hidden := x.Shape[0], x.Shape[1], e.in[1].Shape[0], len(e.h)
	g := e.Gates() * hidden
	at := (e.d*batch + e.b) * hidden
	clear(e.h)
	clear(e.c)
	for k, s := range [][]float64{e.h, e.c} {
		if first := e.in[RecurrentH+k]; first != nil {
			copy(s, first.Floats[at:])
		}
	}
	for i := range steps {
		t := i
		if e.Backwards(e.d) {
			t = steps - 1 - i
		}
		if l := e.in[RecurrentLengths]; l != nil && int64(t) >= l.Ints[e.b] {
			continue
		}
		e.step(x.Floats[((t*batch+e.b)*dirs+e.d)*g:][:g])
		e.h, e.nextH = e.nextH, e.h
		e.c, e.nextC = e.nextC, e.c
		copy(e.out[0].Floats[((t*batch+e.b)*dirs+e.d)*hidden:], e.h)
	}
	copy(e.out[1].Floats[at:], e.h)
	if e.LSTM() {
		copy(e.out[2].Floats[at:], e.c)
	}
}

// weigh returns row j of the weights times a state, with its bias.
func (e *recurrentEval) weigh(s []float64, j int) (sum float64) {
	row := e.d*e.Gates()*len(s) + j
	for k, v := range s {
		sum += v * e.in[1].Floats[row*len(s)+k]
	}
	if bias := e.in[RecurrentBias]; bias != nil {
		sum += bias.Floats[row]
	}
	return sum
}

// peep returns the input of a gate from the cell.
func (e *recurrentEval) peep(gate, j int, c float64) float64 {
	p := e.in[RecurrentPeephole]
	if p == nil {
		return 0
	}
	return p.Floats[(3*e.d+gate)*len(e.h)+j] * c
}

// step sets nextH and nextC.
func (e *recurrentEval) step(x []float64) {
	n, h := len(e.h), e.h
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	switch e.Kind {
	case "rnn_tanh", "rnn_relu":
		for j := range n {
			e.nextH[j] = x[j] + e.weigh(h, j)
			if e.Kind == "rnn_tanh" {
				e.nextH[j] = math.Tanh(e.nextH[j])
			} else if e.nextH[j] < 0 {
				e.nextH[j] = 0
			}
		}
	case "gru":
		for j := range n {
			e.reset[j] = sigmoid(x[n+j] + e.weigh(h, n+j))
			e.scaled[j] = e.reset[j] * h[j]
		}
		for j := range n {
			z, v := sigmoid(x[j]+e.weigh(h, j)), 0.0
			if e.ResetAfter {
				v = e.reset[j] * e.weigh(h, 2*n+j)
			} else {
				v = e.weigh(e.scaled, 2*n+j)
			}
			e.nextH[j] = (1-z)*math.Tanh(x[2*n+j]+v) + z*h[j]
		}
	case "lstm":
		for j, c := range e.c {
			part := func(k int) float64 { return x[k*n+j] + e.weigh(h, k*n+j) }
			i, f := sigmoid(part(0)+e.peep(0, j, c)), sigmoid(part(2)+e.peep(2, j, c))
			next := f*c + i*math.Tanh(part(3))
			e.nextC[j], e.nextH[j] = next, sigmoid(part(1)+e.peep(1, j, next))*math.Tanh(next)
		}
	}
}

func recurrentCases() (cases []ir.Case[RecurrentAttrs]) {
	add := func(d dtype.DType, a RecurrentAttrs, t, b, dirs, h int64, given ...int) {
		g := int64(a.Gates())
		c := ir.Case[RecurrentAttrs]{Attrs: a, In: make([]ir.Type, RecurrentPeephole+1),
			Fill: make([]ir.Range, RecurrentPeephole+1)}
		wide := 1 / math.Sqrt(float64(h))
		all := []ir.Type{ir.TypeOf(d, t, b, dirs*g*h), ir.TypeOf(d, dirs, g*h, h), ir.TypeOf(d, dirs, g*h),
			ir.TypeOf(d, dirs, b, h), ir.TypeOf(d, dirs, b, h), ir.TypeOf(dtype.I64, b), ir.TypeOf(d, dirs, 3*h)}
		fill := []ir.Range{{Lo: -2, Hi: 2}, {Lo: -wide, Hi: wide}, {Lo: -1, Hi: 1}, {Lo: -1, Hi: 1}, {Lo: -2, Hi: 2},
			{Lo: 0, Hi: float64(t)}, {Lo: -1, Hi: 1}}
		for _, k := range append([]int{0, 1}, given...) {
			c.In[k], c.Fill[k] = all[k], fill[k]
		}
		cases = append(cases, c)
	}
	lstm, gru := RecurrentAttrs{Kind: "lstm"}, RecurrentAttrs{Kind: "gru"}
	after := RecurrentAttrs{Kind: "gru", ResetAfter: true}
	reverse := func(a RecurrentAttrs) RecurrentAttrs { a.Reverse = true; return a }
	f := dtype.F32
	add(f, lstm, 1, 1, 1, 1)
	add(f, lstm, 3, 2, 1, 17, RecurrentH, RecurrentC, RecurrentBias)
	add(f, lstm, 5, 3, 2, 33, RecurrentLengths, RecurrentPeephole, RecurrentC)
	add(f, reverse(lstm), 4, 13, 1, 8, RecurrentLengths, RecurrentH)
	add(f, lstm, 0, 2, 1, 4, RecurrentH, RecurrentC)
	add(f, lstm, 2, 0, 2, 3)
	add(f, gru, 4, 1, 1, 31, RecurrentBias, RecurrentH)
	add(f, gru, 3, 5, 2, 16, RecurrentLengths)
	add(f, after, 6, 2, 2, 35, RecurrentBias, RecurrentH, RecurrentLengths)
	add(f, reverse(after), 3, 1, 1, 64, RecurrentBias)
	add(f, RecurrentAttrs{Kind: "rnn_tanh"}, 7, 9, 2, 19, RecurrentH, RecurrentLengths, RecurrentBias)
	add(f, reverse(RecurrentAttrs{Kind: "rnn_relu"}), 5, 4, 1, 66)
	add(dtype.F64, lstm, 3, 2, 2, 5, RecurrentH, RecurrentC, RecurrentPeephole, RecurrentLengths)
	add(dtype.F64, after, 2, 3, 1, 4, RecurrentBias)
	return cases
}

// Recurrent adds a recurrent layer. in are the operands; optional operands may be nil. It returns y, h and, for an
// lstm, c.
func Recurrent(a RecurrentAttrs, in ...*ir.Node) []*ir.Node {
	results := 2
	if a.LSTM() {
		results = 3
	}
	return in[0].Graph.AddResults(results, RecurrentDef, a, in...)
}
