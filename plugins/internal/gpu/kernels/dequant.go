package kernels

import (
	_ "embed"
	"strings"
	"text/template"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed dequant.wgsl
var dequantWGSL string

// packedList lists the packed types in the language of rules. Shaders can read the blocks of all of them.
var packedList = func() string {
	var names []string
	for _, d := range dtype.Packed() {
		names = append(names, d.String())
	}
	return strings.Join(names, "|")
}()

//go:embed packed.wgsl
var packedWGSL string

// pairGap has the types whose weights packed.wgsl reads eight at a time, as two vectors of four. The number is the
// distance of the two, in vectors.
var pairGap = map[dtype.DType]int{dtype.Q4_0: 4, dtype.Q4_1: 4, dtype.Q5_0: 4, dtype.Q5_1: 4, dtype.Q4_K: 8,
	dtype.Q5_K: 8, dtype.Q6_K: 16}

// pairZero has the value of a byte that stands for 0, plus 2^23.
var pairZero = map[dtype.DType]string{dtype.Q4_0: "8388616.0", dtype.Q5_0: "8388624.0", dtype.Q6_K: "8388640.0"}

var packedReaders = template.Must(template.New("packed").Parse(packedWGSL))

var (
	_ = register(
		Kernel{Op: "dequant_matmul", Takes: "(f32, " + packedList + `) if scheme = "packed" and activations = "f32"`,
			Also: schemeRule, Scratch: splitBytes, Shaders: func(n *ir.Node, l Limits) []Shader {
				if n.Attrs.(op.DequantMatMulAttrs).Scheme != op.SchemePacked {
					return []Shader{schemeProduct(n)}
				}
				if !aligned(n.In[0]) {
					return []Shader{packedRow(n, -1)}
				}
				return products(n, l)
			}})
	_ = register(
		Kernel{Op: "dequant_grouped_matmul", Takes: "(f32, " + packedList + `, i32|u32) if activations = "f32"`,
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				return []Shader{packedRow(n, 2)}
			}})
	_ = register(
		Kernel{Op: "dequant_rows", Takes: "(" + packedList + ", i32|i64|u32)",
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				s := packedShader(n, "rows", -1, 0, 1, []string{"n", "rows", "k_size"})
				s.Groups = func(c *Call) int { return ceilDiv(numel(c.Out.Shape), 256) }
				s.Params = func(c *Call) []uint32 {
					count := numel(c.Out.Shape)
					if count == 0 {
						return nil
					}
					return []uint32{uint32(count), uint32(c.In[0].Shape[0]), uint32(c.Out.Shape[len(c.Out.Shape)-1])}
				}
				return []Shader{s}
			}})
)

// packedRow multiplies one row at a time. Operand idx selects its matrix; -1 means that there is one matrix.
func packedRow(n *ir.Node, idx int) Shader {
	s := packedShader(n, "product", 0, 1, idx, []string{"tiles", "n_size", "k_size", "matrices"})
	s.Consts = map[string]any{"Grouped": idx >= 0}
	sizes := func(c *Call) (m, columns, k int) {
		columns, k = c.Out.Shape[len(c.Out.Shape)-1], c.In[0].Shape[len(c.In[0].Shape)-1]
		return numel(c.Out.Shape) / max(1, columns), columns, k
	}
	s.Groups = func(c *Call) int {
		m, columns, _ := sizes(c)
		return m * ceilDiv(columns, 8)
	}
	s.Loops = func(c *Call) int {
		_, _, k := sizes(c)
		return loop(ceilDiv(k, 128), 0) + loop(32, 0)
	}
	s.Params = func(c *Call) []uint32 {
		if numel(c.Out.Shape) == 0 {
			return nil
		}
		_, columns, k := sizes(c)
		return []uint32{uint32(s.Groups(c)), uint32(columns), uint32(k), uint32(c.In[1].Shape[0])}
	}
	return s
}

// packedShader makes a shader from a part of dequant.wgsl. x, w and idx are operand indices; idx may be -1, see
// packedRow.
func packedShader(n *ir.Node, body string, x, w, idx int, fields []string) Shader {
	s := Shader{Name: n.Op.Name, Body: part(dequantWGSL, body), Fields: fields,
		Bindings: []Binding{weights("w", n, w), {Name: "y", Operand: Out, DType: dtype.F32}}}
	if x >= 0 {
		s.Bindings = append(s.Bindings, Binding{Name: "x", Operand: x, DType: dtype.F32})
	}
	if idx >= 0 {
		s.Bindings = append(s.Bindings, Binding{Name: "idx", Operand: idx, DType: n.In[idx].Type.DType})
		s = s.withStatus()
	}
	return s
}

// weights binds an operand, packed or not, that is read in vectors of four.
func weights(name string, n *ir.Node, operand int) Binding {
	if d := n.In[operand].Type.DType; d.IsPacked() {
		return Binding{Name: name, Operand: operand, DType: dtype.U8, Packed: d}
	} else {
		return Binding{Name: name, Operand: operand, Vec: 4, DType: d}
	}
}
