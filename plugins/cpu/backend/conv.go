package backend

import (
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/conv"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// One kernel runs convolutions over one, two and three axes.
func init() {
	for axes := 1; axes <= 3; axes++ {
		for _, name := range []string{fmt.Sprintf("conv%dd", axes), fmt.Sprintf("conv_transpose%dd", axes)} {
			register(kernel{op: name, takes: takesF32, scratch: convScratch, prepare: prepareConv})
		}
		register(kernel{op: fmt.Sprintf("fused_conv%dd", axes), takes: takesF32 + " if act = " + acts(),
			scratch: convScratch, prepare: prepareConv})
	}
}

func prepareConv(n *ir.Node) func(*call) error {
	g, transposed := convGeometry(n.Attrs)
	act, known := convAct(n)
	if !known {
		return func(c *call) error { return unknownAct(c.node, n.Attrs.(op.FusedConvAttrs).Act) }
	}
	_, fused := n.Attrs.(op.FusedConvAttrs)
	var packed *conv.Packed
	if param(n.In[1]) != nil {
		packed = new(conv.Packed)
	}
	return func(c *call) error {
		a := convSizes(c.in[0].Shape, c.in[1].Shape, g, transposed)
		a.X, a.Weight, a.Bias, a.Out = f32(c.in[0]), weights(c.in[1]), optional(c, op.ConvBias), f32(c.out)
		a.Packed, a.Act = packed, act
		if fused {
			a.Addend, a.Residual = optional(c, op.FusedConvAddend), optional(c, op.FusedConvResidual)
		}
		conv.Convolve(c.pool, &a)
		return nil
	}
}

func convScratch(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
	g, transposed := convGeometry(n.Attrs)
	most := n.Graph.Syms.Largest
	a := convSizes(most(n.In[0].Type.Shape), most(n.In[1].Type.Shape), g, transposed)
	a.Act, _ = convAct(n) // exists: the rule lists it
	r := a.ScratchSize(p)
	if param(n.In[1]) != nil {
		varies := slices.ContainsFunc(n.In[0].Type.Shape[1:], func(d ir.Dim) bool { return !d.IsStatic() })
		r.Packed = a.PackedSize(p, varies)
	}
	return r
}

func convGeometry(attrs any) (g op.Geometry, transposed bool) {
	switch a := attrs.(type) {
	case op.ConvTransposeAttrs:
		return geometryOf(a.Geometry()), true
	case op.FusedConvAttrs:
		attrs = a.Conv()
	}
	return geometryOf(attrs.(op.ConvAttrs).Geometry()), false
}

// convAct returns the activation of a convolution. It returns false for one that no kernel has.
func convAct(n *ir.Node) (elementwise.UnaryOp, bool) {
	a, _ := n.Attrs.(op.FusedConvAttrs)
	return activation(a.Act)
}

// geometryOf drops the error of a Geometry method, which cannot happen here: type inference has checked the attributes.
func geometryOf(g op.Geometry, err error) op.Geometry {
	if err != nil {
		panic("BUG: cpu: " + err.Error())
	}
	return g
}

// convSizes returns the arguments that follow from the shapes of the image x and the weights w.
func convSizes(x, w []int, g op.Geometry, transposed bool) conv.Args {
	n, cin, size := g.Sizes(x)
	cout := w[0]
	if transposed {
		cout = w[1] * g.Groups
	}
	return conv.Args{Transposed: transposed, N: n, Cin: cin, Cout: cout, In: size, Kernel: g.Kernels(w),
		Stride: g.Stride, Pad: g.Padding,
		Dilation: g.Dilation, OutputPad: g.OutputPadding, Groups: g.Groups, Last: g.Last}
}
