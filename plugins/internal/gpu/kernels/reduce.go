package kernels

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed reduce.wgsl
var reduceWGSL string

//go:embed reduce_rows.wgsl
var reduceRowsWGSL string

// fold has the WGSL of a reduction by WGSL type: how to combine acc and v, and the initial value.
type fold struct {
	expr map[string]string
	zero map[string]string
	mean bool
	// library function that maps floats to integers in their order, which are cheaper to compare; empty for none
	key string
}

// foldType returns the WGSL type in which reductions of type d are computed.
func foldType(d dtype.DType) string {
	if d == dtype.Bool {
		return "u32" // 0 or 1
	}
	return valueType(d)
}

var (
	sums  = map[string]string{"f32": "acc + v", "i32": "acc + v", "u32": "acc + v", "vec2<u32>": "i64_add(acc, v)"}
	zeros = map[string]string{"f32": "0.0", "i32": "0i", "u32": "0u", "vec2<u32>": "vec2<u32>(0u, 0u)"}
	folds = map[string]fold{
		"reduce_sum":  {expr: sums, zero: zeros},
		"reduce_mean": {expr: map[string]string{"f32": "acc + v"}, zero: zeros, mean: true},
		"reduce_prod": {expr: map[string]string{"f32": "acc * v", "i32": "acc * v", "u32": "acc * v",
			"vec2<u32>": "i64_mul(acc, v)"},
			zero: map[string]string{"f32": "1.0", "i32": "1i", "u32": "1u", "vec2<u32>": "vec2<u32>(1u, 0u)"}},
		"reduce_max": {expr: map[string]string{"f32": "op_max(acc, v)", "i32": "max(acc, v)", "u32": "max(acc, v)",
			"vec2<u32>": "i64_max(acc, v)"},
			zero: map[string]string{"f32": "-infinity()", "i32": "-2147483647i - 1i", "u32": "0u",
				"vec2<u32>": "vec2<u32>(0u, 0x80000000u)"}, key: "largest_key"},
		"reduce_min": {expr: map[string]string{"f32": "op_min(acc, v)", "i32": "min(acc, v)", "u32": "min(acc, v)",
			"vec2<u32>": "i64_min(acc, v)"},
			zero: map[string]string{"f32": "infinity()", "i32": "2147483647i", "u32": "0xffffffffu",
				"vec2<u32>": "vec2<u32>(0xffffffffu, 0x7fffffffu)"}, key: "least_key"},
		"any": {expr: map[string]string{"u32": "acc | v"}, zero: map[string]string{"u32": "0u"}},
		"all": {expr: map[string]string{"u32": "acc & v"}, zero: map[string]string{"u32": "1u"}},
	}
)

// takes returns the rule for the element types of a reduction.
func (f fold) takes() string {
	switch {
	case f.expr["f32"] == "":
		return "(bool)"
	case f.expr["i32"] == "":
		return "(" + floats + ")"
	}
	return "(" + floats + "|i32|i64|u32)"
}

func init() {
	for name, f := range folds {
		register(Kernel{
			Op:    name,
			Takes: f.takes(),
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				if r, ok := rowsOf(n); ok {
					return reduceRows(n, f, r)
				}
				return []Shader{reduceEach(n, f)}
			},
			Scratch: func(n *ir.Node, _ Limits) int64 {
				r, _ := rowsOf(n)
				return int64(r.mostParts()*r.unit) * 4
			},
		})
	}
}

// longRow is the smallest number of elements for which several invocations share a reduction.
const longRow = 32

// reducedRange returns the range of reduced axes if every axis in it is reduced or has size 1. Otherwise end is 0.
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

// reduction tells how the rows of a reduction are read.
type reduction struct {
	rowPlan
	unit   int  // elements read at once, 1 or 4
	across bool // with unit 4: the elements belong to four rows, and rows are counted in fours
}

// rowsOf plans the rows of a reduction; ok is false if the reduced axes do not form rows or the rows are short.
func rowsOf(n *ir.Node) (r reduction, ok bool) {
	first, end := reducedRange(n)
	x, most := n.In[0].Type, n.Graph.Syms.Largest(n.In[0].Type.Shape)
	if end == 0 || numel(most[first:end]) < longRow || x.DType == dtype.I64 {
		return reduction{}, false
	}
	r.unit = 1
	if x.DType != dtype.Bool && aligned(n.In[0]) {
		switch inner := x.Shape[end:]; {
		case numel(most[end:]) != 1:
			r.across = commonDivisor(inner)%4 == 0
		case commonDivisor(x.Shape[first:end])%4 == 0:
			r.unit = 4
		}
	}
	if r.across {
		r.unit = 4
	}
	sizes := func(s []int) (outer, n, inner int) {
		outer, n, inner = numel(s[:first]), numel(s[first:end]), numel(s[end:])
		if r.across {
			return outer, n, inner / 4
		}
		return outer, n / r.unit, inner
	}
	per := 1
	if !r.across {
		per = element32(n)
	}
	r.rowPlan = planReads(n, per, sizes, 8, 4096)
	return r, true
}

// reduceRows returns the shaders that fold rows: one, or two if rows are split into parts.
func reduceRows(n *ir.Node, f fold, r reduction) []Shader {
	x, d, t := n.In[0].Type, n.Type.DType, foldType(n.Type.DType)
	in, out := Binding{Name: "x0", Operand: 0, DType: x.DType}, Binding{Name: "y", Operand: Out, DType: d}
	load, done, zero := "v", "acc", f.zero[t] // for one element
	switch {
	case d == dtype.Bool:
		load, done = "select(0u, 1u, v)", "acc != 0u"
	case t == "f32" && f.key != "":
		load, done, zero, t = f.key+"(v)", "from_key(acc)", f.key+"("+zero+")", "i32"
	case r.unit == 4 && !d.IsFloat():
		in.DType = dtype.U32
		load = "bitcast<" + t + ">(v)"
	}
	consts := map[string]any{"Zero": zero, "Fold": f.expr[t], "Mean": f.mean, "Type": t, "Joined": t, "Unit": t,
		"Read": "x0", "Load": load,
		"Per": r.per, "Four": r.unit == 4, "Words": "u32", "Write": "y_put", "Done": done}
	// The second shader folds the partial results of the first.
	parts := Binding{Name: "parts", Operand: Scratch, DType: dtype.U32}
	if r.unit == 4 {
		consts["Read"], consts["Unit"], consts["Load"] = "x04", "vec4<"+t+">", byFours("vec4<"+t+">", "v", load)
		in.Vec = 4
	}
	word := "y_encode(" + done + ")"
	switch {
	case r.across:
		consts["Joined"], consts["Words"], consts["Write"] = consts["Unit"], "vec4<u32>", "y4_put"
		out.Vec, parts.Vec = 4, 4
		word = byFours("vec4<f32>", "acc", done)
		if !d.IsFloat() {
			out.DType, word = dtype.U32, "bitcast<vec4<u32>>(acc)"
		}
	case r.per > 1:
		word = done
	}
	consts["Done"] = word
	// The mean divides by the number of elements in a row, which the second shader cannot derive from the parts.
	first, end := reducedRange(n)
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
	shader := func(p rowPlan, consts map[string]any, bindings ...Binding) Shader {
		consts["Final"] = min(p.lanes, 16)
		return p.shader(n.Op.Name, reduceRowsWGSL, consts,
			func(c *Call) int { return loop(ceilDiv(p.rounds(c), 8), 0) }, bindings...)
	}
	if !r.split {
		return []Shader{counted(shader(r.rowPlan, consts, in, out))}
	}
	second, combine := maps.Clone(consts), r.combining(r.per)
	consts["Write"], consts["Per"], second["Read"] = "parts_put", 1, "parts"
	if r.across {
		consts["Write"], second["Read"] = "parts4_put", "parts4"
	}
	second["Unit"], second["Load"], second["Four"] = second["Joined"], "bitcast<"+second["Joined"].(string)+">(v)",
		r.across
	return []Shader{shader(r.rowPlan, consts, in, parts), counted(shader(combine, second, parts, out))}
}

// byFours applies an expression to each element of a vector. variable is its name in expr.
func byFours(typ, variable, expr string) string {
	var all []string
	for _, e := range []string{".x", ".y", ".z", ".w"} {
		all = append(all, strings.ReplaceAll(expr, variable, variable+e))
	}
	return typ + "(" + strings.Join(all, ", ") + ")"
}

// reduceEach computes each element independently, for any axes.
func reduceEach(n *ir.Node, f fold) Shader {
	t := foldType(n.Type.DType)
	axes := n.Attrs.(op.ReduceAttrs).Axes
	load, result := "x0(at)", "y_encode(acc)"
	switch n.Type.DType {
	case dtype.Bool:
		load, result = "select(0u, 1u, x0(at))", "y_encode(acc != 0u)"
	case dtype.I64:
		load, result = "x0_wide(at)", "acc"
	}
	consts := map[string]any{"Zero": f.zero[t], "Fold": f.expr[t], "Mean": f.mean, "Load": load, "Result": result,
		"T": element(n.Type.DType).typ()}
	return mapped(n, n.Op.Name, reduceWGSL, consts, []string{"count", "kept:8", "cut:8", "stride:8"},
		func(c *Call) []uint32 {
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
