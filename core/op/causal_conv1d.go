package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// CausalConv1DAttrs are the attributes of causal_conv1d.
type CausalConv1DAttrs struct {
	Silu bool `attr:"silu"`
}

// Optional operands of causal_conv1d.
const (
	CausalConv1DBias = 2 + iota
	CausalConv1DPad
)

// CausalConv1DDef defines the short convolution that precedes a recurrence.
var CausalConv1DDef = ir.DefineTuple(ir.TupleDef[CausalConv1DAttrs]{
	Name: "causal_conv1d",
	Doc: "A convolution of each channel by itself along the tokens, which sees no later ones. Of x [B,T,C], w [C,K], and, if they are given, bias [C] and pad [B,K-1,C]: " +
		"with z = pad, or zeros, followed by x, y[b,t,c] = bias[c] + sum over i of z[b,t+i,c]*w[c,i], through silu if that is set. " +
		"The other result is the last K-1 tokens of z, which are the pad of the tokens that follow. The types are equal.",
	Results:  "y [B,T,C], the new pad [B,K-1,C]",
	Operands: "x, w, bias?, pad?",
	Infer: func(s ir.Sig[CausalConv1DAttrs]) ([]ir.Type, error) {
		x, w := s.In[0], s.In[1]
		if err := isFloat("x", x); err != nil {
			return nil, err
		}
		if x.Rank() != 3 || w.Rank() != 2 {
			return nil, fmt.Errorf("x and w are %v and %v; want [B,T,C] and [C,K]", x, w)
		}
		k := w.Shape[1]
		if !k.IsStatic() || k.Const < 1 {
			return nil, fmt.Errorf("w is %v, with %v taps; want a number that is known, 1 or more", w, k)
		}
		pad := ir.Type{DType: x.DType, Shape: ir.Shape{x.Shape[0], ir.Static(k.Const - 1), x.Shape[2]}}
		want := []ir.Type{x, {DType: x.DType, Shape: ir.Shape{x.Shape[2], k}}, {DType: x.DType, Shape: x.Shape[2:]},
			pad}
		if err := operandsAre("causal_conv1d", s.In, want); err != nil {
			return nil, err
		}
		return []ir.Type{x, pad}, nil
	},
	Eval: func(a CausalConv1DAttrs, in, out []*tensor.Array) error {
		x, w, y, next := in[0], in[1].Floats, out[0], out[1]
		bias, pad := in[CausalConv1DBias], in[CausalConv1DPad]
		tokens, channels, k := x.Shape[1], x.Shape[2], in[1].Shape[1]
		for b := range x.Shape[0] {
			for c := range channels {
				z := func(i int) float64 {
					switch {
					case i >= k-1:
						return x.Floats[(b*tokens+i-k+1)*channels+c]
					case pad != nil:
						return pad.Floats[(b*(k-1)+i)*channels+c]
					}
					return 0
				}
				for t := range tokens {
					sum := 0.0
					if bias != nil {
						sum = bias.Floats[c]
					}
					for i := range k {
						sum += z(t+i) * w[c*k+i]
					}
					if a.Silu {
						sum /= 1 + math.Exp(-sum)
					}
					y.Floats[(b*tokens+t)*channels+c] = sum
				}
				for i := range k - 1 {
					next.Floats[(b*(k-1)+i)*channels+c] = z(tokens + i)
				}
			}
		}
		return nil
	},
	FLOPs: func(a CausalConv1DAttrs, in, _ []ir.Type) int64 { return numel(in[0]) * (2*in[1].Shape[1].Const + 5) },
	Tol: func(_ CausalConv1DAttrs, in, out []ir.Type) []ir.Tolerance {
		return []ir.Tolerance{summed(out[0].DType, in[1].Shape[1].Const), {}}
	},
	Cases: func() []ir.Case[CausalConv1DAttrs] {
		c := func(d dtype.DType, b, t, channels, k int64, bias, pad, silu bool) ir.Case[CausalConv1DAttrs] {
			in := []ir.Type{ir.TypeOf(d, b, t, channels), ir.TypeOf(d, channels, k), {}, {}}
			if bias {
				in[CausalConv1DBias] = ir.TypeOf(d, channels)
			}
			if pad {
				in[CausalConv1DPad] = ir.TypeOf(d, b, k-1, channels)
			}
			return ir.Case[CausalConv1DAttrs]{Attrs: CausalConv1DAttrs{silu}, In: in}
		}
		return []ir.Case[CausalConv1DAttrs]{
			c(dtype.F32, 1, 1, 1, 1, false, false, false), c(dtype.F32, 2, 9, 33, 4, true, true, true),
			c(dtype.F32, 1, 1, 70, 4, false, true, true), c(dtype.F32, 1, 2, 5, 4, true, false, false),
			c(dtype.F32, 2, 17, 3, 3, false, false, true), c(dtype.F32, 1, 3, 8, 7, true, true, false),
			c(dtype.F32, 2, 0, 4, 4, true, true, true), c(dtype.F32, 0, 3, 4, 2, false, true, false),
			c(dtype.F16, 1, 5, 6, 4, true, true, true), c(dtype.BF16, 1, 5, 6, 4, false, true, true),
			c(dtype.F64, 1, 5, 3, 2, true, true, true),
		}
	},
})

// CausalConv1D adds a short causal convolution of each channel. bias and pad may be nil.
func CausalConv1D(x, w, bias, pad *ir.Node, silu bool) (y, next *ir.Node) {
	r := x.Graph.AddResults(2, CausalConv1DDef, CausalConv1DAttrs{silu}, x, w, bias, pad)
	return r[0], r[1]
}

// With z as in the definition and ds the gradient of the sums: dz[u] = sum over i of ds[u-i] w[i], the same convolution
// with the taps in reverse order, and dw[i] = sum over t of ds[t] z[t+i].
var _ = ir.Gradient(CausalConv1DDef, func(n *ir.Node, dy []*ir.Node) ([]*ir.Node, error) {
	g, x, w := n.Graph, n.In[0], n.In[1]
	bias, pad := n.In[CausalConv1DBias], n.In[CausalConv1DPad]
	tokens, k := x.Type.Shape[1], int(w.Type.Shape[1].Const)
	padType := n.Results[1]
	zeros := Const(g, 0, padType)
	dx := make([]*ir.Node, 4)
	var dz *ir.Node
	if ds := dy[0]; ds != nil {
		if n.Attrs.(CausalConv1DAttrs).Silu {
			sum, _ := CausalConv1D(x, w, bias, pad, false)
			s := Sigmoid(sum)
			ds = Mul(ds, Mul(s, plusConst(Mul(sum, constMinus(1, s)), 1)))
		}
		dz, _ = CausalConv1D(Concat(1, ds, zeros), Flip(w, 1), nil, nil, false)
		z := Concat(1, zeros, x)
		if pad != nil {
			z = Concat(1, pad, x)
		}
		taps := make([]*ir.Node, k)
		for i := range taps {
			taps[i] = ReduceSum(Mul(ds, cut(z, 1, ir.Static(int64(i)), tokens)), false, 0, 1)
		}
		dx[1], dx[CausalConv1DBias] = Stack(1, taps...), ReduceSum(ds, false, 0, 1)
	}
	if next := dy[1]; next != nil {
		next = Concat(1, Const(g, 0, x.Type), next)
		if dz == nil {
			dz = next
		} else {
			dz = Add(dz, next)
		}
	}
	dx[0], dx[CausalConv1DPad] = cut(dz, 1, ir.Static(int64(k-1)), tokens), Narrow(dz, 1, 0, k-1)
	if bias == nil {
		dx[CausalConv1DBias] = nil
	}
	return dx, nil
})
