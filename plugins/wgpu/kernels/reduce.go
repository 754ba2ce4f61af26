package kernels

import (
	_ "embed"
	"maps"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed reduce.wgsl
var reduceWGSL string

//go:embed reduce_rows.wgsl
var reduceRowsWGSL string

// fold is how a reduction combines acc and v, and where it starts, by WGSL type.
type fold struct {
	expr map[string]string
	zero map[string]string
	mean bool
}

// foldType is the WGSL type that reductions of a type compute in.
func foldType(d dtype.DType) string {
	if d == dtype.Bool {
		return "u32" // 0 or 1
	}
	return elementType(d)
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
		"any": {expr: map[string]string{"u32": "acc | v"}, zero: map[string]string{"u32": "0u"}},
		"all": {expr: map[string]string{"u32": "acc & v"}, zero: map[string]string{"u32": "1u"}},
	}
)

// takes is the rule for the element types of a reduction.
func (f fold) takes() string {
	switch {
	case f.expr["f32"] == "":
		return "(bool)"
	case f.expr["i32"] == "":
		return "(" + floats + ")"
	}
	return "(" + floats + "|i32|u32)"
}

func init() {
	for name, f := range folds {
		rows := func(n *ir.Node) (rowPlan, bool) {
			first, end := reducedRange(n)
			shape := n.In[0].Type.Shape
			if end == 0 || numel(n.Graph.Syms.Largest(shape[first:end])) < longRow {
				return rowPlan{}, false
			}
			unit := 1
			if fourOfRow(n, first, end) {
				unit = 4
			}
			return planRows(n, element32(n), func(s []int) (outer, n, inner int) {
				return numel(s[:first]), numel(s[first:end]) / unit, numel(s[end:])
			}), true
		}
		register(Kernel{
			Op:    name,
			Takes: f.takes(),
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				if p, ok := rows(n); ok {
					return reduceRows(n, f, p)
				}
				return []Shader{reduceEach(n, f)}
			},
			Scratch: func(n *ir.Node) int64 {
				p, _ := rows(n)
				return int64(p.mostParts()) * 4
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

// fourOfRow reports whether the axes first to end are the last ones of operand 0, of floats, and consist of whole vectors of four.
func fourOfRow(n *ir.Node, first, end int) bool {
	x := n.In[0].Type
	inner := numel(n.Graph.Syms.Largest(x.Shape[end:]))
	return inner == 1 && x.DType.IsFloat() && common(x.Shape[first:end])%4 == 0 && aligned(n.In[0])
}

// reduceRows folds rows, in one shader or in two.
func reduceRows(n *ir.Node, f fold, p rowPlan) []Shader {
	x, t := n.In[0].Type, foldType(n.Type.DType)
	first, end := reducedRange(n)
	consts := map[string]any{
		"Zero": f.zero[t], "Fold": f.expr[t], "Mean": f.mean, "Type": t, "Per": element32(n), "Four": fourOfRow(n, first, end), "Read": "x0",
		"Bool": x.DType == dtype.Bool,
	}
	in, out := Binding{Name: "x0", Operand: 0, DType: x.DType}, Binding{Name: "y", Operand: Out, DType: n.Type.DType}
	switch {
	case x.DType == dtype.Bool:
		consts["Read"] = "truth"
	case consts["Four"] == true:
		consts["Read"], in.Vec = "x04", 4
	}
	read := ""
	if x.DType == dtype.Bool {
		read = "fn truth(i: u32) -> u32 { return select(0u, 1u, x0(i)); }\n"
	}
	// The mean divides by the elements of a row, which the second shader cannot count.
	counted := func(s Shader) Shader {
		params := s.Params
		s.Fields = append(slices.Clone(s.Fields), "count")
		s.Params = func(c *Call) []uint32 {
			v := params(c)
			if v == nil {
				return nil
			}
			return append(v, uint32(numel(c.In[0].Shape[first:end])))
		}
		return s
	}
	loops := func(p rowPlan) func(c *Call) int {
		return func(c *Call) int { return loop(p.rounds(c), 0) + loop(p.lanes, 0) + 8 }
	}
	if !p.split {
		return []Shader{counted(p.shader(n.Op.Name, read+reduceRowsWGSL, consts, loops(p), in, out))}
	}
	scratch := map[string]dtype.DType{"f32": dtype.F32, "i32": dtype.I32, "u32": dtype.U32}[t]
	parts := Binding{Name: "parts", Operand: Scratch, DType: scratch}
	second, combine := maps.Clone(consts), p.combining(element32(n))
	second["Four"], second["Read"] = false, "parts"
	return []Shader{
		p.shader(n.Op.Name, read+reduceRowsWGSL, consts, loops(p), in, parts),
		counted(combine.shader(n.Op.Name, reduceRowsWGSL, second, loops(combine), parts, out)),
	}
}

// reduceEach computes each element by itself, for any axes.
func reduceEach(n *ir.Node, f fold) Shader {
	t := foldType(n.Type.DType)
	axes := n.Attrs.(op.ReduceAttrs).Axes
	consts := map[string]any{"Zero": f.zero[t], "Fold": f.expr[t], "Mean": f.mean, "Bool": n.Type.DType == dtype.Bool}
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
