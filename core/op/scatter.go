package op

import (
	"fmt"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// ScatterAttrs are the attributes of scatter.
type ScatterAttrs struct {
	Reduce string `attr:"reduce"` // "none" or empty, "add", "mul", "max" or "min"
}

// ScatterDef changes the rows of a tensor that indices select.
var ScatterDef = ir.Define(ir.Def[ScatterAttrs]{
	Name: "scatter",
	Doc: "x [m, ...] with rows replaced by those of updates [n, ...]: row i of updates becomes row idx[i], in " +
		"the order of i, so that of several rows the last one stays. idx is [n] (i32, i64 or u32). With " +
		"reduce add, mul, max or min the row is instead combined with the row that is there, in the same " +
		"order; integers wrap, and NaN propagates. An index outside 0 to m-1 is a run error. With indices " +
		"into a flat tensor it is ONNX's ScatterND and ScatterElements.",
	Operands: "x, idx, updates", InPlace: []int{0},
	Checked: []ir.Checked{{Operand: 1, Safe: 0}},
	Infer: func(s ir.Sig[ScatterAttrs]) (ir.Type, error) {
		x, idx, u := s.In[0], s.In[1], s.In[2]
		if err := isIndex("index", idx); err != nil {
			return ir.Type{}, err
		}
		combine, ok := scatterRules[s.Attrs.Reduce]
		if !ok {
			return ir.Type{}, fmt.Errorf("reduce is %q; allowed are none, add, mul, max and min", s.Attrs.Reduce)
		}
		if combine.float != nil && x.DType == dtype.Bool {
			return ir.Type{}, fmt.Errorf("reduce is %s of %v; bools have none", s.Attrs.Reduce, x)
		}
		if x.Rank() == 0 || u.Rank() != x.Rank() || u.DType != x.DType || idx.Rank() != 1 {
			return ir.Type{},
				fmt.Errorf("x is %v, index %v and updates %v; want [m, ...], [n] and [n, ...] of x's element type", x,
					idx, u)
		}
		if idx.Shape[0] != u.Shape[0] {
			return ir.Type{},
				ir.Differ(idx.Shape[0], u.Shape[0], "updates are %v and index %v; want an index for each row", u, idx)
		}
		for i, d := range x.Shape[1:] {
			if e := u.Shape[i+1]; d != e {
				return ir.Type{}, ir.Differ(d, e, "x is %v and updates %v; want equal sizes but on axis 0", x, u)
			}
		}
		return x, nil
	},
	Eval: func(a ScatterAttrs, in []*tensor.Array, out *tensor.Array) error {
		x, u, inner, m := in[0], in[2], tensor.Numel(out.Shape[1:]), out.Shape[0]
		copy(out.Floats, x.Floats)
		copy(out.Ints, x.Ints)
		combine := scatterRules[a.Reduce]
		for i, row := range in[1].Ints {
			if row < 0 || row >= int64(m) {
				return fmt.Errorf("index %d at position %d is out of range 0 to %d", row, i, m-1)
			}
			for k := range inner {
				at, from := int(row)*inner+k, i*inner+k
				switch {
				case out.Floats != nil && combine.float != nil:
					out.Floats[at] = combine.float(out.Floats[at], u.Floats[from])
				case out.Floats != nil:
					out.Floats[at] = u.Floats[from]
				case combine.integer != nil:
					out.Ints[at] = combine.integer(out.Ints[at], u.Ints[from])
				default:
					out.Ints[at] = u.Ints[from]
				}
			}
		}
		return nil
	},
	FLOPs: func(_ ScatterAttrs, in []ir.Type, _ ir.Type) int64 { return numel(in[2]) },
	Tol: func(a ScatterAttrs, in []ir.Type, out ir.Type) ir.Tolerance {
		if a.Reduce == "add" || a.Reduce == "mul" {
			return summed(out.DType, in[1].Shape[0].Const)
		}
		return ir.Tolerance{}
	},
	Cases: scatterCases,
})

// scatterRules maps each value of reduce to the functions of the old value and the update; nil replaces the old value.
var scatterRules = map[string]struct {
	float   func(x, u float64) float64
	integer func(x, u int64) int64
}{
	"": {}, "none": {},
	"add": {func(x, u float64) float64 { return x + u }, func(x, u int64) int64 { return x + u }},
	"mul": {func(x, u float64) float64 { return x * u }, func(x, u int64) int64 { return x * u }},
	"max": {math.Max, func(x, u int64) int64 { return max(x, u) }},
	"min": {math.Min, func(x, u int64) int64 { return min(x, u) }},
}

func scatterCases() []ir.Case[ScatterAttrs] {
	c := func(x, idx, u ir.Type, reduce string) ir.Case[ScatterAttrs] {
		fill := ir.Range{Lo: -2, Hi: 2}
		if !x.DType.IsFloat() {
			fill = ir.Range{Lo: 0, Hi: 1}
		}
		return ir.Case[ScatterAttrs]{Attrs: ScatterAttrs{reduce}, In: []ir.Type{x, idx, u},
			Fill: []ir.Range{fill, {Lo: 0, Hi: float64(x.Shape[0].Const - 1)}, fill}}
	}
	cases := []ir.Case[ScatterAttrs]{
		c(f32(3), i32(7), f32(7), ""), c(f32(3), i64(2), f32(2), "add"), c(f32(4, 3), i32(0), f32(0, 3), "none"),
		c(f32(4, 3), u32(9), f32(9, 3), "mul"), c(f32(6, 5, 3), i64(7), f32(7, 5, 3), "max"),
		c(f32(40, 65), i32(33), f32(33, 65), "min"), c(f32(2, 0), i32(5), f32(5, 0), "add"),
	}
	for _, d := range dtype.All() {
		reduce := "add"
		if d == dtype.Bool {
			reduce = "none"
		}
		cases = append(cases, c(ir.TypeOf(d, 4, 3), i32(6), ir.TypeOf(d, 6, 3), reduce))
	}
	return cases
}

// Scatter returns x with the rows that idx selects replaced by those of updates, or combined with them.
func Scatter(x, idx, updates *ir.Node, reduce string) *ir.Node {
	return x.Graph.Add(ScatterDef, ScatterAttrs{reduce}, x, idx, updates)
}

// Targets without a kernel compare every row with every index.
var _ = ir.Lower(ScatterDef, func(g *ir.Graph, n *ir.Node, in []*ir.Node) *ir.Node {
	x, idx, u := in[0], Cast(in[1], dtype.I32), in[2]
	rows, count := x.Type.Shape[0], u.Type.Shape[0]
	if count.Is(0) {
		return Copy(x)
	}
	reduce := n.Attrs.(ScatterAttrs).Reduce
	if reduce == "add" {
		return Add(x, ScatterAdd(u, in[1], rows))
	}
	row := Iota(g, 0, ir.Type{DType: dtype.I32, Shape: ir.Shape{rows, ir.Static(1)}})
	hit := Eq(row, Reshape(idx, ir.Shape{ir.Static(1), count})) // [m,n]
	// scatter_add counts the updates of each row, and refuses indices that are out of range.
	one := Const(g, 1, ir.Type{DType: dtype.I32, Shape: ir.Shape{count}})
	updates := ScatterAdd(one, in[1], rows)
	wide := ir.Shape{rows}
	for range x.Type.Rank() - 1 {
		wide = append(wide, ir.Static(1))
	}
	updated := Reshape(Gt(updates, number(0, updates)), wide)
	if combine := scatterRules[reduce]; combine.float == nil {
		i := Iota(g, 1, ir.Type{DType: dtype.I32, Shape: ir.Shape{ir.Static(1), count}})
		last := ReduceMax(Where(hit, i, number(-1, i)), false, 1) // the last update of each row
		return Where(updated, Gather(u, Max(last, number(0, last)), 0), x)
	}
	mask, all := ir.Shape{rows, count}, append(ir.Shape{ir.Static(1)}, u.Type.Shape...)
	for range x.Type.Rank() - 1 {
		mask = append(mask, ir.Static(1))
	}
	hit, u = Reshape(hit, mask), Reshape(u, all)
	switch reduce {
	case "mul":
		return Where(updated, Mul(x, ReduceProd(Where(hit, u, number(1, u)), false, 1)), x)
	case "max":
		return Where(updated, Max(x, ReduceMax(Where(hit, u, number(lowest(u.Type.DType), u)), false, 1)), x)
	}
	return Where(updated, Min(x, ReduceMin(Where(hit, u, number(highest(u.Type.DType), u)), false, 1)), x)
})

// lowest and highest return the limits of a number type.
func lowest(d dtype.DType) float64 {
	if d.IsFloat() {
		return math.Inf(-1)
	}
	lo, _ := d.IntRange()
	return float64(lo)
}

func highest(d dtype.DType) float64 {
	if d.IsFloat() {
		return math.Inf(1)
	}
	_, hi := d.IntRange()
	return float64(hi)
}
