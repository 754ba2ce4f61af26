package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed dequant_scheme.wgsl
var dequantSchemeWGSL string

// schemeRule lists the quantization schemes that schemeProduct supports.
const schemeRule = `(f32, i8|u8, scale: f32|u8, zero: f32, global: f32) if scheme = "int8"|"int8_asym"|"int4"|"fp8_e4m3"|"fp8_e5m2"|"nvfp4" and activations = "f32"`

// schemeConsts has the template constants of a product with weights [K,N] that are quantized with separate scales
// rather than packed in blocks.
type schemeConsts struct {
	Scheme    string
	Rows      int  // rows of the result per workgroup
	Block     int  // rows of weights that share a scale; 0 if there is no scale or a single one
	Nibbles   bool // two weights per byte
	Words     bool // four (or with Nibbles eight) neighbouring columns per word
	PerColumn bool // one scale per column
}

// schemeProduct multiplies by weights that are stored in the form of op.DequantMatMulAttrs.Scheme.
func schemeProduct(n *ir.Node) Shader {
	a := n.Attrs.(op.DequantMatMulAttrs)
	c := schemeConsts{Scheme: a.Scheme, Rows: 4, Block: a.Block}
	w, columns := Binding{Name: "w", Operand: 1, DType: dtype.U8}, n.Type.Shape[n.Type.Rank()-1]
	s := Shader{Name: n.Op.Name, Body: dequantSchemeWGSL, Fields: []string{"groups", "m_size", "n_size", "k_size"}}
	scale := Binding{Name: "scale", Operand: op.DequantMatMulScale, DType: dtype.F32}
	switch a.Scheme {
	case "int4":
		c.Nibbles = true
	case "nvfp4":
		c.Nibbles, c.Block, scale.DType = true, op.NVFP4Block, dtype.U8
		s.Bindings = append(s.Bindings, Binding{Name: "whole", Operand: op.DequantMatMulGlobal, DType: dtype.F32})
	case "int8_asym":
		s.Bindings = append(s.Bindings, Binding{Name: "zero", Operand: op.DequantMatMulZero, DType: dtype.F32})
	case "fp8_e4m3", "fp8_e5m2":
		c.PerColumn = n.In[op.DequantMatMulScale] != nil
	}
	if c.Block > 0 || c.PerColumn {
		s.Bindings = append(s.Bindings, scale)
	}
	if columns.Const%4 == 0 && beginsAt(n.In[1], 4) {
		c.Words, w.DType = true, dtype.U32
	}
	if most := numel(n.Graph.Syms.Largest(n.Type.Shape)); most <= int(columns.Const) {
		c.Rows = 1
	}
	s.Consts = c
	s.Bindings = append(s.Bindings, w, Binding{Name: "x", Operand: 0, DType: dtype.F32},
		Binding{Name: "y", Operand: Out, DType: dtype.F32})
	sizes := func(call *Call) (m, columns, k int) {
		x, out := call.In[0].Shape, call.Out.Shape
		columns, k = out[len(out)-1], x[len(x)-1]
		return numel(out) / max(1, columns), columns, k
	}
	s.Groups = func(call *Call) int {
		m, columns, _ := sizes(call)
		return ceilDiv(m, c.Rows) * ceilDiv(columns, 32)
	}
	s.Loops = func(call *Call) int {
		_, _, k := sizes(call)
		return 2*loop(ceilDiv(k, 32), 1) + loop(32, 0)
	}
	s.Params = func(call *Call) []uint32 {
		m, columns, k := sizes(call)
		if m == 0 || columns == 0 {
			return nil
		}
		return []uint32{uint32(s.Groups(call)), uint32(m), uint32(columns), uint32(k)}
	}
	return s
}
