package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed reduce.wgsl
var reduceWGSL string

//go:embed reduce_place.wgsl
var reducePlaceWGSL string

//go:embed reduce_rows.wgsl
var reduceRowsWGSL string

// fold is how a reduction combines acc and v, and where it starts, by WGSL type.
type fold struct {
	expr map[string]string
	zero map[string]string
	mean bool
}

var (
	sums  = map[string]string{"f32": "acc + v", "i32": "acc + v", "u32": "acc + v"}
	zeros = map[string]string{"f32": "0.0", "i32": "0i", "u32": "0u"}
	folds = map[string]fold{
		"reduce_sum":  {expr: sums, zero: zeros},
		"reduce_mean": {expr: map[string]string{"f32": "acc + v"}, zero: zeros, mean: true},
		"reduce_prod": {expr: map[string]string{"f32": "acc * v", "i32": "acc * v", "u32": "acc * v"}, zero: map[string]string{"f32": "1.0", "i32": "1i", "u32": "1u"}},
		"reduce_max": {expr: map[string]string{"f32": "op_max(acc, v)", "i32": "max(acc, v)", "u32": "max(acc, v)"},
			zero: map[string]string{"f32": "-infinity()", "i32": "-2147483647i - 1i", "u32": "0u"}},
		"reduce_min": {expr: map[string]string{"f32": "op_min(acc, v)", "i32": "min(acc, v)", "u32": "min(acc, v)"},
			zero: map[string]string{"f32": "infinity()", "i32": "2147483647i", "u32": "0xffffffffu"}},
	}
)

// takes is the rule for the element types of a reduction.
func (f fold) takes() string {
	if f.expr["i32"] == "" {
		return "(" + floats + ")"
	}
	return "(" + floats + "|i32|u32)"
}

func init() {
	for name, f := range folds {
		register(Kernel{
			Op:    name,
			Takes: f.takes(),
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				first, end := reducedRange(n)
				if end > 0 && numel(n.Graph.Syms.Largest(n.In[0].Type.Shape[first:end])) >= longRow {
					return []Shader{reduceRows(n, f, first, end)}
				}
				return []Shader{reduceEach(n, f)}
			},
		})
	}
}

// longRow is the number of elements from which on several invocations share a reduction.
const longRow = 32

// reducedRange is the range of reduced axes, if all axes in it are reduced or have size 1; otherwise end is 0.
func reducedRange(n *ir.Node) (first, end int) {
	axes := n.Attrs.(op.ReduceAttrs).Axes
	if len(axes) == 0 {
		return 0, 0
	}
	first, end = axes[0], axes[len(axes)-1]+1
	for i := first; i < end; i++ {
		if !slices.Contains(axes, i) && !n.In[0].Type.Shape[i].Is(1) {
			return 0, 0
		}
	}
	return first, end
}

// rowFields are the parameters of shaders that begin with reduce_place.wgsl.
var rowFields = []string{"rows", "n", "inner"}

// rowsAndLanes divides a workgroup into rows of length elements and lanes for each. Lanes are few enough that each reads at least
// sixteen elements, which takes longer than combining the lanes. inner is set if neighbouring elements belong to different rows. rows
// is a multiple of per.
func rowsAndLanes(length int, inner bool, per int) (rows, lanes int) {
	const group = 256
	lanes = 8
	if !inner {
		for lanes = 4; lanes < group/per && 16*lanes < length; {
			lanes *= 2
		}
	}
	return group / lanes, lanes
}

// reduceRows folds the axes first to end.
func reduceRows(n *ir.Node, f fold, first, end int) Shader {
	shape, t, per := n.In[0].Type.Shape, elementType(n.Type.DType), element32(n)
	most := n.Graph.Syms.Largest
	inner := numel(most(shape[end:])) > 1
	rows, lanes := rowsAndLanes(numel(most(shape[first:end])), inner, per)
	sizes := func(c *Call) (outer, n, inner int) {
		s := c.In[0].Shape
		return numel(s[:first]), numel(s[first:end]), numel(s[end:])
	}
	return Shader{
		Name: n.Op.Name, Body: reducePlaceWGSL + reduceRowsWGSL, Fields: rowFields,
		Consts:   map[string]any{"Zero": f.zero[t], "Fold": f.expr[t], "Mean": f.mean, "Type": t, "Rows": rows, "Lanes": lanes, "Inner": inner, "Per": per},
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}, {Name: "y", Operand: Out, DType: n.Type.DType}},
		Params: func(c *Call) []uint32 {
			outer, n, inner := sizes(c)
			if outer*inner == 0 {
				return nil
			}
			return []uint32{uint32(outer * inner), uint32(n), uint32(inner)}
		},
		Groups: func(c *Call) int { return ceilDiv(numel(c.Out.Shape), rows) },
		Loops: func(c *Call) int {
			_, n, _ := sizes(c)
			return loop(ceilDiv(n, lanes), 0) + loop(lanes, 0)
		},
	}
}

// reduceEach computes each element by itself, for any axes.
func reduceEach(n *ir.Node, f fold) Shader {
	t := elementType(n.Type.DType)
	axes := n.Attrs.(op.ReduceAttrs).Axes
	consts := map[string]any{"Zero": f.zero[t], "Fold": f.expr[t], "Mean": f.mean}
	return mapped(n, n.Op.Name, reduceWGSL, consts, []string{"count", "kept:8", "cut:8", "stride:8"}, func(c *Call) []uint32 {
		kept, cut, count := slices.Clone(c.In[0].Shape), slices.Clone(c.In[0].Shape), 1
		for i := range kept {
			if slices.Contains(axes, i) {
				count *= kept[i]
				kept[i] = 1
			} else {
				cut[i] = 1
			}
		}
		return slices.Concat([]uint32{uint32(count)}, dims(kept), dims(cut), strides(c.In[0].Shape))
	}).withLoops(n, func(c *Call) int {
		from := append(slices.Clone(axes), len(c.In[0].Shape)) // ascending
		count := numel(c.In[0].Shape) / max(numel(c.Out.Shape), 1)
		return loop(maxRank, 0) + loop(count, loop(len(c.In[0].Shape)-from[0], 0))
	})
}
