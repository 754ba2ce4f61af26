package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed softmax.wgsl
var softmaxWGSL string

//go:embed softmax_each.wgsl
var softmaxEachWGSL string

var _ = register(Kernel{Op: "softmax", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
	axis := positive(n.Attrs.(op.SoftmaxAttrs).Axis, n.Type.Rank())
	if n.Type.DType != dtype.F32 {
		return []Shader{mapped(n, "softmax", softmaxEachWGSL, nil, []string{"count", "inner"}, func(c *Call) []uint32 {
			_, k, inner := around(c.Out.Shape, axis)
			return []uint32{uint32(k), uint32(inner)}
		}).withLoops(n, func(c *Call) int {
			_, k, _ := around(c.Out.Shape, axis)
			return 2 * loop(k, 0)
		})}
	}
	most := n.Graph.Syms.Max()
	inner := numel(n.Type.Shape[axis+1:].Eval(most)) > 1
	rows, lanes := rowsAndLanes(numel(n.Type.Shape[axis:axis+1].Eval(most)), inner, 1)
	return []Shader{{
		Name: "softmax", Body: reducePlaceWGSL + softmaxWGSL, Fields: rowFields, Consts: map[string]any{"Rows": rows, "Lanes": lanes, "Inner": inner},
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}, {Name: "y", Operand: Out, DType: dtype.F32}},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			outer, k, inner := around(c.Out.Shape, axis)
			return []uint32{uint32(outer * inner), uint32(k), uint32(inner)}
		},
		Groups: func(c *Call) int {
			outer, _, inner := around(c.Out.Shape, axis)
			return ceilDiv(outer*inner, rows)
		},
		Loops: func(c *Call) int {
			_, k, _ := around(c.Out.Shape, axis)
			return 3*loop(ceilDiv(k, lanes), 0) + 2*loop(lanes/2, 0)
		},
	}}
}})
