package backend

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/scan"
)

// byType holds the prepare functions of an op's kernels (see kernel.prepare) by the element type of operand 0.
type byType map[dtype.DType]func(n *ir.Node) func(*call) error

// Package kernels registers elementwise functions under the names of their ops. Nothing else is needed for a new one:
// the kernel is made here, and fused regions and the activations of products find the function by its name.
func init() {
	ops := map[string]byType{}
	add := func(op string, d dtype.DType, prepare func(n *ir.Node) func(*call) error) {
		if ops[op] == nil {
			ops[op] = byType{}
		}
		ops[op][d] = prepare
	}
	for _, u := range elementwise.Unaries() {
		add(u.String(), dtype.F32, func(n *ir.Node) func(*call) error {
			f := u.With(parameters(n.Op, n.Attrs)...)
			return always(func(c *call) { elementwise.UnaryF32(c.pool, f, f32(c.out), f32(c.in[0])) })
		})
		add(u.String(), dtype.F64, func(n *ir.Node) func(*call) error {
			f := u.With(parameters(n.Op, n.Attrs)...)
			return always(func(c *call) {
				elementwise.UnaryF64(c.pool, f, view[float64](c.out),
					view[float64](c.in[0]))
			})
		})
	}
	for _, t := range elementwise.Predicates() {
		add(t.String(), dtype.F32, plain(func(c *call) { elementwise.TestF32(c.pool, t, c.out.Data, f32(c.in[0])) }))
		add(
			t.String(), dtype.F64,
			plain(func(c *call) { elementwise.TestF64(c.pool, t, c.out.Data, view[float64](c.in[0])) }))
	}
	for d, e := range elements {
		for _, name := range elementwise.IntegerUnaries() {
			if e.unary != nil {
				add(name, d, plain(func(c *call) { e.unary(c, name) }))
			}
		}
		for _, b := range elementwise.Binaries() {
			if d.IsFloat() && b.TakesFloats() || d.IsInt() && b.TakesIntegers() {
				add(b.String(), d, func(*ir.Node) func(*call) error {
					return func(c *call) error { return e.binary(c, b) }
				})
			}
		}
		for _, r := range elementwise.Compares() {
			add(r.String(), d, plain(func(c *call) { e.compare(c, r) }))
		}
	}
	for _, b := range elementwise.Binaries() {
		if b.TakesBools() {
			add(b.String(), dtype.Bool, plain(func(c *call) {
				elementwise.Logical(c.pool, b, c.out.Data, c.in[0].Data, c.in[0].Shape, c.in[1].Data, c.in[1].Shape)
			}))
		}
	}
	add("not", dtype.Bool, plain(func(c *call) { elementwise.Not(c.pool, c.out.Data, c.in[0].Data) }))
	for op, types := range ops {
		register(kernel{op: op, takes: types.takes(op), prepare: func(n *ir.Node) func(*call) error {
			return types[n.In[0].Type.DType](n)
		}})
	}
}

// plain returns the prepare function of a kernel that reads nothing from the node and cannot fail.
func plain(run func(c *call)) func(*ir.Node) func(*call) error {
	return func(*ir.Node) func(*call) error { return always(run) }
}

func always(run func(c *call)) func(*call) error {
	return func(c *call) error {
		run(c)
		return nil
	}
}

// takes returns the rule for operands of the types that have a kernel.
func (k byType) takes(name string) string {
	d, ok := ir.Find(name)
	if !ok {
		panic("BUG: cpu: kernel for " + name + ": no such op")
	}
	return computes(d, func(t dtype.DType) bool { return k[t] != nil })
}

// parameters returns the attributes of an elementwise function in the order of their names. All are numbers.
func parameters(d *ir.OpDef, attrs any) (p []float64) {
	for _, a := range d.Attrs(attrs) {
		p = append(p, a.Value.(float64))
	}
	return p
}

var (
	_ = register(kernel{op: "where", takes: "(any, any, any)", run: wheres.run})
	_ = register(kernel{op: "cast", takes: "(any)", run: cast})
)

// computes returns the rule for operands of the types that satisfy ok and that the op accepts.
func computes(d *ir.OpDef, ok func(dtype.DType) bool) string {
	var names []string
	attrs := d.Cases()[0].Attrs
	for _, t := range dtype.All() {
		if !ok(t) {
			continue
		}
		in := slices.Repeat([]ir.Type{ir.TypeOf(t)}, len(d.Operands))
		if _, err := d.Infer(attrs, in, ir.Type{}, nil); err == nil {
			names = append(names, t.String())
		}
	}
	if len(d.Operands) == 1 {
		return "(" + strings.Join(names, "|") + ")"
	}
	return "(" + strings.Join(names, "|") + "...)"
}

// element holds the kernels for one element type.
type element struct {
	binary  func(c *call, b elementwise.BinaryOp) error
	compare func(c *call, r elementwise.CompareOp)
	unary   func(c *call, op string) // integers only

	scatterAdd func(c *call) error
	scan       func(c *call, f scan.Op)
	windows    func(c *call, g reduce.WindowArgs)
}

// elements lists the types in which kernels compute. f16 and bf16 are not among them.
var elements = map[dtype.DType]element{
	dtype.F32: elementOf[float32](), dtype.F64: elementOf[float64](),
	dtype.I8: integerOf[int8](), dtype.I16: integerOf[int16](), dtype.I32: integerOf[int32](),
	dtype.I64: integerOf[int64](),
	dtype.U8:  integerOf[uint8](), dtype.U32: integerOf[uint32](),
}

func integerOf[T interface {
	tensor.Element
	elementwise.Integer
}]() element {
	e := elementOf[T]()
	e.unary = func(c *call, op string) { elementwise.UnaryInteger(c.pool, op, view[T](c.out), view[T](c.in[0])) }
	return e
}

func elementOf[T interface {
	tensor.Element
	elementwise.Number
}]() element {
	return element{
		binary: func(c *call, b elementwise.BinaryOp) error {
			return elementwise.Binary(c.pool, b, view[T](c.out), view[T](c.in[0]), c.in[0].Shape, view[T](c.in[1]),
				c.in[1].Shape)
		},
		compare: func(c *call, r elementwise.CompareOp) {
			elementwise.Compare(c.pool, r, c.out.Data, view[T](c.in[0]), c.in[0].Shape, view[T](c.in[1]), c.in[1].Shape)
		},
		scatterAdd: scatterAdd[T],
		scan: func(c *call, f scan.Op) {
			a := c.node.Attrs.(op.ScanAttrs)
			outer, n, inner := around(c.out.Shape, a.Axis)
			scan.Run(c.pool, f, view[T](c.out), view[T](c.in[0]), outer, n, inner, a.Exclusive, a.Reverse)
		},
		windows: func(c *call, g reduce.WindowArgs) {
			reduce.Windows(c.pool, g, view[T](c.out), view[T](c.in[0]))
		},
	}
}

func view[T tensor.Element](t tensor.Tensor) []T { return tensor.View[T](t.Data) }

// wheres has one variant per element size, since where copies elements without computing.
var wheres = bySize{whereOf[uint8], whereOf[uint16], whereOf[float32], whereOf[int64]}

func whereOf[T tensor.Element](c *call) {
	cond, t, f := c.in[0], c.in[1], c.in[2]
	elementwise.Where(c.pool, view[T](c.out), elementwise.Condition{Data: cond.Data, Shape: cond.Shape,
		DType: cond.DType},
		view[T](t), t.Shape, view[T](f), f.Shape)
}

// bySize holds a kernel's variants for results of 1, 2, 4 and 8 bytes per element.
type bySize [4]func(*call)

func (k *bySize) run(c *call) error {
	k[sizeClass(c.out.DType)](c)
	return nil
}

// sizeClass returns the index into a bySize of the variant for a type.
func sizeClass(d dtype.DType) int { return bits.TrailingZeros(uint(d.Size())) }

// cast keeps its operands as values of type any, as elementwise.Cast takes them, because the conversion allocates.
func cast(c *call) error {
	if c.dst == nil {
		c.dst, c.src = storage(c.out), storage(c.in[0])
	}
	elementwise.Cast(c.pool, c.out.DType, c.dst, c.in[0].DType, c.src)
	return nil
}

// storage returns the data of a tensor as a slice of its element type. f16 and bf16 give []uint16, bool gives []uint8.
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

var _ = register(kernel{op: "copy", takes: "(any)", run: func(c *call) error {
	n := len(c.in[0].Data)
	layout.Place(c.pool, c.out.Data, c.in[0].Data, 1, n, 0, n)
	return nil
}})

var _ = register(kernel{op: "gather", takes: "(any, i32|i64|u32)", run: func(c *call) error {
	switch c.in[1].DType {
	case dtype.I32:
		return gather(c, view[int32](c.in[1]))
	case dtype.I64:
		return gather(c, view[int64](c.in[1]))
	}
	return gather(c, view[uint32](c.in[1]))
}})

func gather[I layout.Index](c *call, index []I) (err error) {
	table := c.in[0]
	outer, n, inner := around(table.Shape, positive(c.node.Attrs.(op.GatherAttrs).Axis, len(table.Shape)))
	switch size := table.DType.Size(); { // single elements are copied as numbers of their size, longer rows as bytes
	case inner == 1 && size == 2:
		return layout.Gather(c.pool, view[uint16](c.out), view[uint16](table), outer, n, 1, index)
	case inner == 1 && size == 4:
		return layout.Gather(c.pool, view[float32](c.out), view[float32](table), outer, n, 1, index)
	case inner == 1 && size == 8:
		return layout.Gather(c.pool, view[int64](c.out), view[int64](table), outer, n, 1, index)
	}
	return layout.Gather(c.pool, c.out.Data, table.Data, outer, n, inner*table.DType.Size(), index)
}
