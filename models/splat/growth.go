package splat

import (
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/task"
)

// observe adds the values to a step that growing a scene needs. For each splat, these are the sum over the steps of the
// length of the gradient of the loss by its place in the image, whose sides are from -1 to 1, and the number of steps
// in which it had a gradient (Kerbl et al. 2023, section 5.2).
//
// In camera coordinates (x, y, z) a centre is shown at (x/z*focal, y/z*focal). So at a constant z, the gradient by the
// place is z/focal times the gradient by x and y.
func (s *scene) observe(g *ir.Graph, values, gradients map[string]*ir.Node) {
	var meta *ir.Node
	for _, n := range g.Inputs() {
		if n.Name == task.TrainMeta {
			meta = n
		}
	}
	number := func(v float64) *ir.Node { return op.Const(g, v, ir.TypeOf(dtype.F32)) }
	vector := func(at int) *ir.Node { return op.Narrow(meta, 0, at, 3) }
	unit := func(x *ir.Node) *ir.Node {
		return op.Div(x, op.Max(op.Sqrt(op.ReduceSum(op.Square(x), false, 0)), number(1e-8)))
	}
	turned := func(x *ir.Node, by int) *ir.Node {
		return op.Concat(0, op.Narrow(x, 0, by, 3-by), op.Narrow(x, 0, 0, by))
	}
	cross := func(a, b *ir.Node) *ir.Node {
		return op.Sub(op.Mul(turned(a, 1), turned(b, 2)), op.Mul(turned(a, 2), turned(b, 1)))
	}
	along := func(x, axis *ir.Node) *ir.Node { return op.ReduceSum(op.Mul(x, axis), true, 1) }

	position := vector(0)
	forward := unit(op.Sub(vector(3), position))
	right := unit(cross(vector(6), forward))
	up := cross(forward, right)
	half := op.Mul(op.Narrow(meta, 0, 9, 1), number(math.Pi/360))
	slope := op.Div(op.Sin(half), op.Cos(half)) // height/2 / focal
	depth := op.Mul(along(op.Sub(values[task.SplatPosition], position), forward), slope)

	by := gradients[task.SplatPosition]
	x := op.Mul(along(by, right), number(float64(s.width)/float64(s.height)))
	length := op.Abs(op.Mul(depth, op.Sqrt(op.Add(op.Square(x), op.Square(along(by, up))))))
	sums := op.State(g, task.TrainGrowth, ir.TypeOf(dtype.F32, s.n, 2), 0)
	op.KVAppend(sums, op.Add(sums, op.Concat(1, length, op.Sign(length))), op.Const(g, 0, ir.TypeOf(dtype.I32)), 0).
		Named(task.TrainGrowth + ".new")
}
