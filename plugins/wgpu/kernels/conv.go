package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed conv_direct.wgsl
var convDirectWGSL string

var (
	_ = register(Kernel{Op: "conv2d", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		g, err := n.Attrs.(op.Conv2DAttrs).Geometry()
		if err != nil {
			return nil
		}
		if gemm, ok := convTiled(n, g); ok {
			return []Shader{gemm}
		}
		return []Shader{convDirect(n, g, false)}
	}})
	_ = register(Kernel{Op: "conv_transpose2d", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		g, err := n.Attrs.(op.ConvTranspose2DAttrs).Geometry()
		if err != nil {
			return nil
		}
		return []Shader{convDirect(n, g, true)}
	}})
)

// convTiled is the tiled product of the patches of x with the weight, whose K is in x kh x kw; ok is false for what it does
// not take: more than one group, channels first, sums that no vectors of four divide.
func convTiled(n *ir.Node, g op.ConvGeometry) (s Shader, ok bool) {
	x, w := n.In[0].Type, n.In[1].Type
	cout, depth := int(w.Shape[0].B), int(w.Shape[1].B*w.Shape[2].B*w.Shape[3].B)
	if g.Groups != 1 || g.C != 3 || depth%4 != 0 || depth < 64 || !aligned(n.In[1]) || x.DType != dtype.F32 || n.Type.DType != dtype.F32 {
		return s, false
	}
	vec := 0
	if cout%4 == 0 {
		vec = 4
	}
	consts := tiled{Tile: tiles[len(tiles)-1], Bias: len(n.In) == 3, Vec: vec}
	consts.A.Patches = true
	consts = consts.specialise(0, cout, depth)
	fields := []string{"groups", "m_size", "n_size", "k_size", "batch:8", "a_batch:8", "b_batch:8", "c_in", "h_in", "w_in", "h_out", "w_out", "kh", "kw",
		"stride_h", "stride_w", "pad_h", "pad_w", "dil_h", "dil_w"}
	s = Shader{Name: "conv2d", Body: matmulWGSL, Consts: consts, Fields: fields,
		Bindings: []Binding{{Name: "a", Operand: 0, DType: dtype.F32}, {Name: "b", Operand: 1, Vec: 4, DType: w.DType}}}
	if len(n.In) == 3 {
		s.Bindings = append(s.Bindings, Binding{Name: "bias", Operand: 2, Vec: vec, DType: dtype.F32})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, Vec: vec, DType: dtype.F32})
	rows := func(c *Call) int { return numel(c.Out.Shape) / cout }
	s.Groups = func(c *Call) int { return ceilDiv(rows(c), consts.TileM()) * ceilDiv(cout, consts.TileN()) }
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		p := concat([]uint32{uint32(s.Groups(c)), uint32(rows(c)), uint32(cout), uint32(depth)}, dims(nil), strides(nil), strides(nil))
		in, k, out := c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		for _, v := range []int{in[3], in[1], in[2], out[1], out[2], k[2], k[3], g.Stride[0], g.Stride[1], g.Padding[0], g.Padding[1], g.Dilation[0], g.Dilation[1]} {
			p = append(p, uint32(v))
		}
		return p
	}
	return s, true
}

func convDirect(n *ir.Node, g op.ConvGeometry, transposed bool) Shader {
	consts := map[string]any{"Last": g.C == 3, "Transposed": transposed, "Bias": len(n.In) == 3}
	fields := []string{"c_in", "h_in", "w_in", "c_out", "h_out", "w_out", "kh", "kw", "groups", "stride_h", "stride_w", "pad_h", "pad_w", "dil_h", "dil_w"}
	return mapped(n, n.Op.Name, convDirectWGSL, consts, fields, func(c *Call) (p []uint32) {
		x, w, y := c.In[0].Shape, c.In[1].Shape, c.Out.Shape
		for _, v := range []int{x[g.C], x[g.H], x[g.W], y[g.C], y[g.H], y[g.W], w[2], w[3], g.Groups, g.Stride[0], g.Stride[1], g.Padding[0], g.Padding[1], g.Dilation[0], g.Dilation[1]} {
			p = append(p, uint32(v))
		}
		return p
	})
}
