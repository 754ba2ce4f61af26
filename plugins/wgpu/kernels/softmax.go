package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed softmax.wgsl
var softmaxWGSL string

var _ = register(Kernel{Op: "softmax", Can: allF32, Shaders: func(n *ir.Node, _ Limits) []Shader {
	axis := positive(n.Attrs.(op.SoftmaxAttrs).Axis, n.Type.Rank())
	size := 64
	if d := n.Type.Shape[axis]; d.IsStatic() {
		size = groupSize(int(d.B))
	}
	rows := func(c *Call) int {
		outer, _, inner := around(c.Out.Shape, axis)
		return outer * inner
	}
	return []Shader{{
		Name: "softmax", Body: softmaxWGSL, Consts: map[string]any{"Size": size}, Fields: []string{"rows", "n", "inner"},
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: dtype.F32}, {Name: "y", Operand: Out, DType: dtype.F32}},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			_, k, inner := around(c.Out.Shape, axis)
			return []uint32{uint32(rows(c)), uint32(k), uint32(inner)}
		},
		Groups: rows,
	}}
}})
