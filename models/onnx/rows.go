package onnx

import (
	"math"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// This file converts nodes that work along a partial axis (see bound), or that make one. For example, a sum adds zeros
// for the unused rows, and a maximum reads the last used row several times.
//
// A node such as an addition may read a partial axis and one of known size. ONNX allows that only if the sizes are
// equal, so the result has the known size. If the data give another number of rows, the run fails: the program then
// reads a row at -1.

// rowReductions has the reductions, with what they read in place of unused rows. NaN stands for the last used row.
var rowReductions = map[string]float64{
	"ReduceSum": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0, "ReduceLogSum": 0, "ReduceMean": 0,
	"ReduceProd": 1, "ReduceMax": math.Inf(-1), "ReduceMin": math.Inf(1), "ReduceLogSumExp": math.Inf(-1),
	"ArgMax": math.NaN(), "ArgMin": math.NaN(),
}

// alongRows returns the results of such a node, with their bounds in n.bounded. It returns nil for other nodes. It may
// have changed their inputs to values whose rows are all used.
func (n *node) alongRows() []*value {
	if canonical(n.p.GetDomain()) != "" {
		return nil
	}
	var bounded []int
	for i, v := range n.in {
		if v != nil && v.bound != nil {
			bounded = append(bounded, i)
		}
	}
	switch name := n.p.GetOpType(); {
	case name == "Slice":
		return n.sliceRows()
	case name == "Split":
		return n.splitRows()
	case name == "Range":
		return n.rangeRows()
	case len(bounded) == 0:
	case name == "Concat":
		return n.concatRows()
	case name == "Expand" && bounded[0] == 0:
		n.expandRows()
	case name == "Gather":
		return n.gatherRows()
	case name == "GatherND" && n.in[1].bound != nil:
		n.clearIndices()
	case name == "NonZero":
		n.in[0] = n.masked(0, 0)
	case name == "MatMul":
		n.contractRows()
	case name == "Softmax", name == "LogSoftmax":
		return n.softmaxRows()
	case name == "CumSum" && n.in[0].bound != nil:
		return n.cumsumRows()
	case strings.HasPrefix(name, "Reduce"), strings.HasPrefix(name, "Arg"):
		return n.reduceRows()
	default:
		n.alignRows(name, bounded)
	}
	return nil
}

// rowsUsed returns how many rows of input i are used on an axis, i64[]: all, unless their number depends on the data.
func (n *node) rowsUsed(i, axis int) *ir.Node {
	if b := n.in[i].bound; b != nil && b.axis == axis {
		return op.Reshape(cast(b.count, dtype.I64), ir.Shape{})
	}
	return n.sizeNode(n.typeOf(i).Shape[axis], dtype.I64)
}

// positionsUpTo returns the numbers from 0 to size-1.
func (n *node) positionsUpTo(size ir.Dim) *ir.Node {
	return op.Iota(n.b.g, 0, ir.Type{DType: dtype.I64, Shape: ir.Shape{size}})
}

// settledAs returns x as a value whose rows are all used.
func settledAs(x *ir.Node, of *value) *value {
	return &value{name: of.name, typ: x.Type, node: x, narrow: of.narrow}
}

// masked returns input i with a number in place of unused rows.
func (n *node) masked(i int, fill float64) *value {
	v := n.in[i]
	x, b := n.x(i), v.bound
	used := op.Lt(n.along(x.Type.Shape, b.axis), op.Reshape(cast(b.count, dtype.I64), ir.Shape{}))
	return settledAs(op.Where(used, x, number(fill, x)), v)
}

// repeated returns input i with the last used row in place of unused ones.
func (n *node) repeated(i int) *value {
	v := n.in[i]
	x, axis := n.x(i), v.bound.axis
	last := op.Sub(n.rowsUsed(i, axis), op.Const(n.b.g, 1, ir.TypeOf(dtype.I64)))
	at := op.Min(n.positionsUpTo(x.Type.Shape[axis]), op.Max(last, number(0, last)))
	return settledAs(op.Gather(x, at, axis), v)
}

// settled returns input i with size rows on its partial axis: the used rows, or copies of the only one. The run fails
// for any other number of used rows.
func (n *node) settled(i int, size ir.Dim) *value {
	v := n.in[i]
	x, axis := n.x(i), v.bound.axis
	used := n.rowsUsed(i, axis)
	return settledAs(op.Gather(x, n.matching(n.positionsUpTo(size), used, n.sizeNode(size, dtype.I64)), axis), v)
}

// matching returns the positions from which want rows are read if used rows exist: at if the numbers are equal, 0 if a
// single row is repeated, and otherwise -1, which no gather accepts.
func (n *node) matching(at, used, want *ir.Node) *ir.Node {
	otherwise := op.Where(op.Eq(used, number(1, used)), number(0, at), number(-1, at))
	return op.Where(op.Eq(used, want), at, otherwise)
}

// bind says how many rows of a result are used.
func (n *node) bind(result, axis int, count *ir.Node) {
	n.bounded = append(n.bounded, resultBound{result, bound{axis, count}})
}

// expandRows settles the rows of Expand to a size that is known.
func (n *node) expandRows() {
	b := n.in[0].bound
	if n.late(1) && n.in[1].elems == nil {
		return
	}
	list, ok := n.in[1].list()
	at := len(list) - n.typeOf(0).Rank() + b.axis
	if !ok || at < 0 || list[at].rows != nil || list[at].den != 1 || list[at].num.Is(1) {
		return
	}
	n.in[0] = n.settled(0, list[at].num)
}

// gatherRows is Gather along a partial axis. It also makes unused indices 0.
func (n *node) gatherRows() []*value {
	table, idx := n.in[0].bound, n.in[1].bound
	rank := n.typeOf(0).Rank()
	axis := n.axis(n.int("axis", 0), rank)
	if idx != nil {
		n.clearIndices()
	}
	if table == nil || table.axis != axis {
		return nil
	}
	at := cast(n.x(1), dtype.I64)
	used := n.rowsUsed(0, axis)
	at = op.Where(op.Lt(at, number(0, at)), op.Add(at, used), at)
	if idx != nil {
		n.bind(0, axis+idx.axis, idx.count)
	}
	return one(op.Gather(n.x(0), at, axis))
}

// clearIndices makes the indices 0 that are not used, so that they are in the range that a gather takes.
func (n *node) clearIndices() {
	b := n.in[1].bound
	n.in[1] = n.masked(1, 0)
	n.in[1].bound = b
}

// contractRows gives MatMul zeros for unused rows on the axis along which it adds.
func (n *node) contractRows() {
	axes := [2]int{n.typeOf(0).Rank() - 1, max(n.typeOf(1).Rank()-2, 0)}
	along := func(i int) bool { return n.in[i].bound != nil && n.in[i].bound.axis == axes[i] }
	for i := range 2 {
		switch other := n.typeOf(1 - i).Shape[axes[1-i]]; {
		case !along(i):
		case !along(1 - i):
			n.in[i] = n.settled(i, other)
		case n.in[i].bound.count == n.in[1-i].bound.count:
			n.in[0], n.in[1] = n.masked(0, 0), n.masked(1, 0)
		}
	}
}

// softmaxRows is Softmax along a partial axis: unused rows have no weight.
func (n *node) softmaxRows() []*value {
	b, rank := n.in[0].bound, n.typeOf(0).Rank()
	axis := n.axis(n.int("axis", map[bool]int64{true: -1, false: 1}[n.version >= 13]), rank)
	if b.axis != axis || n.version < 13 && axis != rank-1 {
		return nil
	}
	n.in[0] = n.masked(0, math.Inf(-1))
	n.bind(0, axis, b.count)
	return n.results()
}

// cumsumRows is CumSum of a value with a partial axis.
func (n *node) cumsumRows() []*value {
	b := n.in[0].bound
	n.in[0] = n.masked(0, 0)
	n.bind(0, b.axis, b.count)
	return n.results()
}

// reduceRows is a reduction over a partial axis, or ArgMax or ArgMin along it.
func (n *node) reduceRows() []*value {
	name := n.p.GetOpType()
	fill, ok := rowReductions[name]
	if !ok || n.in[0].bound == nil {
		return nil
	}
	b, t := *n.in[0].bound, n.typeOf(0)
	arg := strings.HasPrefix(name, "Arg")
	axes := []int{n.axis(n.int("axis", 0), t.Rank())}
	if !arg {
		if axes, ok = n.axesOf(1, t.Rank()); !ok || len(axes) == 0 {
			if n.int("noop_with_empty_axes", 0) != 0 {
				return nil
			}
			axes = nil
			for i := range t.Rank() {
				axes = append(axes, i)
			}
		}
	}
	along := false
	for _, a := range axes {
		along = along || a == b.axis
	}
	switch {
	case !along || arg && n.int("select_last_index", 0) != 0:
		return nil
	case name == "ReduceMean":
		return n.meanOfRows(axes)
	case arg || math.IsInf(fill, 0) && !t.DType.IsFloat():
		n.in[0] = n.repeated(0)
	default:
		n.in[0] = n.masked(0, fill)
	}
	return n.results()
}

// meanOfRows divides the sum of the used rows by their number.
func (n *node) meanOfRows(axes []int) []*value {
	x, axis := n.x(0), n.in[0].bound.axis
	count := n.rowsUsed(0, axis)
	for _, a := range axes {
		if a != axis {
			count = op.Mul(count, n.sizeNode(x.Type.Shape[a], dtype.I64))
		}
	}
	wide := dtype.F32
	if x.Type.DType == dtype.F64 {
		wide = dtype.F64
	}
	sum := op.ReduceSum(cast(n.b.at(n.masked(0, 0)), wide), n.int("keepdims", 1) != 0, axes...)
	return one(cast(op.Div(sum, cast(count, wide)), x.Type.DType))
}

// alignRows settles the rows of elementwise nodes and of updates where another input has a known size. If several
// inputs have partial axes with different counts, the counts must be equal or 1 in each run.
func (n *node) alignRows(name string, inputs []int) {
	if i := 2; (name == "ScatterND" || name == "ScatterElements") && inputs[0] == i {
		if axis := n.in[i].bound.axis; axis < n.typeOf(1).Rank() {
			n.in[i] = n.settled(i, n.typeOf(1).Shape[axis])
		}
		return
	}
	fromEnd := n.in[inputs[0]].bound.axis - n.typeOf(inputs[0]).Rank()
	if !isElementwise(name) || n.sameRows(fromEnd) {
		return
	}
	var known *ir.Dim
	rows := n.typeOf(inputs[0]).Shape[n.in[inputs[0]].bound.axis]
	for i, v := range n.in {
		if v == nil {
			continue
		}
		s := n.typeOf(i).Shape
		switch at := len(s) + fromEnd; {
		case v.bound != nil && (v.bound.axis != at || s[at] != rows):
			return
		case v.bound == nil && at >= 0 && !s[at].Is(1):
			known = &s[at]
		}
	}
	if known != nil {
		for _, i := range inputs {
			n.in[i] = n.settled(i, *known)
		}
		return
	}
	first := n.in[inputs[0]].bound.axis
	count := n.rowsUsed(inputs[0], first)
	for _, i := range inputs[1:] {
		count = op.Where(op.Eq(count, number(1, count)), n.rowsUsed(i, n.in[i].bound.axis), count)
	}
	for _, i := range inputs {
		axis := n.in[i].bound.axis
		at := n.matching(n.positionsUpTo(rows), n.rowsUsed(i, axis), count)
		n.in[i] = settledAs(op.Gather(n.x(i), at, axis), n.in[i])
		n.in[i].bound = &bound{axis, count}
	}
}
