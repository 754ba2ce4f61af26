package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// FusedConvAttrs are the attributes of fused_conv1d, fused_conv2d and fused_conv3d: those of the convolution, and an
// activation.
type FusedConvAttrs struct {
	// "" or an activation with its attributes, if it has any, such as leaky_relu(slope=0.01)
	Act      string `attr:"act"`
	Stride   []int  `attr:"stride"`
	Padding  []int  `attr:"padding"`
	Dilation []int  `attr:"dilation"`
	Groups   int    `attr:"groups"`
	Layout   string `attr:"layout"`
}

// ImageLayout implements ImageAttrs.
func (a FusedConvAttrs) ImageLayout() string { return a.Layout }

// WithImageLayout implements ImageAttrs.
func (a FusedConvAttrs) WithImageLayout(layout string) ImageAttrs {
	a.Layout = layout
	return a
}

// Optional operands of a fused convolution, after the bias of index ConvBias.
const (
	FusedConvAddend = ConvBias + 1 + iota
	FusedConvResidual
)

// Conv returns the attributes of the convolution alone.
func (a FusedConvAttrs) Conv() ConvAttrs {
	return ConvAttrs{a.Stride, a.Padding, a.Dilation, a.Groups, a.Layout}
}

// Fused returns the attributes of a convolution with an activation.
func (a ConvAttrs) Fused(act string) FusedConvAttrs {
	return FusedConvAttrs{act, a.Stride, a.Padding, a.Dilation, a.Groups, a.Layout}
}

// fusedConvs has the definitions by the number of spatial axes.
var fusedConvs [4]*ir.OpDef

// fusedConv defines a convolution with what follows it.
func fusedConv(plain *ir.OpDef, axes int, cases func() []ir.Case[FusedConvAttrs]) *ir.OpDef {
	def := ir.Define(ir.Def[FusedConvAttrs]{
		Name: "fused_" + plain.Name,
		Doc: fmt.Sprintf("act(%[1]s(x, w, bias) + addend) + residual, with the operands and attributes of %[1]s. "+
			"addend and residual have the result's type, if they are given. Nothing is rounded in between.",
			plain.Name),
		Operands: "x, w, bias?, addend?, residual?",
		Infer: func(s ir.Sig[FusedConvAttrs]) (ir.Type, error) {
			if err := CheckActivation(s.Attrs.Act); err != nil {
				return ir.Type{}, err
			}
			a := s.Attrs
			g, err := convGeometry(a.Layout, axes, a.Stride, a.Padding, nil, a.Dilation, a.Groups)
			if err != nil {
				return ir.Type{}, err
			}
			t, err := inferConv(g, s.In, s.Syms)
			for k, name := range []string{"addend", "residual"} {
				r := s.In[FusedConvAddend+k]
				if err == nil && r.Present() && !r.Equal(t) {
					err = ir.TypesDiffer(r, t, "%s is %v; want %v, the type of the result", name, r, t)
				}
			}
			return t, err
		},
		Eval: evalFusedConv,
		FLOPs: func(_ FusedConvAttrs, in []ir.Type, out ir.Type) int64 {
			return numel(out) * (2*convDepth(in[1]) +
				int64(btoi(in[FusedConvAddend].Present())+btoi(in[FusedConvResidual].Present())))
		},
		Tol: func(_ FusedConvAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
			return summed(out.DType, convDepth(in[1]))
		},
		Cases: cases,
	})
	ir.Lower(def, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
		a := n.Attrs.(FusedConvAttrs)
		y := in[0].Graph.Add(plain, a.Conv(), in[0], in[1], in[ConvBias])
		if addend := in[FusedConvAddend]; addend != nil {
			y = Add(y, addend)
		}
		y = Activate(y, a.Act)
		if residual := in[FusedConvResidual]; residual != nil {
			y = Add(y, residual)
		}
		return y
	})
	fusedConvs[axes] = def
	return def
}

func evalFusedConv(a FusedConvAttrs, in []*tensor.Array, out *tensor.Array) error {
	if err := evalConv(a.Conv(), in[:FusedConvAddend], out); err != nil {
		return err
	}
	add := func(x *tensor.Array) {
		for i := range out.Floats {
			out.Floats[i] += x.Floats[i]
		}
	}
	if x := in[FusedConvAddend]; x != nil {
		add(x)
	}
	if def, attrs, _ := ParseActivation(a.Act); def != nil {
		// The convolution is not rounded before the activation.
		exact := &tensor.Array{Shape: out.Shape, Floats: out.Floats}
		if err := def.Eval(attrs, []*tensor.Array{exact}, exact); err != nil {
			return err
		}
	}
	if x := in[FusedConvResidual]; x != nil {
		add(x)
	}
	return nil
}

// FusedConv returns a node that computes act(conv(x, w) + bias + addend) + residual for as many spatial axes as x has.
// bias, addend and residual may be nil.
func FusedConv(x, w, bias, addend, residual *ir.Node, attrs FusedConvAttrs) *ir.Node {
	return x.Graph.Add(fusedConvs[x.Type.Rank()-2], attrs, x, w, bias, addend, residual)
}

// fusedConvCase is a case of a fused convolution.
func fusedConvCase(a FusedConvAttrs, in ...ir.Type) ir.Case[FusedConvAttrs] {
	return ir.Case[FusedConvAttrs]{Attrs: a, In: in}
}
