package kernels

import (
	_ "embed"
	"maps"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed softmax.wgsl
var softmaxWGSL string

//go:embed softmax_rows.wgsl
var softmaxRowsWGSL string

//go:embed softmax_from_statistics.wgsl
var softmaxFromStatisticsWGSL string

var (
	_ = register(softmaxKernel("softmax", false))
	_ = register(softmaxKernel("log_softmax", true))
)

func softmaxKernel(name string, log bool) Kernel {
	return Kernel{
		Op: name, Takes: "(" + floats + ")",
		Shaders: func(n *ir.Node, _ Limits) []Shader {
			if s, ok := softmaxKept(n, log); ok {
				return []Shader{s}
			}
			if p, unit, ok := softmaxLong(n); ok {
				return softmaxInTwo(n, p, unit, log)
			}
			return softmax(n, softmaxRows(n), log)
		},
		Scratch: func(n *ir.Node, _ Limits) int64 {
			if _, ok := softmaxKept(n, log); ok {
				return 0
			}
			p, _, ok := softmaxLong(n)
			if !ok {
				p = softmaxRows(n)
			}
			if !ok && softmaxInOne(n, p) {
				return 0
			}
			return int64(p.most[0]*p.most[2]+p.mostParts()) * 8
		},
	}
}

// softmaxKeeps is the largest number of vectors of a row that an invocation keeps in registers.
const softmaxKeeps = 16

// softmaxKept makes a shader that reads rows of the last axis once. ok is false if rows are too long, or not a multiple
// of four elements.
func softmaxKept(n *ir.Node, log bool) (s Shader, ok bool) {
	const group = 256
	last := n.Type.Rank() - 1
	if softmaxAxis(n) != last || !fours(n.Type.Shape[last]) || !aligned(n.In[0]) {
		return s, false
	}
	units, lanes := int(n.Type.Shape[last].Const)/4, 8
	for lanes < group && (lanes < 32 && lanes < units || units > softmaxKeeps/2*lanes) {
		lanes *= 2
	}
	kept := ceilDiv(units, lanes)
	if kept > softmaxKeeps {
		return s, false
	}
	rows := group / lanes
	count := func(c *Call) int { return numel(c.Out.Shape[:last]) }
	return Shader{
		Name: n.Op.Name, Body: part(softmaxRowsWGSL, "kept"), Fields: []string{"rows"},
		Consts: map[string]any{"Rows": rows, "Lanes": lanes, "Final": min(lanes, 16), "Units": units, "Kept": kept,
			"Full": kept*lanes == units,
			"Unit": "vec4<f32>", "Four": true, "Log": log},
		Bindings: []Binding{{Name: "x", Operand: 0, Vec: 4, DType: n.In[0].Type.DType},
			{Name: "y", Operand: Out, Vec: 4, DType: n.Type.DType}},
		Params: func(c *Call) []uint32 {
			if count(c) == 0 {
				return nil
			}
			return []uint32{uint32(count(c))}
		},
		Groups: func(c *Call) int { return ceilDiv(count(c), rows) },
	}, true
}

// softmaxLong plans rows of the last axis that are too long for softmaxKept. unit is the number of elements read at
// once. ok is false for other rows.
func softmaxLong(n *ir.Node) (p rowPlan, unit int, ok bool) {
	last := n.Type.Rank() - 1
	if softmaxAxis(n) != last || n.Graph.Syms.Largest(n.Type.Shape)[last] <= 4096 {
		return p, 0, false
	}
	unit = 1
	if commonDivisor(n.Type.Shape[last:])%4 == 0 && aligned(n.In[0]) {
		unit = 4
	} else if n.Type.DType != dtype.F32 {
		return p, 0, false // elements share words
	}
	return planReads(
			n, 1, func(shape []int) (outer, n, inner int) { return numel(shape[:last]), shape[last] / unit, 1 }, 8,
			2048),
		unit, true
}

// softmaxInTwo returns two shaders. The first finds the largest element and the sum of exponentials of each part of a
// row. The second combines these, reads the row again and writes the result.
func softmaxInTwo(n *ir.Node, p rowPlan, unit int, log bool) []Shader {
	const group, each = 256, 8
	consts := map[string]any{"Unit": "f32", "Four": unit == 4, "Read": "x", "Final": min(p.lanes, 16)}
	x, y := Binding{Name: "x", Operand: 0, DType: n.In[0].Type.DType},
		Binding{Name: "y", Operand: Out, DType: n.Type.DType}
	if unit == 4 {
		consts["Unit"], consts["Read"] = "vec4<f32>", "x4"
		x.Vec, y.Vec = 4, 4
	}
	statistics := Binding{Name: "statistics", Operand: Scratch, DType: dtype.U32}
	first := p.shader(n.Op.Name, part(softmaxRowsWGSL, "statistics"), consts,
		func(c *Call) int { return loop(ceilDiv(p.rounds(c), 8), 0) }, x, statistics)
	second := maps.Clone(consts)
	second["Rows"], second["Lanes"], second["Final"], second["Each"], second["Log"] = 1, group, 16, each, log
	sizes := func(c *Call) (rows, n, parts int) {
		rows, n, _ = p.sizes(c.In[0].Shape)
		parts = 1
		if p.split {
			parts, _ = p.parts(rows, n)
		}
		return rows, n, parts
	}
	return []Shader{first, {
		Name: n.Op.Name, Body: part(softmaxRowsWGSL, "values"), Fields: []string{"rows", "n", "parts", "stretches"},
		Consts:   second,
		Bindings: []Binding{x, y, statistics},
		Params: func(c *Call) []uint32 {
			rows, n, parts := sizes(c)
			if rows*n == 0 {
				return nil
			}
			return []uint32{uint32(rows), uint32(n), uint32(parts), uint32(ceilDiv(n, group*each))}
		},
		Groups: func(c *Call) int {
			rows, n, _ := sizes(c)
			return rows * ceilDiv(n, group*each)
		},
		Loops: func(c *Call) int {
			_, _, parts := sizes(c)
			return 2 * loop(ceilDiv(parts, group), 0)
		},
	}}
}

func softmaxAxis(n *ir.Node) int { return positive(n.Attrs.(op.SoftmaxAttrs).Axis, n.Type.Rank()) }

func softmaxRows(n *ir.Node) rowPlan {
	axis := softmaxAxis(n)
	return planRows(n, 1, func(shape []int) (outer, n, inner int) { return around(shape, axis) })
}

// softmaxInOne reports whether one shader computes whole rows. It cannot if rows are split or share words.
func softmaxInOne(n *ir.Node, p rowPlan) bool { return n.Type.DType == dtype.F32 && !p.split }

// softmax returns the shaders for rows of any axis: one if that is possible. Otherwise one or two shaders first find
// the largest element and the sum of exponentials of each row.
func softmax(n *ir.Node, p rowPlan, log bool) []Shader {
	in := Binding{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}
	loops := func(p rowPlan) func(c *Call) int {
		return func(c *Call) int { return 3*loop(p.rounds(c), 0) + 2*loop(p.lanes/2, 0) }
	}
	consts := func(statistics, combine bool) map[string]any {
		return map[string]any{"Statistics": statistics, "Combine": combine, "Log": log}
	}
	if softmaxInOne(n, p) {
		y := Binding{Name: "y", Operand: Out, DType: n.Type.DType}
		return []Shader{p.shader(n.Op.Name, softmaxWGSL, consts(false, false), loops(p), in, y)}
	}
	shaders := []Shader{p.shader(n.Op.Name, softmaxWGSL, consts(true, false), loops(p), in, rowStatistics)}
	if p.split {
		c := p.combining(1)
		shaders = append(shaders, c.shader(n.Op.Name, softmaxWGSL, consts(true, true), loops(c), rowStatistics))
	}
	return append(shaders, softmaxFromStatistics(n, log))
}

// rowStatistics has two f32 per row, which one shader passes to the next. Those of the parts of rows follow those of
// the rows.
var rowStatistics = Binding{Name: "statistics", Operand: Scratch, DType: dtype.F32}

// softmaxFromStatistics computes whole words, whose elements may belong to two rows.
func softmaxFromStatistics(n *ir.Node, log bool) Shader {
	axis := softmaxAxis(n)
	s := coarsened(n, n.Op.Name, softmaxFromStatisticsWGSL, map[string]any{"Log": log}, []string{"count", "inner"},
		func(c *Call) []uint32 {
			_, k, inner := around(c.Out.Shape, axis)
			return []uint32{uint32(k), uint32(inner)}
		})
	s.Bindings = append(s.Bindings, rowStatistics)
	return s
}
