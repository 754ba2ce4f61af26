package kernels

import (
	"cmp"
	_ "embed"
	"math/bits"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed scatter.wgsl
var scatterWGSL string

var _ = register(
	Kernel{Op: "scatter", Takes: "(any, i32|i64|u32, same)", Shaders: scatter,
		Scratch: func(n *ir.Node, l Limits) int64 {
			s := scatterSort(n, l)
			return s.scratch(max(s.most, 1))
		}})

// scatter sorts the indices, as scatterAdd does. Each element of the result finds its updates by bisection, in rising
// order, so the result does not depend on the order in which invocations run.
func scatter(n *ir.Node, l Limits) []Shader {
	reduce, d := cmp.Or(n.Attrs.(op.ScatterAttrs).Reduce, "none"), n.Type.DType
	combine := map[string]string{"add": "v + u", "mul": "v * u", "max": "max(v, u)", "min": "min(v, u)"}[reduce]
	if d.IsFloat() {
		combine = map[string]string{"add": "v + u", "mul": "op_product(v, u)", "max": "op_max(v, u)",
			"min": "op_min(v, u)"}[reduce]
	}
	sorted := scatterSort(n, l)
	consts := map[string]any{"Begins": sorted.begins() == 1, "Last": reduce == "none", "Combine": combine}
	s := mapped(n, "scatter", part(scatterWGSL, "scatter"), consts, []string{"inner", "count"}, func(c *Call) []uint32 {
		return []uint32{uint32(max(1, numel(c.Out.Shape[1:]))), uint32(c.In[1].Shape[0])}
	})
	s.Bindings = append(s.Bindings, Binding{Name: "pairs", Operand: Scratch, DType: dtype.U32})
	s = s.withLoops(n, func(c *Call) int {
		count := c.In[1].Shape[0]
		if reduce == "none" {
			return loop(bits.Len(uint(count)), 0)
		}
		return loop(bits.Len(uint(count)), 0) + loop(count, 0)
	})
	return append(sorted.shaders(), s)
}
