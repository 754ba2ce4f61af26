package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed optimizer.wgsl
var optimizerWGSL string

var (
	_ = register(optimizer("adamw", "p", "m", "v"))
	_ = register(optimizer("sgd", "p", "m"))
)

// optimizer makes the kernel of an op that updates states in place, by one invocation for each element or for four.
// Their values are read and written through the bindings of the results, which lie over them.
func optimizer(name string, states ...string) Kernel {
	return Kernel{Op: name, Takes: "(f32...)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		k, unit, vec, typ, suffix := len(states), 1, 0, "f32", ""
		if commonDivisor(n.In[0].Type.Shape)%4 == 0 && beginsAt(n.In[k], 16) {
			unit, vec, typ, suffix = 4, 4, "vec4<f32>", "4"
		}
		count := func(c *Call) int { return numel(c.Out.Shape) / unit }
		s := Shader{
			Name: name, Body: part(optimizerWGSL, name), Fields: []string{"n"},
			Consts: map[string]any{"Group": largeGroup, "Four": vec == 4, "T": typ, "V": suffix},
			Params: func(c *Call) []uint32 {
				if count(c) == 0 {
					return nil
				}
				return []uint32{uint32(count(c))}
			},
			Groups: func(c *Call) int { return ceilDiv(count(c), largeGroup) },
		}
		for i, x := range states {
			s.Bindings = append(s.Bindings, Binding{Name: x, Operand: Result(i), Vec: vec, DType: dtype.F32})
		}
		s.Bindings = append(s.Bindings, Binding{Name: "g", Operand: k, Vec: vec, DType: dtype.F32},
			Binding{Name: "n", Operand: k + 1, DType: dtype.F32})
		return []Shader{s}
	}}
}
