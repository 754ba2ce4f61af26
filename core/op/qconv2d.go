package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// QConv2DAttrs are the attributes of qconv2d.
type QConv2DAttrs struct {
	Stride   []int `attr:"stride"`   // default 1
	Padding  []int `attr:"padding"`  // on both sides, default 0
	Dilation []int `attr:"dilation"` // default 1
	Groups   int   `attr:"groups"`   // default 1
	XZero    int   `attr:"x_zero"`   // the integers that stand for 0 in x, w and the result
	WZero    int   `attr:"w_zero"`
	YZero    int   `attr:"y_zero"`
}

func (a QConv2DAttrs) conv() ConvAttrs {
	return ConvAttrs{a.Stride, a.Padding, a.Dilation, a.Groups, NCHW}
}

// Geometry returns the geometry of the convolution.
func (a QConv2DAttrs) Geometry() (Geometry, error) { return a.conv().Geometry() }

func (a QConv2DAttrs) matmul() QMatMulAttrs {
	return QMatMulAttrs{TransB: true, XZero: a.XZero, WZero: a.WZero, YZero: a.YZero}
}

// QConv2DDef defines the convolution of 8-bit integers. For targets that lack it, it is lowered to im2col and a qmatmul
// for each group.
var QConv2DDef = ir.Define(ir.Def[QConv2DAttrs]{
	Name: "qconv2d",
	Doc: "Takes x [N,Cin,H,W] and w [Cout,Cin/groups,kh,kw], i8 or u8 each, mult (f32 [] or [Cout]) and perhaps bias (i32 [Cout]). The result is the convolution of x - x_zero with " +
		"w - w_zero, of conv2d's geometry, finished as qmatmul finishes its sums. What lies in the padding stands for 0. Cin/groups*kh*kw is at most 32768.",
	Operands: "x, w, mult, bias?",
	Infer: func(s ir.Sig[QConv2DAttrs]) (ir.Type, error) {
		a, x, w := s.Attrs, s.In[0], s.In[1]
		if x.Rank() != 4 || w.Rank() != 4 || !w.Shape.IsStatic() {
			return ir.Type{},
				fmt.Errorf("operands are %v and %v; want x of rank 4, [N,C,H,W], and a static w of rank 4", x, w)
		}
		float := func(t ir.Type) ir.Type { return ir.Type{DType: dtype.F32, Shape: t.Shape} }
		g, err := a.Geometry()
		if err != nil {
			return ir.Type{}, err
		}
		out, err := inferConv(g, []ir.Type{float(x), float(w), {}}, s.Syms)
		if err != nil {
			return ir.Type{}, err
		}
		// The product of one row of patches checks the rest.
		k, _ := w.Shape[1:].Numel()
		row := ir.Type{DType: x.DType, Shape: ir.Shape{ir.Static(1), k}}
		flat := ir.Type{DType: w.DType, Shape: ir.Shape{w.Shape[0], k}}
		if _, err := QMatMulDef.Infer(a.matmul(), append([]ir.Type{row, flat}, s.In[2:]...), ir.Type{},
			s.Syms); err != nil {
			return ir.Type{}, err
		}
		return ir.Type{DType: x.DType, Shape: out.Shape}, nil
	},
	Eval: func(a QConv2DAttrs, in []*tensor.Array, out *tensor.Array) error {
		g, err := a.Geometry()
		if err != nil {
			return err
		}
		x, w := in[0], in[1]
		cout, per := out.Shape[1], w.Shape[1]
		size, made, taps := x.Shape[2:], out.Shape[2:], w.Shape[2:]
		for i := range out.Ints {
			n, o, y, z := i/(cout*made[0]*made[1]), i/(made[0]*made[1])%cout, i/made[1]%made[0], i%made[1]
			first := o / (cout / g.Groups) * per
			acc := int32(0)
			for c := range per {
				for r := range taps[0] {
					for q := range taps[1] {
						row, col := y*g.Stride[1]+r*g.Dilation[1]-g.Padding[1],
							z*g.Stride[2]+q*g.Dilation[2]-g.Padding[2]
						if row < 0 || row >= size[0] || col < 0 || col >= size[1] {
							continue
						}
						v := x.Ints[((n*x.Shape[1]+first+c)*size[0]+row)*size[1]+col]
						acc += int32(v-int64(a.XZero)) * int32(w.Ints[((o*per+c)*taps[0]+r)*taps[1]+q]-int64(a.WZero))
					}
				}
			}
			out.Ints[i] = a.matmul().finish(acc, o, in, out.DType)
		}
		return nil
	},
	FLOPs: func(_ QConv2DAttrs, in []ir.Type, out ir.Type) int64 {
		k, _ := in[1].Shape[1:].Numel()
		return 2 * numel(out) * k.Const
	},
	Tol: exact[QConv2DAttrs],
	Cases: func() []ir.Case[QConv2DAttrs] {
		c := func(a QConv2DAttrs, in ...ir.Type) ir.Case[QConv2DAttrs] {
			fill := []ir.Range{byteRange(in[0]), byteRange(in[1]), {Lo: 0.0005, Hi: 0.01}, {Lo: -1000, Hi: 1000}}
			return ir.Case[QConv2DAttrs]{Attrs: a, In: in, Fill: fill[:len(in)]}
		}
		pad := []int{1, 1}
		return []ir.Case[QConv2DAttrs]{
			c(QConv2DAttrs{}, i8(1, 1, 1, 1), i8(1, 1, 1, 1), f32()),
			c(QConv2DAttrs{Padding: pad}, i8(2, 3, 5, 6), i8(4, 3, 3, 3), f32(4), i32(4)),
			c(QConv2DAttrs{Padding: pad, Stride: []int{2, 1}, XZero: 128, YZero: 7}, u8(1, 4, 7, 5), i8(6, 4, 3, 3),
				f32()),
			c(QConv2DAttrs{Groups: 2, Dilation: []int{1, 2}, Padding: []int{0, 2}, XZero: -3, WZero: 5}, i8(1, 4, 4, 6),
				i8(6, 2, 2, 3), f32(6), i32(6)),
			c(QConv2DAttrs{}, i8(0, 2, 4, 4), i8(3, 2, 2, 2), f32()),
		}
	},
})

var _ = ir.Lower(QConv2DDef, func(_ *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	a, x, w, out := n.Attrs.(QConv2DAttrs), in[0], in[1], n.Type.Shape
	g, err := a.Geometry()
	if err != nil {
		panic("BUG: " + err.Error()) // Infer passed
	}
	if p := []int{0, 0, g.Padding[1], g.Padding[2]}; p[2]+p[3] > 0 {
		x = Pad(x, p, p, float64(a.XZero)) // im2col pads with the integer 0
	}
	k, _ := w.Type.Shape[1:].Numel()
	cout, cin := int(out[1].Const), int(x.Type.Shape[1].Const)
	groups := make([]*ir.Node, g.Groups)
	for i := range groups {
		part := func(v *ir.Node, axis, size int) *ir.Node {
			if g.Groups == 1 || v.Type.Rank() == 0 {
				return v
			}
			return Narrow(v, axis, i*size/g.Groups, size/g.Groups)
		}
		rows := Im2Col(
			part(x, 1, cin),
			Im2ColAttrs{Kernel: []int{int(w.Type.Shape[2].Const), int(w.Type.Shape[3].Const)}, Stride: a.Stride,
				Dilation: a.Dilation})
		weight := part(Reshape(w, ir.Shape{w.Type.Shape[0], k}), 0, cout)
		var bias *ir.Node
		if in[QMatMulBias] != nil {
			bias = part(in[QMatMulBias], 0, cout)
		}
		groups[i] = QMatMul(rows, weight, part(in[2], 0, cout), bias, a.matmul())
	}
	y := groups[0]
	if g.Groups > 1 {
		y = Concat(1, groups...)
	}
	return Transpose(Reshape(y, ir.Shape{out[0], out[2], out[3], out[1]}), 0, 3, 1, 2)
})

// QConv2D adds the convolution of 8-bit integers. bias may be nil.
func QConv2D(x, w, mult, bias *ir.Node, a QConv2DAttrs) *ir.Node {
	return x.Graph.Add(QConv2DDef, a, x, w, mult, bias)
}
