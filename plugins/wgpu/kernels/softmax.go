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

var _ = register(Kernel{
	Op: "softmax", Takes: "(" + floats + ")",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		if n.Type.DType == dtype.F32 {
			return []Shader{softmax(n, false)}
		}
		return []Shader{softmax(n, true), softmaxFromStatistics(n)}
	},
	Scratch: func(n *ir.Node) int64 {
		if n.Type.DType == dtype.F32 {
			return 0
		}
		outer, _, inner := around(n.Graph.Syms.Largest(n.Type.Shape), softmaxAxis(n))
		return int64(outer*inner) * 8
	},
})

func softmaxAxis(n *ir.Node) int { return positive(n.Attrs.(op.SoftmaxAttrs).Axis, n.Type.Rank()) }

// softmax computes whole rows or, with statistics, only the largest element and the sum of each, for softmaxFromStatistics.
func softmax(n *ir.Node, statistics bool) Shader {
	axis, most := softmaxAxis(n), n.Graph.Syms.Largest
	inner := numel(most(n.Type.Shape[axis+1:])) > 1
	rows, lanes := rowsAndLanes(numel(most(n.Type.Shape[axis:axis+1])), inner, 1)
	s := Shader{
		Name: "softmax", Body: reducePlaceWGSL + softmaxWGSL, Fields: rowFields,
		Consts:   map[string]any{"Rows": rows, "Lanes": lanes, "Inner": inner, "Statistics": statistics},
		Bindings: []Binding{{Name: "x0", Operand: 0, DType: n.In[0].Type.DType}, {Name: "y", Operand: Out, DType: n.Type.DType}},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			outer, k, inner := around(c.Out.Shape, axis)
			return []uint32{uint32(outer * inner), uint32(k), uint32(inner)}
		},
		Groups: func(c *Call) int {
			outer, _, inner := around(c.Out.Shape, axis)
			return ceilDiv(outer*inner, rows)
		},
		Loops: func(c *Call) int {
			_, k, _ := around(c.Out.Shape, axis)
			return 3*loop(ceilDiv(k, lanes), 0) + 2*loop(lanes/2, 0)
		},
	}
	if statistics {
		s.Bindings[1] = rowStatistics
	}
	return s
}

// rowStatistics are two f32 of each row, kept between two shaders.
var rowStatistics = Binding{Name: "statistics", Operand: Scratch, DType: dtype.F32}

// softmaxFromStatistics computes whole words, whose elements may belong to two rows.
func softmaxFromStatistics(n *ir.Node) Shader {
	axis := softmaxAxis(n)
	s := coarsened(n, "softmax", softmaxFromStatisticsWGSL, nil, []string{"count", "inner"}, func(c *Call) []uint32 {
		_, k, inner := around(c.Out.Shape, axis)
		return []uint32{uint32(k), uint32(inner)}
	})
	s.Bindings = append(s.Bindings, rowStatistics)
	return s
}
