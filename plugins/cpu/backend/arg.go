package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
)

func init() {
	for _, k := range []struct {
		op    string
		least bool
	}{{"argmax", false}, {"argmin", true}} {
		register(
			kernel{op: k.op, takes: "(any)", prepare: func(n *ir.Node) func(*call) error {
				return args[n.In[0].Type.DType](k.least)
			}})
	}
}

// args holds the kernels of argmax and argmin by element type. least selects argmin.
var args = map[dtype.DType]func(least bool) func(*call) error{
	dtype.F32: argFloats, dtype.F16: argFloats, dtype.BF16: argFloats, dtype.F64: arg[float64],
	dtype.I8: arg[int8], dtype.I16: arg[int16], dtype.I32: arg[int32], dtype.I64: arg[int64], dtype.U8: arg[uint8],
	dtype.U32: arg[uint32],
}

func argFloats(least bool) func(*call) error {
	return func(c *call) error {
		outer, n, inner := around(c.in[0].Shape, c.node.Attrs.(op.ArgAttrs).Axis)
		reduce.ArgFloats(c.pool, least, c.out.Data, c.out.DType, weights(c.in[0]), outer, n, inner)
		return nil
	}
}

func arg[T interface {
	tensor.Element
	float64 | elementwise.Integer
}](least bool) func(*call) error {
	return func(c *call) error {
		outer, n, inner := around(c.in[0].Shape, c.node.Attrs.(op.ArgAttrs).Axis)
		reduce.Arg(c.pool, least, c.out.Data, c.out.DType, view[T](c.in[0]), outer, n, inner)
		return nil
	}
}
