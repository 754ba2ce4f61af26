package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed softmax.wgsl
var softmaxWGSL string

//go:embed softmax_from_statistics.wgsl
var softmaxFromStatisticsWGSL string

var (
	_ = register(softmaxKernel("softmax", false))
	_ = register(softmaxKernel("log_softmax", true))
)

func softmaxKernel(name string, log bool) Kernel {
	return Kernel{
		Op: name, Takes: "(" + floats + ")",
		Shaders: func(n *ir.Node, _ Limits) []Shader { return softmax(n, softmaxRows(n), log) },
		Scratch: func(n *ir.Node) int64 {
			p := softmaxRows(n)
			if softmaxInOne(n, p) {
				return 0
			}
			return int64(p.most[0]*p.most[2]+p.mostParts()) * 8
		},
	}
}

func softmaxAxis(n *ir.Node) int { return positive(n.Attrs.(op.SoftmaxAttrs).Axis, n.Type.Rank()) }

func softmaxRows(n *ir.Node) rowPlan {
	axis := softmaxAxis(n)
	return planRows(n, 1, func(shape []int) (outer, n, inner int) { return around(shape, axis) })
}

// softmaxInOne reports whether one shader computes whole rows. It cannot where rows are divided, or share words.
func softmaxInOne(n *ir.Node, p rowPlan) bool { return n.Type.DType == dtype.F32 && !p.split }

// softmax computes rows in one shader. Otherwise it finds the largest element and the sum of each row first, in one shader or in two.
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

// rowStatistics are two f32 of each row, kept between two shaders. Those of the parts of rows follow those of the rows.
var rowStatistics = Binding{Name: "statistics", Operand: Scratch, DType: dtype.F32}

// softmaxFromStatistics computes whole words, whose elements may belong to two rows.
func softmaxFromStatistics(n *ir.Node, log bool) Shader {
	axis := softmaxAxis(n)
	s := coarsened(n, n.Op.Name, softmaxFromStatisticsWGSL, map[string]any{"Log": log}, []string{"count", "inner"}, func(c *Call) []uint32 {
		_, k, inner := around(c.Out.Shape, axis)
		return []uint32{uint32(k), uint32(inner)}
	})
	s.Bindings = append(s.Bindings, rowStatistics)
	return s
}
