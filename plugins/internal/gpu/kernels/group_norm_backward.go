package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed group_norm_backward.wgsl
var groupNormBackwardWGSL string

// After the statistics of the groups, shaders sum dy*xhat, dy, and both times gamma over each channel of each batch
// element, take the means over each group from these sums, write dx, and add the sums of the batch elements.
var _ = register(Kernel{
	Op: "group_norm_backward", Takes: "(f32...)",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		return append(groupStatistics(n), channelSums(n), groupMeans(n), groupGradient(n), channelTotals(n))
	},
	Scratch: func(n *ir.Node, _ Limits) int64 {
		shape := n.Graph.Syms.Largest(n.In[0].Type.Shape)
		return int64(afterGroups(n)+2*numel(shape[:2])+groupRows(n).most[0]) * 8
	},
})

// afterGroups returns the number of pairs in scratch memory that the statistics of groups take. The sums of channels
// follow, and then the means of groups.
func afterGroups(n *ir.Node) int {
	p := groupRows(n)
	return p.most[0] + p.mostParts()
}

// channelFields are the parameters of the shaders: the sizes of x, channels of a group, and the places of the sums and
// means in scratch memory.
var channelFields = []string{"batch", "channels", "area", "per", "sums", "means"}

func channelParams(n *ir.Node, c *Call) []uint32 {
	shape := c.In[0].Shape
	most := n.Graph.Syms.Largest(n.In[0].Type.Shape)
	at := afterGroups(n)
	return []uint32{uint32(shape[0]), uint32(shape[1]), uint32(numel(shape[2:])),
		uint32(shape[1] / n.Attrs.(op.GroupNormAttrs).Groups), uint32(at), uint32(at + 2*numel(most[:2]))}
}

func channelSums(n *ir.Node) Shader {
	p := planRows(n, 1, func(shape []int) (outer, n, inner int) { return shape[0] * shape[1], numel(shape[2:]), 1 })
	p.split = false
	s := p.shader(n.Op.Name, part(groupNormBackwardWGSL, "sums"), nil,
		func(c *Call) int { return loop(p.rounds(c), 0) + loop(p.lanes/2, 0) },
		Binding{Name: "x", Operand: 0, DType: dtype.F32}, Binding{Name: "gamma", Operand: 1, DType: dtype.F32},
		Binding{Name: "dy", Operand: 2, DType: dtype.F32}, rowStatistics)
	params := s.Params
	s.Fields = append(append([]string{}, s.Fields...), channelFields...)
	s.Params = func(c *Call) []uint32 {
		v := params(c)
		if v == nil {
			return nil
		}
		return append(v, channelParams(n, c)...)
	}
	return s
}

// eachChannel makes a shader with an invocation for each of count values.
func eachChannel(n *ir.Node, name string, count func(shape []int) int, loops func(shape []int) int,
	bindings ...Binding) Shader {
	return Shader{
		Name: n.Op.Name, Body: part(groupNormBackwardWGSL, name), Bindings: bindings,
		Fields: append([]string{"n"}, channelFields...),
		Params: func(c *Call) []uint32 {
			if count(c.In[0].Shape) == 0 {
				return nil
			}
			return append([]uint32{uint32(count(c.In[0].Shape))}, channelParams(n, c)...)
		},
		Groups: func(c *Call) int { return ceilDiv(count(c.In[0].Shape), mapGroup) },
		Loops:  func(c *Call) int { return loop(loops(c.In[0].Shape), 0) },
	}
}

func groupMeans(n *ir.Node) Shader {
	groups := n.Attrs.(op.GroupNormAttrs).Groups
	return eachChannel(n, "means", func(shape []int) int { return shape[0] * groups },
		func(shape []int) int { return shape[1] / groups }, rowStatistics)
}

func groupGradient(n *ir.Node) Shader {
	s := coarsened(n, n.Op.Name, part(groupNormBackwardWGSL, "values"), nil, channelFields,
		func(c *Call) []uint32 { return channelParams(n, c) })
	s.Bindings = append(s.Bindings, rowStatistics)
	return s
}

func channelTotals(n *ir.Node) Shader {
	return eachChannel(n, "totals", func(shape []int) int { return shape[1] },
		func(shape []int) int { return shape[0] }, rowStatistics,
		Binding{Name: "dgamma", Operand: Result(1), DType: dtype.F32},
		Binding{Name: "dbeta", Operand: Result(2), DType: dtype.F32})
}
