package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
)

// These ops copy elements without computing, so only the element size matters. Contiguous rows are copied as bytes.
var (
	_ = register(kernel{op: "transpose", takes: "(any)", run: transposes.run})
	_ = register(kernel{op: "expand", takes: "(any)", run: expands.run})
	_ = register(kernel{op: "concat", takes: "(any...)", run: concat})
	_ = register(kernel{op: "narrow", takes: "(any)", run: func(c *call) error {
		a := c.node.Attrs.(op.NarrowAttrs)
		outer, n, inner := around(c.in[0].Shape, positive(a.Axis, len(c.out.Shape)))
		layout.Narrow(c.pool, c.out.Data, c.in[0].Data, outer, n, inner*c.out.DType.Size(), a.Start, a.Len)
		return nil
	}})
	_ = register(kernel{op: "pad", takes: "(any)", prepare: func(n *ir.Node) func(*call) error {
		value := tensor.NewArray(n.Type.DType, 1)
		value.Fill(n.Attrs.(op.PadAttrs).Value)
		return pads[sizeClass(n.Type.DType)](value.Tensor())
	}})
	_ = register(kernel{op: "iota", takes: "() -> f32|i32|i64", run: func(c *call) error {
		axis := c.node.Attrs.(op.IotaAttrs).Axis
		switch c.out.DType {
		case dtype.I32:
			layout.Iota(c.pool, view[int32](c.out), c.out.Shape, axis)
		case dtype.I64:
			layout.Iota(c.pool, view[int64](c.out), c.out.Shape, axis)
		default:
			layout.Iota(c.pool, f32(c.out), c.out.Shape, axis)
		}
		return nil
	}})
	// a step only if its size depends on the run
	_ = register(kernel{op: "const", takes: "() -> any", prepare: func(n *ir.Node) func(*call) error {
		value := tensor.NewArray(n.Type.DType)
		value.Fill(n.Attrs.(op.ConstAttrs).Value)
		return fills[sizeClass(n.Type.DType)](value.Tensor())
	}})
)

var (
	transposes = bySize{transpose[uint8], transpose[uint16], transpose[float32], transpose[int64]}
	expands    = bySize{expand[uint8], expand[uint16], expand[uint32], expand[int64]}
)

var pads = [4]func(tensor.Tensor) func(*call) error{pad[uint8], pad[uint16], pad[uint32], pad[int64]}

var fills = [4]func(tensor.Tensor) func(*call) error{fill[uint8], fill[uint16], fill[uint32], fill[int64]}

func fill[T tensor.Element](value tensor.Tensor) func(*call) error {
	v := view[T](value)
	return func(c *call) error {
		elementwise.Expand(c.pool, view[T](c.out), c.out.Shape, v, nil)
		return nil
	}
}

func pad[T tensor.Element](value tensor.Tensor) func(*call) error {
	v := view[T](value)[0]
	return func(c *call) error {
		a := c.node.Attrs.(op.PadAttrs)
		layout.Pad(c.pool, view[T](c.out), view[T](c.in[0]), c.in[0].Shape, a.Before, a.After, v)
		return nil
	}
}

func transpose[T tensor.Element](c *call) {
	layout.Transpose(c.pool, view[T](c.out), view[T](c.in[0]), c.in[0].Shape, c.node.Attrs.(op.TransposeAttrs).Perm)
}

func expand[T tensor.Element](c *call) {
	elementwise.Expand(c.pool, view[T](c.out), c.out.Shape, view[T](c.in[0]), c.in[0].Shape)
}

func concat(c *call) error {
	axis := positive(c.node.Attrs.(op.ConcatAttrs).Axis, len(c.out.Shape))
	outer, _, inner := around(c.out.Shape, axis)
	switch c.out.DType.Size() {
	case 2:
		place[uint16](c, axis, outer, inner)
	case 4:
		place[float32](c, axis, outer, inner)
	case 8:
		place[int64](c, axis, outer, inner)
	default:
		place[uint8](c, axis, outer, inner*c.out.DType.Size())
	}
	return nil
}

// place concatenates the operands along axis. inner is the number of T per index of axis.
func place[T tensor.Element](c *call, axis, outer, inner int) {
	if len(c.in) == 2 && inner == 1 && c.in[0].Shape[axis] == 1 && c.in[1].Shape[axis] == 1 {
		layout.Interleave(c.pool, view[T](c.out), view[T](c.in[0]), view[T](c.in[1]))
		return
	}
	at := 0
	for _, x := range c.in {
		n := x.Shape[axis] * inner
		layout.Place(c.pool, view[T](c.out), view[T](x), outer, c.out.Shape[axis]*inner, at, n)
		at += n
	}
}
