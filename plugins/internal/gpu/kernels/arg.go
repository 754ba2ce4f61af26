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
			four := byFour(n)
			shader := func(p rowPlan, combine bool, bindings ...Binding) Shader {
				consts := map[string]any{"Combine": combine, "Four": four && !combine, "Least": least,
					"Float": d.IsFloat(), "Signed": d == dtype.I32, "Index": elementType(n.Type.DType)}
				return p.shader(
					name, argWGSL, consts,
					func(c *Call) int { return loop(ceilDiv(p.rounds(c), 8), 0) + loop(p.lanes/2, 0) }, bindings...)
			}
			in, out := Binding{Name: "x0", Operand: 0, DType: d}, Binding{Name: "y", Operand: Out, DType: n.Type.DType}
			if four {
				in.Vec = 4
				if !d.IsFloat() {
					in.DType = dtype.U32 // read as bits
				}
			}
			if !p.split {
				return []Shader{shader(p, false, in, out)}
			}
			// key and index of the best element of each part
			parts := Binding{Name: "parts", Operand: Scratch, DType: dtype.U32}
			return []Shader{shader(p, false, in, parts), shader(p.combining(1), true, parts, out)}
		},
		Scratch: func(n *ir.Node, _ Limits) int64 {
			p := argRows(n)
			return int64(p.mostParts()) * 8
		},
	}
}

// byFour reports whether each row can be read in vectors of four elements.
func byFour(n *ir.Node) bool {
	x, axis := n.In[0].Type, n.Attrs.(op.ArgAttrs).Axis
	words := x.DType.IsFloat() || x.DType == dtype.I32 || x.DType == dtype.U32
	return words && aligned(n.In[0]) && commonDivisor(x.Shape[axis:axis+1])%4 == 0 &&
		numel(n.Graph.Syms.Largest(x.Shape)[axis+1:]) == 1
}

func argRows(n *ir.Node) rowPlan {
	axis := n.Attrs.(op.ArgAttrs).Axis
	if !byFour(n) {
		return planRows(n, 1, func(shape []int) (outer, n, inner int) { return around(shape, axis) })
	}
	return planReads(n, 1, func(shape []int) (outer, n, inner int) {
		outer, n, inner = around(shape, axis)
		return outer, n / 4, inner
	}, 8, 4096)
}
