package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// resizeOpenAxis resizes an axis of which a size is open. Gathers read the elements at positions that the program
// computes: one for each element of the result in mode nearest, two in linear, four in cubic. A scale of 0 is the ratio
// of the sizes.
func (n *node) resizeOpenAxis(x *ir.Node, axis int, r resampler, to ir.Dim, scale float64) *ir.Node {
	size := x.Type.Shape[axis]
	r.scale = op.Const(n.b.g, scale, ir.TypeOf(dtype.F64))
	r.from, r.to, r.count = n.sizeNode(size, dtype.F64), n.sizeNode(to, dtype.F64), to
	if scale == 0 {
		r.scale = op.Div(r.to, r.from)
	}
	switch {
	case r.coords == "tf_crop_and_resize" || r.antialias:
		n.fail("resizes axis %d from %v to %v with antialias or coordinates tf_crop_and_resize; want sizes that are fixed "+
			"with --size", axis, size, to)
	case r.mode == "nearest":
		return op.Gather(x, r.picks(), axis)
	case r.mode != "linear" && r.mode != "cubic":
		n.fail("mode is %q; allowed are nearest, linear and cubic", r.mode)
	}
	d := x.Type.DType
	if !d.IsFloat() {
		x = op.Cast(x, dtype.F32)
	}
	at, weights := r.taps()
	var y *ir.Node
	for i := range at {
		w := n.at(cast(weights[i], x.Type.DType), axis, x.Type.Rank())
		part := op.Mul(op.Gather(x, at[i], axis), w)
		if y != nil {
			part = op.Add(y, part)
		}
		y = part
	}
	return cast(y, d)
}

// taps returns the positions of the elements that each element of the result reads, and their weights.
func (r resampler) taps() (at, weights []*ir.Node) {
	reach := 1
	if r.mode == "cubic" {
		reach = 2
	}
	in, _ := r.sizes()
	p := r.positions()
	low := op.Floor(p)
	var sum *ir.Node
	for j := 1 - reach; j <= reach; j++ {
		a := op.Add(low, number(float64(j), low))
		w := r.kernel(op.Sub(a, p))
		if r.exclude {
			w = op.Where(op.And(op.Ge(a, number(0, a)), op.Lt(a, in)), w, number(0, w))
		}
		at, weights = append(at, op.Cast(r.inside(a), dtype.I32)), append(weights, w)
		if sum == nil {
			sum = w
		} else {
			sum = op.Add(sum, w)
		}
	}
	if r.exclude {
		for i := range weights {
			weights[i] = op.Div(weights[i], sum)
		}
	}
	return at, weights
}
