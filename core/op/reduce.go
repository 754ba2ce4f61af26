package op

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ReduceAttrs are the attributes of all reductions.
type ReduceAttrs struct {
	Axes     []int `attr:"axes"`      // ascending; without axes nothing is reduced
	KeepDims bool  `attr:"keep_dims"` // reduced axes stay with size 1
}

// infer returns the type of x without the reduced axes.
func (a ReduceAttrs) infer(x ir.Type) (ir.Type, error) {
	if err := checkAxes(a.Axes, x.Rank()); err != nil {
		return ir.Type{}, err
	}
	out := ir.Shape{}
	for i, d := range x.Shape {
		switch {
		case !slices.Contains(a.Axes, i):
			out = append(out, d)
		case a.KeepDims:
			out = append(out, ir.Static(1))
		}
	}
	return ir.Type{DType: x.DType, Shape: out}, nil
}

// places returns strides for a walk over x: for each element of x they give the position of the element of the result
// that it is combined into.
func (a ReduceAttrs) places(x *tensor.Array) [][]int {
	kept := slices.Clone(x.Shape) // the result's shape with keep_dims
	for _, axis := range a.Axes {
		kept[axis] = 1
	}
	return [][]int{strides(kept, x.Shape)}
}

// reduction describes how a reduction or a scan combines elements.
type reduction struct {
	name, doc string
	tol       func(a ReduceAttrs, in []ir.Type, out ir.Type) ir.Tolerance
	float     func(acc, x float64) float64
	start     float64
	integer   func(acc, x int64) int64 // nil if only floats are allowed
	startInt  func(dtype.DType) int64
	mean      bool // divide by the number of elements
	bools     bool // only bools are allowed
	fill      []ir.Range

	scanTol func(a ScanAttrs, in []ir.Type, out ir.Type) ir.Tolerance // replaces tol for a scan
}

// nearOne is a range in which products of many elements stay near 1.
var nearOne = []ir.Range{{Lo: 0.9, Hi: 1.1}}

// reductions has the reductions by kind, the name of the op without "reduce_". Pooling uses them, too.
var reductions = map[string]reduction{}

// findReduction returns the reduction of a kind, if it accepts elements of x's type.
func findReduction(kind string, x ir.Type) (reduction, error) {
	r, ok := reductions[kind]
	if !ok {
		return r,
			fmt.Errorf("kind is %q; want one of %s", kind, strings.Join(slices.Sorted(maps.Keys(reductions)), ", "))
	}
	return r, r.checkType(x)
}

// checkType checks that a reduction accepts elements of x's type.
func (r reduction) checkType(x ir.Type) error {
	if d := x.DType; r.bools && d != dtype.Bool {
		return fmt.Errorf("x is %v; want bool", x)
	} else if !r.bools && d == dtype.Bool || r.integer == nil && !d.IsFloat() {
		return fmt.Errorf("x is %v; want a number type that the op takes", x)
	}
	return nil
}

// begin sets all elements to the initial value of a fold.
func (r reduction) begin(out *tensor.Array) {
	for i := range out.Ints {
		out.Ints[i] = r.startInt(out.DType)
	}
	for i := range out.Floats {
		out.Floats[i] = r.start
	}
}

// fold adds element j of in to element i of out.
func (r reduction) fold(out *tensor.Array, i int, in *tensor.Array, j int) {
	if out.Floats != nil {
		out.Floats[i] = r.float(out.Floats[i], in.Floats[j])
	} else {
		out.Ints[i] = r.integer(out.Ints[i], in.Ints[j])
	}
}

func reduce(r reduction) *ir.OpDef {
	reductions[strings.TrimPrefix(r.name, "reduce_")] = r
	return ir.Define(ir.Def[ReduceAttrs]{
		Name: r.name, Doc: r.doc, Operands: "x",
		Infer: func(s ir.Sig[ReduceAttrs]) (ir.Type, error) {
			x := s.In[0]
			if err := r.checkType(x); err != nil {
				return ir.Type{}, err
			}
			return s.Attrs.infer(x)
		},
		Eval: func(a ReduceAttrs, in []*tensor.Array, out *tensor.Array) error {
			x, to := in[0], a.places(in[0])
			r.begin(out)
			if out.Floats != nil {
				tensor.Walk(x.Shape, to, func(i int, p []int) {
					out.Floats[p[0]] = r.float(out.Floats[p[0]], x.Floats[i])
				})
			} else {
				tensor.Walk(x.Shape, to, func(i int, p []int) { r.fold(out, p[0], x, i) })
			}
			if r.mean {
				count := 1
				for _, axis := range a.Axes {
					count *= x.Shape[axis]
				}
				for i := range out.Floats {
					out.Floats[i] /= float64(count)
				}
			}
			return nil
		},
		FLOPs: func(_ ReduceAttrs, in []ir.Type, _ ir.Type) int64 { return numel(in[0]) },
		Tol:   r.tol,
		Cases: func() []ir.Case[ReduceAttrs] {
			c := func(t ir.Type, keep bool, axes ...int) ir.Case[ReduceAttrs] {
				return ir.Case[ReduceAttrs]{Attrs: ReduceAttrs{axes, keep}, In: []ir.Type{t}, Fill: r.fill}
			}
			if r.bools {
				return []ir.Case[ReduceAttrs]{
					c(bools(), false), c(bools(7), true, 0), c(bools(3, 5), false, 1), c(bools(3, 5), false, 0),
					c(bools(2, 3, 4), false, 0, 2),
					c(bools(3, 2), false, 1), c(bools(70, 3), false, 0), c(bools(3, 0), false, 1),
					c(bools(0, 3), false, 1), c(bools(5, 300), true, 1), c(bools(2, 9000), false, 1),
				}
			}
			cases := []ir.Case[ReduceAttrs]{
				c(f32(), false), c(f32(7), false, 0), c(f32(7), true, 0), c(f32(3, 5), false), c(f32(3, 5), false, 0),
				c(f32(3, 5), true, 1),
				c(f32(3, 5), false, 0, 1), c(f32(2, 3, 4), false, 0, 2), c(f32(2, 3, 4), true, 1),
				c(f32(2, 3, 4, 5), false, 1, 2),
				c(f32(3, 0), false, 1), c(f32(0, 3), false, 1), c(f32(5, 300), false, 1), c(f32(2, 9000), false, 1),
				c(f32(9000, 3), false, 0), c(f16(2, 8200), false, 1), c(f16(300, 5), false, 0), c(f16(3, 9), false, 1),
				c(bf16(9, 3), false, 0), c(f64(3, 5), false, 1),
			}
			if r.integer != nil {
				cases = append(cases, c(i32(3, 5), false, 1), c(i64(4), false, 0), c(u8(3, 0), false, 1),
					c(u8(40, 9), false, 0), c(ir.TypeOf(dtype.I8, 3, 300), false, 1),
					c(ir.TypeOf(dtype.I16, 5, 3), true, 0), c(u32(2, 9000), false, 1))
			}
			return cases
		},
	})
}

// addReduce adds a reduction. Axes may be counted from the end and be in any order.
func addReduce(def *ir.OpDef, x *ir.Node, keepDims bool, axes []int) *ir.Node {
	return x.Graph.Add(def, ReduceAttrs{sortedAxes(axes, x), keepDims}, x)
}

// summedAxes returns the tolerance of a sum over the reduced axes.
func summedAxes(a ReduceAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
	k := int64(1)
	for _, axis := range a.Axes {
		k *= in[0].Shape[axis].Const
	}
	return summed(out.DType, k)
}

// plainReduce registers a plainer form of a reduction, which reduces one axis at a time, always the last one.
func plainReduce(def *ir.OpDef) struct{} {
	return ir.Plainer(def, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
		a, x := n.Attrs.(ReduceAttrs), in[0]
		if k := len(a.Axes) - 1; k > 0 {
			x = g.Add(def, ReduceAttrs{a.Axes[k:], a.KeepDims}, x)
			return g.Add(def, ReduceAttrs{a.Axes[:k], a.KeepDims}, x)
		}
		last := x.Type.Rank() - 1
		if len(a.Axes) == 0 || a.Axes[0] == last {
			return nil
		}
		perm := make([]int, 0, last+1)
		for i := range last + 1 {
			if i != a.Axes[0] {
				perm = append(perm, i)
			}
		}
		x = g.Add(def, ReduceAttrs{[]int{last}, a.KeepDims}, Transpose(x, append(perm, a.Axes[0])...))
		return Reshape(x, n.Type.Shape)
	})
}

var _ = []struct{}{plainReduce(ReduceSumDef), plainReduce(ReduceMeanDef), plainReduce(ReduceMaxDef),
	plainReduce(ReduceMinDef), plainReduce(ReduceProdDef),
	plainReduce(AnyDef), plainReduce(AllDef), plainReduce(LogSumExpDef)}

// kept returns the shape of a result with keep_dims for an operand of a shape.
func (a ReduceAttrs) kept(shape ir.Shape) ir.Shape {
	shape = slices.Clone(shape)
	for _, axis := range a.Axes {
		shape[axis] = ir.Static(1)
	}
	return shape
}

// spread repeats a result of the reduction along the reduced axes, to the shape of the operand.
func (a ReduceAttrs) spread(y *ir.Node, shape ir.Shape) *ir.Node {
	return broadcastTo(Reshape(y, a.kept(shape)), shape)
}

// count returns the number of elements of x that each result is computed from, in the element type of like.
func (a ReduceAttrs) count(x, like *ir.Node) *ir.Node {
	count, one := ir.Static(1), make(ir.Shape, x.Type.Rank())
	for i := range one {
		one[i] = ir.Static(1)
	}
	for _, axis := range a.Axes {
		one[axis] = x.Type.Shape[axis]
		count, _ = count.Mul(one[axis])
	}
	if one.IsStatic() {
		return number(float64(count.Const), like)
	}
	// The sizes are known only at run time, so count the elements.
	ones := ReduceSum(Expand(number(1, like), one), false, a.Axes...)
	return Reshape(ones, ir.Shape{})
}

// reduceExtremeGradient is the gradient of a maximum or minimum. Equal elements share it evenly, as in PyTorch's amax.
func reduceExtremeGradient(x, y *ir.Node, a ReduceAttrs, dy *ir.Node) *ir.Node {
	shape := x.Type.Shape
	picked := Eq(x, a.spread(y, shape))
	count := ReduceSum(Cast(picked, x.Type.DType), a.KeepDims, a.Axes...)
	return Where(picked, a.spread(Div(dy, count), shape), number(0, x))
}
