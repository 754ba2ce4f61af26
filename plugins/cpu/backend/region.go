package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
)

var _ = register(
	kernel{op: "elementwise_region", takes: "(f32|f16|bf16|i8|i32|u8|bool...) if parts = run", prepare: region})

// region compiles the expression of an elementwise_region, a fused chain of elementwise ops.
func region(n *ir.Node) func(*call) error {
	steps, err := op.ParseRegion(n.Attrs.(op.ElementwiseRegionAttrs).Expr)
	if err != nil {
		panic("BUG: cpu: " + err.Error())
	}
	types := make([]dtype.DType, len(n.In))
	for i, x := range n.In {
		types[i] = x.Type.DType
	}
	kinds := map[op.OperandKind]elementwise.RegionRefKind{
		op.RegionInput: elementwise.RegionInput, op.RegionResult: elementwise.RegionResult,
		op.RegionLiteral: elementwise.RegionNumber,
	}
	compiled := make([]elementwise.RegionStep, len(steps))
	for i, s := range steps {
		compiled[i].Op = s.Op.Name
		if to, ok := s.Attrs.(op.CastAttrs); ok {
			compiled[i].Op = to.To.String()
		} else {
			compiled[i].Params = parameters(s.Op, s.Attrs)
		}
		for _, o := range s.In {
			compiled[i].In = append(
				compiled[i].In, elementwise.RegionRef{Kind: kinds[o.Kind], Index: o.Index, Value: o.Value})
		}
	}
	r, err := elementwise.NewRegion(types, compiled)
	if err != nil {
		panic("BUG: cpu: " + err.Error())
	}
	in := make([]elementwise.RegionValue, len(n.In))
	return func(c *call) error {
		if tensor.Numel(c.out.Shape) == 0 {
			return nil
		}
		for i, x := range c.in {
			in[i] = regionValue(x)
		}
		r.Run(c.pool, regionValue(c.out), in)
		return nil
	}
}

func regionValue(t tensor.Tensor) elementwise.RegionValue {
	if t.DType == dtype.F32 {
		return elementwise.RegionValue{F32: f32(t)}
	}
	return elementwise.RegionValue{Bytes: t.Data, Type: t.DType}
}
