package op

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Operands of gated_delta_net_backward after those of gated_delta_net that are always there.
const (
	GatedDeltaNetBackwardDY = 5 + iota
	GatedDeltaNetBackwardState
	GatedDeltaNetBackwardDFinal
)

// GatedDeltaNetBackwardDef defines the gradients of gated_delta_net.
var GatedDeltaNetBackwardDef = ir.DefineTuple(ir.TupleDef[NoAttrs]{
	Name: "gated_delta_net_backward",
	Doc: "The gradients of gated_delta_net (see there), given its operands, the gradient dy of o, and dfinal of the final state, which counts as 0 if it is absent. All are f32 or all f64. " +
		"Of each head, with S the state after a token, P the one before it, w = v - exp(g)*(k P) and d = beta*w, and with dS = dfinal at first, the tokens in reverse order do: " +
		"dS += q^T dy / sqrt(N); dq = dy S^T / sqrt(N); e = k dS; dv = beta*e; dbeta = sum of w*e; dk = d dS^T - exp(g)*(dv P^T); " +
		"dg = exp(g) * (sum of dS*P - sum of dv*(k P)); dS = exp(g)*(dS - k^T dv). dstate is the last dS. dq and dk are sums over the heads that share them. " +
		"States need not be stored.",
	Results:  "dq, dk, dv, dg, dbeta, dstate (with state)",
	Operands: "q, k, v, g, beta, dy, state?, dfinal?",
	Infer: func(s ir.Sig[NoAttrs]) ([]ir.Type, error) {
		q, dy := s.In[0], s.In[GatedDeltaNetBackwardDY]
		state, dfinal := s.In[GatedDeltaNetBackwardState], s.In[GatedDeltaNetBackwardDFinal]
		if err := singleOrDouble("q", q); err != nil {
			return nil, err
		}
		out, err := GatedDeltaNetDef.InferResults(NoAttrs{}, append(s.In[:5:5], state), ir.Type{}, s.Syms)
		if err != nil {
			return nil, err
		}
		if !dy.Equal(out[0]) {
			return nil, ir.TypesDiffer(dy, out[0], "dy is %v; want %v, the type of gated_delta_net's result", dy,
				out[0])
		}
		if dfinal.Present() && !dfinal.Equal(out[1]) {
			return nil, ir.TypesDiffer(dfinal, out[1], "dfinal is %v; want %v, the type of the final state", dfinal,
				out[1])
		}
		types := s.In[:5:5]
		if state.Present() {
			types = append(types, state)
		}
		return types, nil
	},
	Eval: func(_ NoAttrs, in, out []*tensor.Array) error {
		evalGatedDeltaNetBackward(in, out)
		return nil
	},
	Memory: func(s ir.Sig[NoAttrs], _ []ir.Type) int64 {
		_, tokens := s.Syms.Bounds(s.In[0].Shape[1])
		_, n := s.Syms.Bounds(s.In[0].Shape[3])
		return 8 * n * (tokens + 2)
	},
	FLOPs: func(_ NoAttrs, in, _ []ir.Type) int64 { return 20 * numel(in[2]) * in[0].Shape[3].Const },
	Tol: func(_ NoAttrs, in, out []ir.Type) []ir.Tolerance {
		tol, sum := make([]ir.Tolerance, len(out)), max(in[0].Shape[3].Const, in[2].Shape[3].Const)
		for k := range out {
			tol[k] = summed(out[k].DType, 4*sum)
		}
		return tol
	},
	Cases: func() (cases []ir.Case[NoAttrs]) {
		types := []dtype.DType{dtype.F32, dtype.F64}
		for _, c := range GatedDeltaNetDef.Cases() {
			if d := c.In[0].DType; d != types[0] && d != types[1] {
				continue
			}
			x := ir.Case[NoAttrs]{In: append(c.In[:5:5], c.In[2]), Fill: append(c.Fill[:5:5], c.Fill[2])}
			if len(c.In) > GatedDeltaNetState {
				s := c.In[GatedDeltaNetState]
				x.In, x.Fill = append(x.In, s, s), append(x.Fill, c.Fill[GatedDeltaNetState], c.Fill[2])
			}
			cases = append(cases, x)
		}
		last := cases[len(cases)-1]
		last.In = last.In[:GatedDeltaNetBackwardDFinal]
		return append(cases, last)
	},
})

// GatedDeltaNetBackward returns the gradients of q, k, v, g, beta and, if it is there, of state. state and dfinal may
// be nil.
func GatedDeltaNetBackward(q, k, v, g, beta, dy, state, dfinal *ir.Node) []*ir.Node {
	results := 5
	if state != nil {
		results++
	}
	return q.Graph.AddResults(results, GatedDeltaNetBackwardDef, NoAttrs{}, q, k, v, g, beta, dy, state, dfinal)
}

// evalGatedDeltaNetBackward goes through the tokens with one column of the state at a time, because a column depends
// on no other.
func evalGatedDeltaNetBackward(in, out []*tensor.Array) {
	q, k, v, g, beta, dy := in[0], in[1], in[2], in[3], in[4], in[GatedDeltaNetBackwardDY]
	state, dfinal := in[GatedDeltaNetBackwardState], in[GatedDeltaNetBackwardDFinal]
	dq, dk, dv, dg, dbeta := out[0].Floats, out[1].Floats, out[2].Floats, out[3].Floats, out[4].Floats
	tokens, groups, n, heads, m := q.Shape[1], q.Shape[2], q.Shape[3], v.Shape[2], v.Shape[3]
	scale := 1 / math.Sqrt(float64(n))
	states, ds := make([]float64, (tokens+1)*n), make([]float64, n)
	for item := range q.Shape[0] * heads * m {
		bh, j := item/m, item%m
		b, h := bh/heads, bh%heads
		at := func(t int) (token, key int) {
			return (b*tokens+t)*heads + h, ((b*tokens+t)*groups + h*groups/heads) * n
		}
		clear(states)
		clear(ds)
		for i := range n {
			if state != nil {
				states[i] = state.Floats[(bh*n+i)*m+j]
			}
			if dfinal != nil {
				ds[i] = dfinal.Floats[(bh*n+i)*m+j]
			}
		}
		for t := range tokens {
			token, key := at(t)
			before, after := states[t*n:][:n], states[(t+1)*n:]
			decay := math.Exp(g.Floats[token])
			d := beta.Floats[token] * (v.Floats[token*m+j] - decay*dot(k.Floats[key:], before, n))
			for i, s := range before {
				after[i] = decay*s + k.Floats[key+i]*d
			}
		}
		for t := tokens - 1; t >= 0; t-- {
			token, key := at(t)
			before, after := states[t*n:][:n], states[(t+1)*n:][:n]
			decay, y := math.Exp(g.Floats[token]), scale*dy.Floats[token*m+j]
			read := dot(k.Floats[key:], before, n)
			w := v.Floats[token*m+j] - decay*read
			addScaled(ds, y, q.Floats[key:], n)
			addScaled(dq[key:], y, after, n)
			e := dot(k.Floats[key:], ds, n)
			back := beta.Floats[token] * e
			dv[token*m+j] = back
			dbeta[token] += w * e
			dg[token] += decay * (dot(ds, before, n) - back*read)
			addScaled(dk[key:], beta.Floats[token]*w, ds, n)
			addScaled(dk[key:], -decay*back, before, n)
			for i := range ds {
				ds[i] = decay * (ds[i] - k.Floats[key+i]*back)
			}
		}
		if state != nil {
			for i := range n {
				out[5].Floats[(bh*n+i)*m+j] = ds[i]
			}
		}
	}
}

var _ = ir.Gradient(GatedDeltaNetDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	in := allWidened(n.In...)
	do := dy[0]
	if do == nil {
		do = Const(n.Graph, 0, n.Results[0])
	}
	return narrowed(GatedDeltaNetBackward(in[0], in[1], in[2], in[3], in[4], widened(do), in[GatedDeltaNetState],
		dy[1]), n.In), nil
})
