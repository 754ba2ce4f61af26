package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed grouped_matmul.wgsl
var groupedMatMulWGSL string

// Rows of one group do not share reads of its matrix. That suits the few tokens of decoding but is slow for a long
// prompt.
var _ = register(
	Kernel{Op: "grouped_matmul", Takes: "(f32|f16|bf16, f32|f16|bf16, i32|u32)",
		Scratch: func(n *ir.Node, l Limits) int64 { return l.ownBytes(n) },
		Shaders: func(n *ir.Node, l Limits) []Shader {
			own := l.own(n)
			trans := n.Attrs.(op.GroupedMatMulAttrs).TransB
			fields := []string{"n_size", "k_size", "groups", "by_k", "by_n"}
			params := func(c *Call) []uint32 {
				k, columns := c.In[0].Shape[1], c.Out.Shape[1]
				byK, byN := columns, 1
				if trans {
					byK, byN = 1, k
				}
				return []uint32{uint32(columns), uint32(k), uint32(c.In[1].Shape[0]), uint32(byK), uint32(byN)}
			}
			if !trans || n.Type.DType != dtype.F32 {
				s := mapped(n, "grouped_matmul", part(groupedMatMulWGSL, "elements"), nil, fields, params).withStatus()
				s = s.withLoops(n, func(c *Call) int { return loop(c.In[0].Shape[1], 0) })
				return append(own, unlessOwn(own, s))
			}
			// Rows of the matrices are contiguous along k, so neighbouring invocations sum one column together.
			const lanes, columns = 32, 8
			s := mapped(n, "grouped_matmul", "", nil, fields, params).withStatus()
			s.Body, s.Consts = part(groupedMatMulWGSL, "columns"), map[string]any{"Lanes": lanes, "Columns": columns}
			s.Groups = func(c *Call) int { return ceilDiv(numel(c.Out.Shape), columns) }
			s.Loops = func(c *Call) int { return loop(ceilDiv(c.In[0].Shape[1], lanes), 0) + loop(lanes, 0) }
			return append(own, unlessOwn(own, s))
		}})

// unlessOwn makes a shader do nothing in runs in which the last of the device's own shaders does something.
func unlessOwn(own []Shader, s Shader) Shader {
	if len(own) == 0 {
		return s
	}
	params, other := s.Params, own[len(own)-1].Params
	s.Params = func(c *Call) []uint32 {
		if other(c) != nil {
			return nil
		}
		return params(c)
	}
	return s
}
