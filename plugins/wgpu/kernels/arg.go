package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed arg.wgsl
var argWGSL string

var (
	_ = register(argKernel("argmax", false))
	_ = register(argKernel("argmin", true))
)

func argKernel(name string, least bool) Kernel {
	return Kernel{
		Op: name, Takes: "(any) -> any",
		Shaders: func(n *ir.Node, _ Limits) []Shader {
			p, d := argRows(n), n.In[0].Type.DType
			shader := func(p rowPlan, combine bool, bindings ...Binding) Shader {
				consts := map[string]any{"Combine": combine, "Least": least, "Float": d.IsFloat(), "Signed": d == dtype.I32, "Index": elementType(n.Type.DType)}
				return p.shader(name, argWGSL, consts, func(c *Call) int { return loop(ceilDiv(p.rounds(c), 8), 0) + loop(p.lanes/2, 0) }, bindings...)
			}
			in, out := Binding{Name: "x0", Operand: 0, DType: d}, Binding{Name: "y", Operand: Out, DType: n.Type.DType}
			if !p.split {
				return []Shader{shader(p, false, in, out)}
			}
			parts := Binding{Name: "parts", Operand: Scratch, DType: dtype.U32} // keys and places
			return []Shader{shader(p, false, in, parts), shader(p.combining(1), true, parts, out)}
		},
		Scratch: func(n *ir.Node, _ Limits) int64 {
			p := argRows(n)
			return int64(p.mostParts()) * 8
		},
	}
}

func argRows(n *ir.Node) rowPlan {
	axis := n.Attrs.(op.ArgAttrs).Axis
	return planRows(n, 1, func(shape []int) (outer, n, inner int) { return around(shape, axis) })
}
