package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
)

var _ = register(kernel{op: "scatter",
	takes: "(f32|f64|i8|i16|i32|i64|u8|u32, i32|i64|u32, f32|f64|i8|i16|i32|i64|u8|u32)",
	run:   func(c *call) error { return scatters[c.out.DType](c) }})

var scatters = map[dtype.DType]func(*call) error{
	dtype.F32: scatterOf[float32], dtype.F64: scatterOf[float64], dtype.I8: scatterOf[int8],
	dtype.I16: scatterOf[int16],
	dtype.I32: scatterOf[int32], dtype.I64: scatterOf[int64], dtype.U8: scatterOf[uint8], dtype.U32: scatterOf[uint32],
}

func scatterOf[T interface {
	tensor.Element
	elementwise.Number
}](c *call) error {
	rows, inner := c.out.Shape[0], tensor.Numel(c.out.Shape[1:])
	var combine func(x, u T) T
	switch c.node.Attrs.(op.ScatterAttrs).Reduce {
	case "add":
		combine = func(x, u T) T { return x + u }
	case "mul":
		combine = func(x, u T) T { return x * u }
	case "max":
		combine = func(x, u T) T { return max(x, u) }
	case "min":
		combine = func(x, u T) T { return min(x, u) }
	}
	dst, x, src := view[T](c.out), view[T](c.in[0]), view[T](c.in[2])
	switch idx := c.in[1]; idx.DType {
	case dtype.I32:
		return layout.Scatter(c.pool, dst, x, src, rows, inner, view[int32](idx), combine)
	case dtype.I64:
		return layout.Scatter(c.pool, dst, x, src, rows, inner, view[int64](idx), combine)
	default:
		return layout.Scatter(c.pool, dst, x, src, rows, inner, view[uint32](idx), combine)
	}
}
