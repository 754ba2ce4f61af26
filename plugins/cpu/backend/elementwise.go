package backend

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels"
)

// The elementwise kernels carry the names of the ops, so each op that has one is bound by its name.
func init() {
	for _, d := range ir.Defs() {
		if u, ok := kernels.ParseUnary(d.Name); ok {
			register(kernel{op: d.Name, can: computes, run: func(c *call) error { return unary(c, u) }})
		}
		if b, ok := kernels.ParseBinary(d.Name); ok {
			register(kernel{op: d.Name, can: computes, run: func(c *call) error { return binary(c, b) }})
		}
		if r, ok := kernels.ParseCompare(d.Name); ok {
			register(kernel{op: d.Name, can: computes, run: func(c *call) error { return compare(c, r) }})
		}
	}
}

var (
	_ = register(kernel{op: "where", run: where})
	_ = register(kernel{op: "cast", run: cast})
)

// computes: the operands' type is one that kernels compute with as it is stored.
func computes(n *ir.Node) bool {
	switch n.In[0].Type.DType {
	case dtype.F16, dtype.BF16, dtype.Bool:
		return false
	}
	return true
}

func unary(c *call, u kernels.UnaryOp) error {
	switch c.in[0].DType {
	case dtype.F32:
		kernels.UnaryF32(c.pool, u, f32(c.out), f32(c.in[0]))
	case dtype.F64:
		kernels.UnaryF64(c.pool, u, tensor.View[float64](c.out.Data), tensor.View[float64](c.in[0].Data))
	case dtype.I8:
		return unaryInt[int8](c, u)
	case dtype.I16:
		return unaryInt[int16](c, u)
	case dtype.I32:
		return unaryInt[int32](c, u)
	case dtype.I64:
		return unaryInt[int64](c, u)
	case dtype.U8:
		return unaryInt[uint8](c, u)
	case dtype.U32:
		return unaryInt[uint32](c, u)
	}
	return nil
}

func unaryInt[T kernels.Integer](c *call, u kernels.UnaryOp) error {
	if !kernels.UnaryInt(c.pool, u, view[T](c.out), view[T](c.in[0])) {
		return reference(c)
	}
	return nil
}

func view[T tensor.Element](t tensor.Tensor) []T { return tensor.View[T](t.Data) }

func binary(c *call, b kernels.BinaryOp) error {
	switch c.in[0].DType {
	case dtype.F32:
		return binaryOf[float32](c, b)
	case dtype.F64:
		return binaryOf[float64](c, b)
	case dtype.I8:
		return binaryOf[int8](c, b)
	case dtype.I16:
		return binaryOf[int16](c, b)
	case dtype.I32:
		return binaryOf[int32](c, b)
	case dtype.I64:
		return binaryOf[int64](c, b)
	case dtype.U8:
		return binaryOf[uint8](c, b)
	case dtype.U32:
		return binaryOf[uint32](c, b)
	}
	return reference(c)
}

// number is what tensors hold and kernels compute with.
type number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint32
}

func binaryOf[T number](c *call, b kernels.BinaryOp) error {
	return kernels.Binary(c.pool, b, view[T](c.out), view[T](c.in[0]), c.in[0].Shape, view[T](c.in[1]), c.in[1].Shape)
}

func compare(c *call, r kernels.CompareOp) error {
	switch c.in[0].DType {
	case dtype.F32:
		compareOf[float32](c, r)
	case dtype.F64:
		compareOf[float64](c, r)
	case dtype.I8:
		compareOf[int8](c, r)
	case dtype.I16:
		compareOf[int16](c, r)
	case dtype.I32:
		compareOf[int32](c, r)
	case dtype.I64:
		compareOf[int64](c, r)
	case dtype.U8:
		compareOf[uint8](c, r)
	case dtype.U32:
		compareOf[uint32](c, r)
	default:
		return reference(c)
	}
	return nil
}

func compareOf[T number](c *call, r kernels.CompareOp) {
	kernels.Compare(c.pool, r, c.out.Data, view[T](c.in[0]), c.in[0].Shape, view[T](c.in[1]), c.in[1].Shape)
}

// where selects and never computes: only the element size matters. A condition that is not bool is a comparison first.
func where(c *call) error {
	if c.in[0].DType != dtype.Bool {
		return reference(c)
	}
	return bySize(c.out.DType, func() { whereOf[uint8](c) }, func() { whereOf[uint16](c) }, func() { whereOf[float32](c) }, func() { whereOf[int64](c) })
}

func whereOf[T tensor.Element](c *call) {
	cond, t, f := c.in[0], c.in[1], c.in[2]
	kernels.Where(c.pool, view[T](c.out), cond.Data, cond.Shape, view[T](t), t.Shape, view[T](f), f.Shape)
}

// bySize runs the variant for elements of 1, 2, 4 or 8 bytes.
func bySize(d dtype.DType, one, two, four, eight func()) error {
	map[int]func(){1: one, 2: two, 4: four, 8: eight}[d.Size()]()
	return nil
}

func cast(c *call) error {
	kernels.Cast(c.pool, c.out.DType, storage(c.out), c.in[0].DType, storage(c.in[0]))
	return nil
}

// storage is the slice of a tensor's storage form, as kernels.Cast takes it.
func storage(t tensor.Tensor) any {
	switch t.DType {
	case dtype.F32:
		return view[float32](t)
	case dtype.F64:
		return view[float64](t)
	case dtype.F16, dtype.BF16:
		return view[uint16](t)
	case dtype.I8:
		return view[int8](t)
	case dtype.I16:
		return view[int16](t)
	case dtype.I32:
		return view[int32](t)
	case dtype.I64:
		return view[int64](t)
	case dtype.U32:
		return view[uint32](t)
	}
	return view[uint8](t)
}

var _ = register(kernel{op: "copy", run: func(c *call) error {
	copy(c.out.Data, c.in[0].Data)
	return nil
}})

var _ = register(kernel{op: "gather", can: func(n *ir.Node) bool {
	return n.In[1].Type.DType == dtype.I32 || n.In[1].Type.DType == dtype.I64 || n.In[1].Type.DType == dtype.U32
}, run: func(c *call) error {
	switch c.in[1].DType {
	case dtype.I32:
		return gather(c, view[int32](c.in[1]))
	case dtype.I64:
		return gather(c, view[int64](c.in[1]))
	}
	return gather(c, view[uint32](c.in[1]))
}})

func gather[I kernels.Index](c *call, index []I) (err error) {
	table := c.in[0]
	outer, n, inner := around(table.Shape, positive(c.node.Attrs.(op.GatherAttrs).Axis, len(table.Shape)))
	// Rows are moved as bytes.
	return kernels.Gather(c.pool, c.out.Data, table.Data, outer, n, inner*table.DType.Size(), index)
}
