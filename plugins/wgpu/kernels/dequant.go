package kernels

import (
	_ "embed"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed dequant.wgsl
var dequantWGSL string

// packedTypes are those of which shaders read the blocks.
var packedTypes = []dtype.DType{dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q8_0, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K}

var packedList = func() string {
	var names []string
	for _, d := range packedTypes {
		names = append(names, d.String())
	}
	return strings.Join(names, "|")
}()

var (
	_ = register(Kernel{Op: "dequant_matmul", Takes: "(f32, " + packedList + `) if scheme = "packed" and activations = "f32"`, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return []Shader{packedProduct(n, 4)}
	}})
	_ = register(Kernel{Op: "dequant_grouped_matmul", Takes: "(f32, " + packedList + `, i32|u32) if activations = "f32"`, Shaders: func(n *ir.Node, _ Limits) []Shader {
		s := packedProduct(n, 1) // each row has a matrix of its own
		s.Bindings = append(s.Bindings, Binding{Name: "idx", Operand: 2, DType: n.In[2].Type.DType})
		return []Shader{s.withStatus()}
	}})
	_ = register(Kernel{Op: "dequant_rows", Takes: "(" + packedList + ", i32|i64|u32)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		s := packedShader(n, 0, "rows", nil, []string{"n", "rows", "k_size"})
		s.Bindings = append(s.Bindings, Binding{Name: "idx", Operand: 1, DType: n.In[1].Type.DType})
		s.Groups = func(c *Call) int { return ceilDiv(numel(c.Out.Shape), 256) }
		s.Params = func(c *Call) []uint32 {
			count := numel(c.Out.Shape)
			if count == 0 {
				return nil
			}
			return []uint32{uint32(count), uint32(c.In[0].Shape[0]), uint32(c.Out.Shape[len(c.Out.Shape)-1])}
		}
		return []Shader{s.withStatus()}
	}})
)

// packedShader is a shader that reads blocks of operand w as bytes.
func packedShader(n *ir.Node, w int, body string, consts map[string]any, fields []string) Shader {
	d := n.In[w].Type.DType
	all := map[string]any{"Values": d.Values(), "Bytes": d.Size(), "Scales": d == dtype.Q4_K || d == dtype.Q5_K}
	for k, v := range consts {
		all[k] = v
	}
	return Shader{
		Name: n.Op.Name, Body: part(dequantWGSL, "bytes") + `{{template "` + d.String() + `" .}}{{template "` + body + `" .}}`, Consts: all, Fields: fields,
		Bindings: []Binding{{Name: "w", Operand: w, DType: dtype.U8}, {Name: "y", Operand: Out, DType: dtype.F32}},
	}
}

// packedProduct multiplies rows of operand 0, so many at a time, by the blocks of operand 1.
func packedProduct(n *ir.Node, rows int) Shader {
	grouped := len(n.In) == 3
	s := packedShader(n, 1, "product", map[string]any{"Rows": rows, "Grouped": grouped}, []string{"tiles", "m_size", "n_size", "k_size", "matrices"})
	s.Bindings = append(s.Bindings, Binding{Name: "x", Operand: 0, DType: dtype.F32})
	sizes := func(c *Call) (m, columns, k int) {
		columns, k = c.Out.Shape[len(c.Out.Shape)-1], c.In[0].Shape[len(c.In[0].Shape)-1]
		return numel(c.Out.Shape) / max(1, columns), columns, k
	}
	s.Groups = func(c *Call) int {
		m, columns, _ := sizes(c)
		return ceilDiv(m, rows) * ceilDiv(columns, 8)
	}
	s.Loops = func(c *Call) int {
		_, _, k := sizes(c)
		return loop(ceilDiv(k, 128), 0) + loop(32, 0)
	}
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		m, columns, k := sizes(c)
		return []uint32{uint32(s.Groups(c)), uint32(m), uint32(columns), uint32(k), uint32(c.In[1].Shape[0])}
	}
	return s
}
