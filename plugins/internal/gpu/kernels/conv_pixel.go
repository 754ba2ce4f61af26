package kernels

import (
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// pixelProduct returns a convolution whose filters cover all of x, so that its result has one pixel, as a product of x
// [batch, K] and the weights [out, K]. Squeeze and excitation consists of such convolutions, and kernels for products
// of few rows fill the device better than tiles, which would be mostly empty. It returns nil for other convolutions.
func pixelProduct(n *ir.Node, s convSizes) *ir.Node {
	x, w := n.In[0], n.In[1]
	if s.Transposed || s.Groups != 1 || s.Addend || s.Padding != [3]int{} || s.Last && s.Taps() > 1 {
		return nil
	}
	image := x.Type.Shape[2:]
	if s.Last {
		image = x.Type.Shape[1 : x.Type.Rank()-1]
	}
	for i, d := range image {
		if !d.Is(int64(s.Kernel[3-s.Axes+i])) {
			return nil
		}
	}
	matrix := func(from *ir.Node, rows ir.Dim, columns int) *ir.Node {
		t := ir.Type{DType: from.Type.DType, Shape: ir.Shape{rows, ir.Static(int64(columns))}}
		return &ir.Node{Op: op.ReshapeDef, Attrs: op.NoAttrs{}, In: []*ir.Node{from}, Type: t, Graph: n.Graph}
	}
	k := s.CIn * s.Taps()
	m := &ir.Node{Op: op.FusedMatMulDef, Attrs: op.FusedMatMulAttrs{TransB: true, Act: s.Act}, Graph: n.Graph,
		In:   []*ir.Node{matrix(x, x.Type.Shape[0], k), matrix(w, w.Type.Shape[0], k), n.In[op.ConvBias], nil},
		Type: ir.Type{DType: n.Type.DType, Shape: ir.Shape{n.Type.Shape[0], ir.Static(int64(s.COut))}}}
	if s.Residual {
		m.In[op.FusedMatMulResidual] = matrix(n.In[op.FusedConvResidual], n.Type.Shape[0], s.COut)
	}
	return m
}

// convPixel returns the shaders of a product that pixelProduct has made, as shaders of the convolution.
func convPixel(m *ir.Node, l Limits) []Shader {
	of := func(c *Call) *Call {
		rows, all := c.Out.Shape[0], *c
		all.In, all.Group = slices.Clone(c.In), nil
		all.In[0].Shape = append([]int{rows}, fixed(m.In[0].Type)[1])
		all.In[1].Shape = fixed(m.In[1].Type)
		all.Out.Shape = []int{rows, fixed(m.Type)[1]}
		return &all
	}
	out := products(m, withoutOwn(l))
	for i, s := range out {
		out[i].Groups = func(c *Call) int { return s.Groups(of(c)) }
		out[i].Params = func(c *Call) []uint32 { return s.Params(of(c)) }
		if s.Loops != nil {
			out[i].Loops = func(c *Call) int { return s.Loops(of(c)) }
		}
		for k, b := range s.Bindings {
			if b.Operand == op.FusedMatMulResidual {
				s.Bindings[k].Operand = op.FusedConvResidual
			}
		}
	}
	return out
}

// withoutOwn returns limits for a node that the device's own kernels and memory do not know.
func withoutOwn(l Limits) Limits {
	l.Own, l.OwnVectors, l.Keeps = nil, nil, false
	return l
}
