package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

//go:embed cross_entropy.wgsl
var crossEntropyWGSL string

var (
	_ = register(crossEntropy("softmax_cross_entropy", "(f32, i32|i64|u32)", crossEntropyLoss))
	_ = register(crossEntropy("softmax_cross_entropy_backward", "(f32, i32|i64|u32, f32)", crossEntropyGradient))
)

// crossEntropy makes a kernel of two shaders. The first finds the largest logit of each part of a row. It also sums the
// exponentials of all logits except the label's, relative to the largest. The second combines the parts.
func crossEntropy(name, takes string, second func(n *ir.Node, p logitRows) Shader) Kernel {
	return Kernel{
		Op: name, Takes: takes,
		Shaders: func(n *ir.Node, _ Limits) []Shader {
			p := planLogits(n)
			first := p.shader(name, p.body("statistics"), p.consts(nil),
				func(c *Call) int { return loop(ceilDiv(p.rounds(c), 8), 0) }, p.logits(), labels(n), statisticsBits)
			return []Shader{first.withStatus(), second(n, p)}
		},
		Scratch: func(n *ir.Node, _ Limits) int64 {
			p := planLogits(n)
			return int64(p.most[0]+p.mostParts()) * 8
		},
	}
}

// statisticsBits has the key of the largest logit, and the bits of the sum, of each part of each row.
var statisticsBits = Binding{Name: "statistics", Operand: Scratch, DType: dtype.U32}

func labels(n *ir.Node) Binding { return Binding{Name: "label", Operand: 1, DType: n.In[1].Type.DType} }

// logitRows plans the rows of the logits; unit is the number of logits that are read at once.
type logitRows struct {
	rowPlan
	unit int
}

func planLogits(n *ir.Node) logitRows {
	p := logitRows{unit: 1}
	if commonDivisor(n.In[0].Type.Shape[1:])%4 == 0 && aligned(n.In[0]) {
		p.unit = 4
	}
	p.rowPlan = planReads(n, 1, func(shape []int) (outer, n, inner int) { return shape[0], shape[1] / p.unit, 1 }, 8,
		2048)
	return p
}

func (p logitRows) body(name string) string {
	return part(softmaxRowsWGSL+crossEntropyWGSL, "cross_entropy_"+name)
}

// consts returns the constants of the shaders and those in more.
func (p logitRows) consts(more map[string]any) map[string]any {
	all := map[string]any{"Unit": "f32", "Four": p.unit == 4, "Read": "x", "Final": min(p.lanes, 16), "Per": p.unit}
	if p.unit == 4 {
		all["Unit"], all["Read"] = "vec4<f32>", "x4"
	}
	for k, v := range more {
		all[k] = v
	}
	return all
}

func (p logitRows) logits() Binding {
	if p.unit == 4 {
		return Binding{Name: "x", Operand: 0, DType: dtype.F32, Vec: 4}
	}
	return Binding{Name: "x", Operand: 0, DType: dtype.F32}
}

func (p logitRows) partsOf(c *Call) (rows, n, parts int) {
	rows, n, _ = p.sizes(c.In[0].Shape)
	parts = 1
	if p.split {
		parts, _ = p.parts(rows, n)
	}
	return rows, n, parts
}

// crossEntropyLoss combines the statistics of each row's parts in one invocation, because they are few.
func crossEntropyLoss(n *ir.Node, p logitRows) Shader {
	s := mapped(n, n.Op.Name, p.body("loss"), p.consts(nil), []string{"classes", "parts"}, func(c *Call) []uint32 {
		_, _, parts := p.partsOf(c)
		return []uint32{uint32(c.In[0].Shape[1]), uint32(parts)}
	})
	s.Bindings = []Binding{{Name: "x0", Operand: 0, DType: dtype.F32}, labels(n), statisticsBits,
		{Name: "y", Operand: Out, DType: dtype.F32}}
	s.Loops = func(c *Call) int {
		_, _, parts := p.partsOf(c)
		return 2 * loop(parts, 0)
	}
	return s
}

// crossEntropyGradient reads the logits again. A workgroup writes a contiguous piece of a row.
func crossEntropyGradient(n *ir.Node, p logitRows) Shader {
	const group, each = 256, 8
	y := Binding{Name: "y", Operand: Out, DType: dtype.F32, Vec: p.logits().Vec}
	return Shader{
		Name: n.Op.Name, Body: p.body("gradient"), Fields: []string{"rows", "n", "parts", "stretches"},
		Consts:   p.consts(map[string]any{"Rows": 1, "Lanes": group, "Final": 16, "Each": each}),
		Bindings: []Binding{p.logits(), labels(n), {Name: "dloss", Operand: 2, DType: dtype.F32}, y, statisticsBits},
		Params: func(c *Call) []uint32 {
			rows, n, parts := p.partsOf(c)
			if rows*n == 0 {
				return nil
			}
			return []uint32{uint32(rows), uint32(n), uint32(parts), uint32(ceilDiv(n, group*each))}
		},
		Groups: func(c *Call) int {
			rows, n, _ := p.partsOf(c)
			return rows * ceilDiv(n, group*each)
		},
		Loops: func(c *Call) int {
			_, _, parts := p.partsOf(c)
			return 2 * loop(ceilDiv(parts, group), 0)
		},
	}
}
