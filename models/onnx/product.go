package onnx

import (
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// The ranks of inputs.
var (
	_ = ranks("1+ 1+", "MatMul")
	_ = ranks("2 2 0-2", "Gemm")
)

var (
	_ = on("MatMul", 1, func(n *node) []*value { return one(n.matmul(n.x(0), n.x(1))) })
	_ = on("Gemm", 1, func(n *node) []*value {
		a, b := n.x(0), n.x(1)
		d := a.Type.DType
		if !d.IsFloat() {
			a, b = op.Cast(a, dtype.F64), op.Cast(b, dtype.F64)
		}
		y := op.MatMul(a, b, op.MatMulAttrs{TransA: n.int("transA", 0) != 0, TransB: n.int("transB", 0) != 0})
		if alpha := n.float("alpha", 1); alpha != 1 {
			y = op.Mul(y, number(alpha, y))
		}
		if n.has(2) && n.float("beta", 1) != 0 {
			c := cast(n.x(2), y.Type.DType)
			if beta := n.float("beta", 1); beta != 1 {
				c = op.Mul(c, number(beta, c))
			}
			y = op.Add(y, c)
		}
		return one(cast(y, d))
	})
	_ = on("Einsum", 12, einsum)
)

// matmul multiplies as NumPy does: a vector on the left is a row, on the right a column.
func (n *node) matmul(a, b *ir.Node) *ir.Node {
	d := a.Type.DType
	if !d.IsFloat() { // exact below 2^53
		a, b = op.Cast(a, dtype.F64), op.Cast(b, dtype.F64)
	}
	left, right := a.Type.Rank() == 1, b.Type.Rank() == 1
	if left {
		a = op.Reshape(a, ir.Shape{ir.Static(1), a.Type.Shape[0]})
	}
	if right {
		b = op.Reshape(b, ir.Shape{b.Type.Shape[0], ir.Static(1)})
	}
	y := op.MatMul(a, b, op.MatMulAttrs{})
	s := append(ir.Shape{}, y.Type.Shape...)
	if right {
		s = s[:len(s)-1]
	}
	if left {
		at := len(s) - 1
		if !right {
			at = len(s) - 2
		}
		s = slices.Delete(s, at, at+1)
	}
	return cast(op.Reshape(y, s), d)
}

// einsum is Einsum: factors are multiplied one after the other, and an index is summed once no later factor has it.
func einsum(n *node) []*value {
	eq := strings.ReplaceAll(n.str("equation", ""), " ", "")
	left, result, explicit := strings.Cut(eq, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(n.in) {
		n.fail("equation %q has %d terms; the node has %d inputs", eq, len(terms), len(n.in))
	}
	e := einsumState{n}
	var labels [][]rune
	dots := 0
	for i, t := range terms {
		if strings.Contains(t, "...") {
			dots = max(dots, n.typeOf(i).Rank()-len(strings.Replace(t, "...", "", 1)))
		}
	}
	for i, t := range terms {
		l := e.labels(t, n.typeOf(i).Rank(), dots)
		labels = append(labels, l)
	}
	var out []rune
	if explicit {
		out = e.labels(result, -1, dots)
	} else {
		count := map[rune]int{}
		for _, l := range labels {
			for _, r := range l {
				count[r]++
			}
		}
		for i := range dots {
			out = append(out, rune(1+i))
		}
		var once []rune
		for r, c := range count {
			if c == 1 && r > 64 {
				once = append(once, r)
			}
		}
		slices.Sort(once)
		out = append(out, once...)
	}
	// after returns whether an index is needed after the first factors.
	after := func(factors int) func(r rune) bool {
		return func(r rune) bool {
			return slices.Contains(out, r) ||
				slices.ContainsFunc(labels[factors:], func(l []rune) bool { return slices.Contains(l, r) })
		}
	}
	x, lx := e.diagonal(n.x(0), labels[0])
	for i := 1; i < len(terms); i++ {
		y, ly := e.diagonal(n.x(i), labels[i])
		x, lx = e.multiply(x, lx, y, ly, after(i+1))
	}
	x, lx = e.reduce(x, lx, after(len(terms)))
	var perm []int
	for _, r := range out {
		k := slices.Index(lx, r)
		if k < 0 {
			n.fail("equation %q has %q in its result only", eq, string(r))
		}
		perm = append(perm, k)
	}
	if len(perm) > 1 {
		x = op.Transpose(x, perm...)
	}
	return one(x)
}

type einsumState struct{ n *node }

// labels returns the indices of a term. Those of the dots are 1, 2, ...
func (e einsumState) labels(term string, rank, dots int) []rune {
	before, after, has := strings.Cut(term, "...")
	out := []rune(before)
	if has {
		k := dots
		if rank >= 0 {
			k = rank - len(before) - len(after)
		}
		for i := range k {
			out = append(out, rune(1+dots-k+i))
		}
		out = append(out, []rune(after)...)
	}
	if rank >= 0 && len(out) != rank {
		e.n.fail("term %q has %d indices; its input has rank %d", term, len(out), rank)
	}
	return out
}

// diagonal takes elements of equal positions on axes with the same index.
func (e einsumState) diagonal(x *ir.Node, l []rune) (*ir.Node, []rune) {
	l = slices.Clone(l)
	for i := 0; i < len(l); i++ {
		for j := i + 1; j < len(l); j++ {
			if l[i] != l[j] {
				continue
			}
			t := ir.Type{DType: dtype.I32, Shape: make(ir.Shape, len(l))}
			for k := range t.Shape {
				t.Shape[k] = ir.Static(1)
			}
			ti, tj := ir.Type{DType: t.DType, Shape: slices.Clone(t.Shape)},
				ir.Type{DType: t.DType, Shape: slices.Clone(t.Shape)}
			ti.Shape[i], tj.Shape[j] = x.Type.Shape[i], x.Type.Shape[j]
			on := op.Eq(op.Iota(x.Graph, i, ti), op.Iota(x.Graph, j, tj))
			x = op.ReduceSum(op.Where(on, x, number(0, x)), false, j)
			l = slices.Delete(l, j, j+1)
			j--
		}
	}
	return x, l
}

// reduce sums the axes that are not needed.
func (e einsumState) reduce(x *ir.Node, l []rune, needed func(rune) bool) (*ir.Node, []rune) {
	var axes []int
	var left []rune
	for i, r := range l {
		if needed(r) {
			left = append(left, r)
		} else {
			axes = append(axes, i)
		}
	}
	if len(axes) == 0 {
		return x, l
	}
	return op.ReduceSum(x, false, axes...), left
}

// multiply multiplies two factors. Indices of both that are needed later are batches; others of both are summed.
func (e einsumState) multiply(x *ir.Node, lx []rune, y *ir.Node, ly []rune, needed func(rune) bool) (*ir.Node, []rune) {
	x, lx = e.reduce(x, lx, func(r rune) bool { return needed(r) || slices.Contains(ly, r) })
	y, ly = e.reduce(y, ly, func(r rune) bool { return needed(r) || slices.Contains(lx, r) })
	var a op.DotGeneralAttrs
	var out []rune
	broadcasts := false
	for i, r := range lx {
		j := slices.Index(ly, r)
		if j < 0 {
			continue
		}
		if x.Type.Shape[i] != y.Type.Shape[j] {
			broadcasts = true
		}
		if needed(r) {
			a.ABatch, a.BBatch = append(a.ABatch, i), append(a.BBatch, j)
			out = append(out, r)
		} else {
			a.AContract, a.BContract = append(a.AContract, i), append(a.BContract, j)
		}
	}
	if broadcasts || !x.Type.DType.IsFloat() {
		return e.multiplyWide(x, lx, y, ly, needed)
	}
	for i, r := range lx {
		if !slices.Contains(a.ABatch, i) && !slices.Contains(a.AContract, i) {
			out = append(out, r)
		}
	}
	for j, r := range ly {
		if !slices.Contains(a.BBatch, j) && !slices.Contains(a.BContract, j) {
			out = append(out, r)
		}
	}
	return op.DotGeneral(x, y, a), out
}

// multiplyWide multiplies elements and sums afterwards, for factors whose axes of size 1 broadcast, and for integers.
func (e einsumState) multiplyWide(x *ir.Node, lx []rune, y *ir.Node, ly []rune, needed func(rune) bool) (
	*ir.Node, []rune) {
	all := slices.Clone(lx)
	for _, r := range ly {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	align := func(v *ir.Node, l []rune) *ir.Node {
		var perm []int
		shape := make(ir.Shape, len(all))
		for i, r := range all {
			shape[i] = ir.Static(1)
			if k := slices.Index(l, r); k >= 0 {
				perm = append(perm, k)
				shape[i] = v.Type.Shape[k]
			}
		}
		if len(perm) > 1 {
			v = op.Transpose(v, perm...)
		}
		return op.Reshape(v, shape)
	}
	return e.reduce(op.Mul(align(x, lx), align(y, ly)), all, needed)
}
