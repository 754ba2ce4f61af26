package onnx

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// The ranks of inputs.
var (
	_ = ranks("2+ 1+ 1", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
	_ = ranks("1+ 1", "CenterCropPad")
	_ = ranks("2+", "Det")
	_ = ranks("3 1 1", "Col2Im")
	_ = ranks("3-5 3-5 1", "MaxUnpool")
)

var (
	_ = on("NegativeLogLikelihoodLoss", 12, func(n *node) []*value { return many(n.loss(n.x(0))) })
	_ = on("SoftmaxCrossEntropyLoss", 12, func(n *node) []*value {
		p := op.LogSoftmax(n.x(0), 1)
		return many(n.loss(p), p)
	})
	_ = on("CenterCropPad", 18, func(n *node) []*value {
		x, want := n.x(0), n.ints(1)
		rank := x.Type.Rank()
		axes, ok := n.list("axes")
		if !ok {
			for i := range rank {
				axes = append(axes, i)
			}
		}
		if len(want) != len(axes) {
			n.fail("has %d sizes; want one for each of %d axes", len(want), len(axes))
		}
		before, after := make([]int, rank), make([]int, rank)
		for i, a := range n.axes(axes, rank) {
			size := x.Type.Shape[a]
			if !size.IsStatic() {
				n.fail("axis %d has size %v; want a size that is known", a, size)
			}
			switch d := want[i] - int(size.Const); {
			case d > 0:
				before[a], after[a] = d/2, d-d/2
			case d < 0:
				x = op.Narrow(x, a, -d/2, want[i])
			}
		}
		return one(op.Pad(x, before, after, 0))
	})
	_ = on("Det", 11, func(n *node) []*value {
		x := n.x(0)
		rank := x.Type.Rank()
		size := x.Type.Shape[rank-1]
		if !size.IsStatic() || size.Const > 4 || size.Const < 1 {
			n.fail("matrices have %v rows; allowed are 1 to 4", size)
		}
		return one(op.Reshape(n.det(x, int(size.Const)), x.Type.Shape[:rank-2]))
	})
	_ = on("Col2Im", 18, col2im)
	_ = on("MaxUnpool", 9, func(n *node) []*value {
		x := n.x(0)
		s := x.Type.Shape
		var shape ir.Shape
		if k, _ := n.list("kernel_shape"); len(k) != len(s)-2 {
			n.fail("kernel_shape has %d numbers; want %d, for input %v", len(k), len(s)-2, x.Type)
		}
		if n.has(2) {
			if shape = n.shape(n.dims(2)); len(shape) != len(s) {
				n.fail("output_shape has %d numbers; want %d, for input %v", len(shape), len(s), x.Type)
			}
		} else {
			k, _ := n.list("kernel_shape")
			stride := n.spatial("strides", len(k), 1)
			before, after := n.pads(len(k))
			shape = append(shape, s[:2]...)
			for i := range k {
				d, ok := s[i+2].Sub(ir.Static(1))
				if ok {
					d, ok = d.Mul(ir.Static(int64(stride[i])))
				}
				extra := k[i] - before[i] - after[i]
				if !ok {
					n.fail("the size of the result is too large a formula")
				}
				shape = append(shape, n.plus(d, int64(extra)))
			}
		}
		idx := n.x(1)
		zero := op.Const(n.b.g, 0, ir.Type{DType: x.Type.DType, Shape: ir.Shape{n.product(shape)}})
		if n.has(2) { // positions are those in a tensor without the extra size
			k, _ := n.list("kernel_shape")
			stride := n.spatial("strides", len(k), 1)
			small := append(ir.Shape{}, s[:2]...)
			for i := range k {
				small = append(small, ir.Static((s[i+2].Const-1)*int64(stride[i])+int64(k[i])))
			}
			if n.product(small).IsStatic() && n.product(small) != n.product(shape) {
				y := op.Scatter(op.Const(n.b.g, 0, ir.Type{DType: x.Type.DType, Shape: ir.Shape{n.product(small)}}),
					n.flat(idx), n.flat(x), "none")
				y = op.Reshape(y, small)
				after := make([]int, len(shape))
				for i := range shape {
					after[i] = int(shape[i].Const - small[i].Const)
				}
				return one(op.Pad(y, make([]int, len(shape)), after, 0))
			}
		}
		return one(op.Reshape(op.Scatter(zero, n.flat(idx), n.flat(x), "none"), shape))
	})
)

// det returns the determinant of matrices of k rows, by the first row.
func (n *node) det(x *ir.Node, k int) *ir.Node {
	r := x.Type.Rank()
	if k == 1 {
		return x
	}
	var sum *ir.Node
	rest := op.Narrow(x, r-2, 1, k-1)
	for j := range k {
		var minor *ir.Node
		switch {
		case j == 0:
			minor = op.Narrow(rest, r-1, 1, k-1)
		case j == k-1:
			minor = op.Narrow(rest, r-1, 0, k-1)
		default:
			minor = op.Concat(r-1, op.Narrow(rest, r-1, 0, j), op.Narrow(rest, r-1, j+1, k-1-j))
		}
		term := op.Mul(op.Narrow(op.Narrow(x, r-2, 0, 1), r-1, j, 1), n.det(minor, k-1))
		switch {
		case sum == nil:
			sum = term
		case j%2 == 1:
			sum = op.Sub(sum, term)
		default:
			sum = op.Add(sum, term)
		}
	}
	return sum
}

// loss is the negative log likelihood loss of log probabilities [N,C,...] and labels [N,...].
func (n *node) loss(p *ir.Node) *ir.Node {
	labels := cast(n.x(1), dtype.I64)
	if labels.Type.Rank() != p.Type.Rank()-1 {
		n.fail("has scores %v and labels %v; want [N,C,...] and [N,...]", p.Type, labels.Type)
	}
	ignore := n.attr("ignore_index")
	valid := op.Const(n.b.g, 1, ir.Type{DType: dtype.Bool, Shape: labels.Type.Shape})
	if ignore != nil {
		valid = op.Ne(labels, number(float64(ignore.GetI()), labels))
		labels = op.Where(valid, labels, number(0, labels))
	}
	// the probability of each label: gather along axis 1
	shape := append(ir.Shape{labels.Type.Shape[0], ir.Static(1)}, labels.Type.Shape[1:]...)
	picked := op.Reshape(n.pick(p, op.Reshape(labels, shape), 1), labels.Type.Shape)
	var weight *ir.Node
	if n.has(2) {
		weight = op.Reshape(op.Gather(n.x(2), n.flat(labels), 0), labels.Type.Shape)
	} else {
		weight = op.Const(n.b.g, 1, ir.Type{DType: p.Type.DType, Shape: labels.Type.Shape})
	}
	weight = op.Where(valid, weight, number(0, weight))
	y := op.Where(valid, op.Mul(op.Neg(picked), weight), number(0, weight))
	var axes []int
	for i := range y.Type.Rank() {
		axes = append(axes, i)
	}
	switch r := n.str("reduction", "mean"); r {
	case "none":
		return y
	case "sum":
		return op.ReduceSum(y, false, axes...)
	case "mean":
		return op.Div(op.ReduceSum(y, false, axes...), op.ReduceSum(weight, false, axes...))
	default:
		n.fail("reduction is %q; allowed are none, sum and mean", r)
		return nil
	}
}

// col2im adds the columns of patches to an image: a scatter to the positions of their elements.
func col2im(n *node) []*value {
	x := n.x(0) // [N, C*taps, L]
	image, block := n.ints(1), n.ints(2)
	k := len(block)
	if len(image) != k || k < 1 {
		n.fail("has an image of %d axes and a block of %d; want as many, 1 or more", len(image), k)
	}
	stride, dilation := n.spatial("strides", k, 1), n.spatial("dilations", k, 1)
	before, after := n.pads(k)
	s := x.Type.Shape
	taps := int64(1)
	padded := ir.Shape{}
	outs := make([]int, k)
	for i := range k {
		taps *= int64(block[i])
		size := image[i] + before[i] + after[i]
		padded = append(padded, ir.Static(int64(size)))
		outs[i] = (size-dilation[i]*(block[i]-1)-1)/stride[i] + 1
	}
	c, ok := s[1].FloorDiv(taps)
	if !ok || !c.IsStatic() {
		n.fail("input is %v; want a number of channels that is known", x.Type)
	}
	shape := make(ir.Shape, 2*k) // taps, then outputs
	for i := range k {
		shape[i], shape[k+i] = ir.Static(int64(block[i])), ir.Static(int64(outs[i]))
	}
	var at *ir.Node
	for i := range k {
		p := op.Add(op.Mul(n.along(shape, i), number(float64(dilation[i]), n.along(shape, i))),
			op.Mul(n.along(shape, k+i), number(float64(stride[i]), n.along(shape, i))))
		p = op.Mul(p, number(float64(n.product(padded[i+1:]).Const), p))
		if at == nil {
			at = p
		} else {
			at = op.Add(at, p)
		}
	}
	at = n.flat(op.Expand(at, shape)) // [taps*L]
	planes := n.product(ir.Shape{s[0], c})
	rows := op.Transpose(op.Reshape(x, ir.Shape{planes, at.Type.Shape[0]}), 1, 0)
	zero := op.Const(n.b.g, 0, ir.Type{DType: x.Type.DType, Shape: ir.Shape{n.product(padded), planes}})
	y := op.Transpose(op.Scatter(zero, at, rows, "add"), 1, 0)
	y = op.Reshape(y, append(ir.Shape{s[0], c}, padded...))
	for i := range k {
		if before[i]+after[i] > 0 {
			y = op.Narrow(y, i+2, before[i], image[i])
		}
	}
	return one(y)
}
