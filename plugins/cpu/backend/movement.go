package backend

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/layout"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

var (
	_ = register(kernel{op: "flip", takes: "(any)", prepare: func(n *ir.Node) func(*call) error {
		by := make([]layout.Reordering, n.Type.Rank())
		for _, axis := range n.Attrs.(op.FlipAttrs).Axes {
			by[axis].Flip = true
		}
		return reorder(by)
	}})
	_ = register(kernel{op: "roll", takes: "(any)", prepare: func(n *ir.Node) func(*call) error {
		a, by := n.Attrs.(op.RollAttrs), make([]layout.Reordering, n.Type.Rank())
		for i, axis := range a.Axes {
			by[axis].Shift = a.Shifts[i]
		}
		return reorder(by)
	}})
	_ = register(kernel{op: "dynamic_slice", takes: "(any, i32|i64)", run: func(c *call) error {
		a := c.node.Attrs.(op.DynamicSliceAttrs)
		outer, n, inner := around(c.in[0].Shape, a.Axis)
		start := oneIndex(c.in[1])
		if start < 0 || start > int64(n-a.Len) {
			return fmt.Errorf("start is %d; want 0 to %d, so that %d elements lie in axis %d", start, n-a.Len, a.Len,
				a.Axis)
		}
		layout.Narrow(c.pool, c.out.Data, c.in[0].Data, outer, n, inner*c.out.DType.Size(), int(start), a.Len)
		return nil
	}})
	_ = register(kernel{op: "gather_batched", takes: "(any, i32|i64|u32)", run: func(c *call) error {
		switch c.in[1].DType {
		case dtype.I32:
			return gatherBatched[int32](c)
		case dtype.I64:
			return gatherBatched[int64](c)
		}
		return gatherBatched[uint32](c)
	}})
	_ = register(kernel{op: "roi_align", takes: "(f32, f32, i32|i64|u32)",
		scratch: func(_ *pool.Pool, n *ir.Node, _ product.Precision) pool.Size {
			return layout.RoiScratch(roiOf(n.Attrs.(op.RoiAlignAttrs), largest(n, 0)))
		},
		run: func(c *call) error {
			g := roiOf(c.node.Attrs.(op.RoiAlignAttrs), c.in[0].Shape)
			g.Dst, g.Images, g.Boxes = f32(c.out), f32(c.in[0]), f32(c.in[1])
			switch c.in[2].DType {
			case dtype.I32:
				return layout.RoiAlign(c.pool, g, view[int32](c.in[2]))
			case dtype.I64:
				return layout.RoiAlign(c.pool, g, view[int64](c.in[2]))
			}
			return layout.RoiAlign(c.pool, g, view[uint32](c.in[2]))
		}})
	_ = register(
		kernel{op: "scatter_add", takes: "(f32|f64|i8|i16|i32|i64|u8|u32, i32|i64|u32)", run: func(c *call) error {
			return elements[c.in[0].DType].scatterAdd(c)
		}})
	_ = register(
		kernel{op: "resize", takes: `(any) if mode = "nearest"`, also: `(f32) if mode = "linear"`,
			scratch: resizeScratch, run: func(c *call) error {
				a := c.node.Attrs.(op.ResizeAttrs)
				var m layout.Images
				m.Count, m.H, m.W, m.Inner = a.Split(c.in[0].Shape)
				_, m.ToH, m.ToW, _ = a.Split(c.out.Shape)
				m.Rows, m.Cols = layout.Positions(a.Along(m.H, m.ToH)), layout.Positions(a.Along(m.W, m.ToW))
				if a.Mode == op.ResizeLinear {
					layout.ResizeLinear(c.pool, f32(c.out), f32(c.in[0]), m)
					return nil
				}
				nearests[sizeClass(c.out.DType)](c, m)
				return nil
			}})
)

func roiOf(a op.RoiAlignAttrs, x []int) layout.Roi {
	return layout.Roi{Count: x[0], Channels: x[1], Ratio: a.Ratio, Y: layout.RoiAxis{Bins: a.Output[0], Size: x[2]},
		X: layout.RoiAxis{Bins: a.Output[1], Size: x[3]}, Scale: float32(a.Scale), Half: a.Half, Max: a.Max}
}

// resizeScratch returns the scratch memory of linear interpolation. Nearest needs no scratch memory.
func resizeScratch(p *pool.Pool, n *ir.Node, _ product.Precision) (r pool.Size) {
	if a := n.Attrs.(op.ResizeAttrs); a.Mode == op.ResizeLinear {
		_, _, toW, inner := a.Split(n.Graph.Syms.Largest(n.Type.Shape))
		r = layout.ResizeLinearScratch(p, toW, inner)
	}
	return r
}

// reorder returns the kernel of flip or roll. by has one entry per axis.
func reorder(by []layout.Reordering) func(*call) error {
	return func(c *call) error {
		reorders[sizeClass(c.out.DType)](c, by)
		return nil
	}
}

var (
	reorders = [4]func(*call, []layout.Reordering){reorderOf[uint8], reorderOf[uint16], reorderOf[float32],
		reorderOf[int64]}
	nearests = [4]func(*call, layout.Images){nearestOf[uint8], nearestOf[uint16], nearestOf[uint32], nearestOf[int64]}
)

func reorderOf[T tensor.Element](c *call, by []layout.Reordering) {
	layout.Reorder(c.pool, view[T](c.out), view[T](c.in[0]), c.out.Shape, by)
}

func nearestOf[T tensor.Element](c *call, m layout.Images) {
	layout.ResizeNearest(c.pool, view[T](c.out), view[T](c.in[0]), m)
}

func gatherBatched[I interface {
	tensor.Element
	layout.Index
}](c *call) error {
	table, b := c.in[0], c.node.Attrs.(op.GatherBatchedAttrs).BatchDims
	outer, n, inner := around(table.Shape, b)
	return layout.GatherBatched(c.pool, c.out.Data, table.Data, outer, n, inner*table.DType.Size(), view[I](c.in[1]))
}

func scatterAdd[T interface {
	tensor.Element
	elementwise.Number
}](c *call) error {
	rows, inner := c.out.Shape[0], tensor.Numel(c.out.Shape[1:])
	switch dst, src, idx := view[T](c.out), view[T](c.in[0]), c.in[1]; idx.DType {
	case dtype.I32:
		return layout.ScatterAdd(c.pool, dst, src, rows, inner, view[int32](idx))
	case dtype.I64:
		return layout.ScatterAdd(c.pool, dst, src, rows, inner, view[int64](idx))
	default:
		return layout.ScatterAdd(c.pool, dst, src, rows, inner, view[uint32](idx))
	}
}

// oneIndex returns the value of an operand of one element, an i32 or i64.
func oneIndex(t tensor.Tensor) int64 {
	if t.DType == dtype.I32 {
		return int64(view[int32](t)[0])
	}
	return view[int64](t)[0]
}
