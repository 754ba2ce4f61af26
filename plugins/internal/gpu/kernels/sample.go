package kernels

import (
	_ "embed"
	"math/bits"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed sample.wgsl
var sampleWGSL string

const sampleGroup = 256

// A workgroup samples the token of a row. As in the cpu backend, radix selects find the survivors of top_k and then of
// top_p. Their sums of counts and probabilities are 64-bit integers, so that they do not depend on the order of
// additions.
var _ = register(Kernel{
	Op: "sample", Takes: "(" + floats + ", f32, i32, f32, u32, u32, min_p: f32)",
	Refuses: "temperature is not finite, top_k is not 0 to the size of a row, top_p or min_p is not 0 to 1, or a row of the logits is NaN only",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		x := n.In[0].Type
		last := x.Rank() - 1
		most := numel(n.Graph.Syms.Largest(x.Shape[last:]))
		s := Shader{
			Name: "sample", Body: part(keysWGSL+sampleWGSL, "sample"),
			Fields: []string{"rows", "size", "one_t", "one_k", "one_p", "one_seed", "one_step", "one_min"},
			Consts: withKeys(
				x.DType,
				map[string]any{"Group": sampleGroup, "Scale": 62 - bits.Len(uint(most)), "DType": x.DType.String(),
					"MinP": n.In[op.SampleMinP] != nil, "Alone": n.Attrs.(op.SampleAttrs).Alone}),
			Params: func(c *Call) []uint32 {
				rows := numel(c.Out.Shape)
				if rows == 0 {
					return nil
				}
				p := []uint32{uint32(rows), uint32(c.In[0].Shape[last])}
				for k, words := range []int{1, 1, 1, 2, 2, 1} {
					p = append(p, 1)
					if n.In[k+1] != nil && numel(c.In[k+1].Shape) == words {
						p[len(p)-1] = 0
					}
				}
				return p
			},
			Groups: func(c *Call) int { return numel(c.Out.Shape) },
			Loops: func(c *Call) int {
				each := loop(ceilDiv(c.In[0].Shape[last], sampleGroup)+1, 0)
				return 12*each + 8*(2*loop(16, 0)) + 3*loop(16, 0) + 5*loop(sampleGroup, 0)
			},
		}
		for k, in := range n.Operands() {
			s.Bindings = append(s.Bindings, Binding{Name: operandNames[k], Operand: k, DType: in.Type.DType})
		}
		s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, DType: dtype.I32})
		return []Shader{s.withStatus()}
	},
})
