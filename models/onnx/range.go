package onnx

import (
	"math"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// symbolicRange is a range whose limits are sizes.
func symbolicRange(n *node) []*value {
	in := n.known()
	if in == nil || in[0][0].den != 1 || in[1][0].den != 1 || in[2][0].den != 1 {
		return nil
	}
	start, limit, step := in[0][0].num, in[1][0].num, in[2][0].num
	if step.Is(0) {
		n.fail("step is 0; want another number")
	}
	lo, hi := n.b.g.Syms.Bounds(step)
	length, ok := limit.Sub(start)
	if hi < 0 {
		length, ok = start.Sub(limit)
	}
	if least, _ := n.b.g.Syms.Bounds(length); !ok || least < 0 || lo <= 0 && hi >= 0 {
		return nil
	}
	if step.IsStatic() {
		length, ok = length.CeilDiv(max(step.Const, -step.Const))
	} else {
		length, ok = length.Div(step)
	}
	if !ok || hi < 0 && !step.IsStatic() {
		return nil
	}
	out := op.Iota(n.b.g, 0, ir.Type{DType: n.in[0].typ.DType, Shape: ir.Shape{length}})
	if !step.Is(1) {
		out = op.Mul(out, n.sizeNode(step, out.Type.DType))
	}
	if !start.Is(0) {
		out = op.Add(out, n.sizeNode(start, out.Type.DType))
	}
	return one(out)
}

// rangeOp is a range of numbers that are known.
func rangeOp(n *node) []*value {
	start, limit, step := n.array(0), n.array(1), n.array(2)
	if limit.DType != start.DType || step.DType != start.DType {
		n.fail("has limits of %v and %v and a step of %v; want the same type", start.DType, limit.DType, step.DType)
	}
	if start.Floats == nil {
		lo, hi, by := start.Ints[0], limit.Ints[0], step.Ints[0]
		if by == 0 {
			n.fail("step is 0; want another number")
		}
		count := max(0, (hi-lo+by-sign(by))/by)
		if count > ir.MaxDim {
			n.fail("has %d elements; allowed are up to %d", count, ir.MaxDim)
		}
		out := op.Iota(n.b.g, 0, ir.TypeOf(start.DType, count))
		return one(op.Add(op.Mul(out, number(float64(by), out)), number(float64(lo), out)))
	}
	steps := math.Ceil((limit.Floats[0] - start.Floats[0]) / step.Floats[0])
	if !(steps <= ir.MaxDim) {
		n.fail("has %v elements; allowed are up to %d", steps, ir.MaxDim)
	}
	count := max(0, int64(steps))
	out := op.Iota(n.b.g, 0, ir.TypeOf(start.DType, count))
	return one(op.Add(op.Mul(out, number(step.Floats[0], out)), number(start.Floats[0], out)))
}

func sign(x int64) int64 {
	if x < 0 {
		return -1
	}
	return 1
}
