package pass

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// gates are the functions by which activations multiply their operand, and the activations: y = x*(a + b*t(p(x))),
// where p is a polynomial with the coefficients inner, from that of x on.
var gates = []struct {
	gate  *ir.OpDef
	inner []float64
	a, b  float64
	to    func(x *ir.Node) *ir.Node
}{
	{op.ErfDef, []float64{1 / math.Sqrt2}, 0.5, 0.5, op.Gelu},
	{op.TanhDef, []float64{math.Sqrt(2 / math.Pi), 0, 0.044715 * math.Sqrt(2/math.Pi)}, 0.5, 0.5, op.GeluTanh},
	{op.SigmoidDef, []float64{2 * math.Sqrt(2/math.Pi), 0, 2 * 0.044715 * math.Sqrt(2/math.Pi)}, 0, 1, op.GeluTanh},
	{op.SigmoidDef, []float64{1}, 0, 1, op.Silu},
	{op.TanhDef, []float64{0.5}, 0.5, 0.5, op.Silu},
}

// findActivation recognises GELU in its exact form and with tanh, SiLU and Mish. It treats n as a polynomial of x and
// the gate, so it recognises every way to write one.
func findActivation(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	if !n.Is(op.MulDef, op.AddDef, op.DivDef) {
		return nil
	}
	var found []*ir.Node
	gatesBelow(n, 6, &found)
	for _, t := range found {
		for _, x := range below(t.In[0]) {
			y, ok := polynomialOf(n, x, t)
			if !ok {
				continue
			}
			if t.Is(op.TanhDef) && isSoftplus(t.In[0], x) && y.is(term{1, 1}, 1) {
				return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return op.Mish(lookup(x)) }
			}
			for _, g := range gates {
				if t.Op != g.gate || !y.is(term{1, 0}, g.a, term{1, 1}, g.b) {
					continue
				}
				if p, ok := polynomialOf(t.In[0], x, nil); ok && p.has(g.inner) {
					return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return g.to(lookup(x)) }
				}
			}
		}
	}
	return nil
}

// isSoftplus reports whether n is softplus of x without a scale. Its threshold does not matter if it is 20 or more.
func isSoftplus(n, x *ir.Node) bool {
	if !n.Is(op.SoftplusDef) || n.In[0] != x {
		return false
	}
	a := n.Attrs.(op.SoftplusAttrs)
	return a.Beta == 1 && a.Threshold >= 20
}

// gatesBelow collects the gates from which n is computed by sums and products.
func gatesBelow(n *ir.Node, depth int, out *[]*ir.Node) {
	switch {
	case n.Is(op.ErfDef, op.TanhDef, op.SigmoidDef):
		*out = append(*out, n)
	case depth > 0 && n.Is(op.MulDef, op.AddDef, op.DivDef, op.SubDef):
		for _, x := range n.In {
			if len(*out) < 4 {
				gatesBelow(x, depth-1, out)
			}
		}
	}
}

// below returns n and the nodes from which it is computed by arithmetic, nearest first.
func below(n *ir.Node) (out []*ir.Node) {
	out = []*ir.Node{n}
	for i := 0; i < len(out) && len(out) < 16; i++ {
		if !out[i].Is(op.MulDef, op.AddDef, op.DivDef, op.SubDef, op.SquareDef, op.PowDef, op.SoftplusDef) {
			continue
		}
		for _, x := range out[i].In {
			if _, scalar := scalarOf(x); !scalar {
				out = append(out, x)
			}
		}
	}
	return out
}

// term is a product of powers of x and of the gate.
type term struct{ x, gate int }

// polynomial has the coefficients of terms.
type polynomial map[term]float64

// limits of polynomials
const (
	maxPower = 4
	maxSteps = 24
)

// is reports whether a polynomial has exactly the given terms, each followed by its coefficient. Terms with the
// coefficient 0 are absent.
func (p polynomial) is(want ...any) bool {
	n := 0
	for i := 0; i < len(want); i += 2 {
		v, ok := want[i+1].(float64)
		if !ok {
			v = float64(want[i+1].(int))
		}
		if v == 0 {
			continue
		}
		n++
		if !near(p[want[i].(term)], v) {
			return false
		}
	}
	return n == len(p)
}

// has reports whether a polynomial of x has the coefficients of x, x^2 and so on, and no others. want has the
// coefficients of models, which have few digits.
func (p polynomial) has(want []float64) bool {
	n := 0
	for i, v := range want {
		if v == 0 {
			continue
		}
		n++
		if !(abs(p[term{i + 1, 0}]-v) <= 1e-4*abs(v)) {
			return false
		}
	}
	return n == len(p)
}

// polynomialOf returns n as a polynomial of x and the gate t, which may be nil.
func polynomialOf(n, x, t *ir.Node) (p polynomial, ok bool) {
	steps := 0
	var of func(m *ir.Node) polynomial
	of = func(m *ir.Node) polynomial {
		steps++
		switch {
		case m == x:
			return polynomial{term{1, 0}: 1}
		case m == t:
			return polynomial{term{0, 1}: 1}
		case steps > maxSteps:
			return nil
		}
		if v, scalar := scalarOf(m); scalar {
			return polynomial{term{}: v}
		}
		if !m.Type.Shape.Equal(x.Type.Shape) {
			return nil
		}
		switch {
		case m.Is(op.AddDef):
			return sum(of(m.In[0]), of(m.In[1]), 1)
		case m.Is(op.SubDef):
			return sum(of(m.In[0]), of(m.In[1]), -1)
		case m.Is(op.MulDef):
			return times(of(m.In[0]), of(m.In[1]))
		case m.Is(op.DivDef):
			if v, scalar := scalarOf(m.In[1]); scalar && v != 0 {
				return times(of(m.In[0]), polynomial{term{}: 1 / v})
			}
		case m.Is(op.SquareDef):
			q := of(m.In[0])
			return times(q, q)
		case m.Is(op.PowDef):
			q := of(m.In[0])
			switch {
			case isNumber(m.In[1], 2):
				return times(q, q)
			case isNumber(m.In[1], 3):
				return times(times(q, q), q)
			}
		}
		return nil
	}
	p = of(n)
	return p, p != nil
}

func sum(a, b polynomial, sign float64) polynomial {
	if a == nil || b == nil {
		return nil
	}
	out := polynomial{}
	for k, v := range a {
		out[k] += v
	}
	for k, v := range b {
		out[k] += sign * v
	}
	return out
}

func times(a, b polynomial) polynomial {
	if a == nil || b == nil {
		return nil
	}
	out := polynomial{}
	for k, v := range a {
		for l, w := range b {
			m := term{k.x + l.x, k.gate + l.gate}
			if m.x > maxPower || m.gate > 1 {
				return nil
			}
			out[m] += v * w
		}
	}
	return out
}

// findSigmoid recognises 1/(1+exp(-x)).
func findSigmoid(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	var u *ir.Node
	switch {
	case n.Is(op.DivDef) && isNumber(n.In[0], 1) && sameElems(n, n.In[1]):
		u = n.In[1]
	case n.Is(op.ReciprocalDef):
		u = n.In[0]
	default:
		return nil
	}
	e, one, ok := otherThan(u, op.AddDef)
	if !ok || one != 1 || !e.Is(op.ExpDef) {
		return nil
	}
	x := e.In[0]
	if x.Is(op.NegDef) {
		x = x.In[0]
	} else if y, v, ok := otherThan(x, op.MulDef); ok && v == -1 {
		x = y
	} else {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return op.Sigmoid(lookup(x)) }
}

// findClamp recognises min(max(x, low), high), and max(min(x, high), low) if low is not above high.
func findClamp(n *ir.Node) func(lookup func(*ir.Node) *ir.Node) *ir.Node {
	x, high, ok := otherThan(n, op.MinDef)
	inner := op.MaxDef
	if !ok {
		if x, high, ok = otherThan(n, op.MaxDef); !ok {
			return nil
		}
		inner = op.MinDef
	}
	x, low, ok := otherThan(x, inner)
	if inner == op.MinDef {
		low, high = high, low
	}
	if !ok || !x.Type.Equal(n.Type) || math.IsNaN(low) || math.IsNaN(high) || inner == op.MinDef && !(low <= high) {
		return nil
	}
	return func(lookup func(*ir.Node) *ir.Node) *ir.Node { return op.Clamp(lookup(x), low, high) }
}
