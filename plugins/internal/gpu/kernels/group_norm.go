package kernels

import (
	_ "embed"
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed group_norm.wgsl
var groupNormWGSL string

// Two shaders compute the mean and the scale of each group of each batch element, in parts if there are few groups. A
// third normalises.
var _ = register(Kernel{
	Op: "group_norm", Takes: "(" + floats + "...)",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		values := coarsened(n, n.Op.Name, part(groupNormWGSL, "values"), nil, []string{"width", "area", "channels"},
			func(c *Call) []uint32 {
				_, width, _ := groupSizes(n)(c.Out.Shape)
				return []uint32{uint32(width), uint32(numel(c.Out.Shape[2:])), uint32(c.Out.Shape[1])}
			})
		values.Bindings = append(values.Bindings, rowStatistics)
		return append(groupStatistics(n), values)
	},
	Scratch: func(n *ir.Node, _ Limits) int64 {
		p := groupRows(n)
		return int64(p.most[0]+p.mostParts()) * 8
	},
})

// groupStatistics returns the shaders that compute the mean and the scale of each group.
func groupStatistics(n *ir.Node) []Shader {
	a, p := n.Attrs.(op.GroupNormAttrs), groupRows(n)
	statistics := func(p rowPlan, combine bool, bindings ...Binding) Shader {
		s := p.shader(n.Op.Name, part(groupNormWGSL, "statistics"), map[string]any{"Combine": combine},
			func(c *Call) int {
				return 2 * (loop(p.rounds(c), 0) + loop(p.lanes/2, 0))
			}, bindings...)
		params := s.Params
		s.Fields = append(append([]string{}, s.Fields...), "width", "each", "eps:f32")
		s.Params = func(c *Call) []uint32 {
			v := params(c)
			if v == nil || numel(c.Out.Shape) == 0 {
				return nil
			}
			rows, width, _ := groupSizes(n)(c.In[0].Shape)
			_, each := groupRows(n).parts(rows, width)
			return append(v, uint32(width), uint32(each), math.Float32bits(float32(a.Eps)))
		}
		return s
	}
	x := Binding{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}
	if !p.split {
		return []Shader{statistics(p, false, x, rowStatistics)}
	}
	return []Shader{statistics(p, false, x, rowStatistics), statistics(p.combining(1), true, rowStatistics)}
}

// groupSizes views the operand as [batches and groups, elements of a group, 1].
func groupSizes(n *ir.Node) func(shape []int) (outer, n, inner int) {
	groups := n.Attrs.(op.GroupNormAttrs).Groups
	return func(shape []int) (outer, n, inner int) {
		return shape[0] * groups, shape[1] / groups * numel(shape[2:]), 1
	}
}

func groupRows(n *ir.Node) rowPlan { return planRows(n, 1, groupSizes(n)) }
