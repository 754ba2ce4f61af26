package backend

import (
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/sample"
)

var _ = register(
	kernel{op: "sample", takes: "(f32|f16|bf16, f32, i32, f32, u32, u32, min_p: f32)",
		scratch: func(p *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			x := n.In[0].Type
			return sample.Scratch(p, n.Graph.Syms.Largest(x.Shape)[x.Rank()-1], x.DType.Size())
		}, run: func(c *call) error {
			_, n := rowsOf(c.in[0])
			a := sample.Args{
				N: n, Logits: weights(c.in[0]), Temperature: f32(c.in[1]), TopK: view[int32](c.in[2]),
				TopP: f32(c.in[3]),
				Seed: view[uint32](c.in[4]),
				Step: view[uint32](c.in[5]), Out: view[int32](c.out), Alone: c.node.Attrs.(op.SampleAttrs).Alone,
			}
			a.MinP = optional(c, op.SampleMinP)
			return sample.Draw(c.pool, a)
		}})
