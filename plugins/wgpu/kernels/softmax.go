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
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}, {Name: "y", Operand: Out, DType: dtype.F32}},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			_, k, inner := around(c.Out.Shape, axis)
			return []uint32{uint32(rows(c)), uint32(k), uint32(inner)}
		},
		Groups: rows,
		Loops: func(c *Call) int {
			_, k, _ := around(c.Out.Shape, axis)
			return 3*loop(ceilDiv(k, size), 0) + 2*loop(size/2, 0)
		},
	}}
}})

// groupSize is a power of two of invocations for n items.
func groupSize(n int) int {
	size := 32
	for size < n && size < 256 {
		size *= 2
	}
	return size
}
