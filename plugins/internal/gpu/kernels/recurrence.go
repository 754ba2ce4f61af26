package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

// A workgroup runs through all tokens with some columns of the state in registers, so that no token needs a dispatch or
// reads the state from memory. Sums over the rows of a column are divided among lanes.

var (
	//go:embed gated_delta_net.wgsl
	gatedDeltaNetWGSL string
	//go:embed selective_scan.wgsl
	selectiveScanWGSL string
	//go:embed causal_conv1d.wgsl
	causalConv1DWGSL string
)

const (
	maxLanes    = 16 // most lanes per column
	rowsPerLane = 16 // rows per lane, in registers; more if a column has more than maxLanes can hold
	scanTokens  = 8  // tokens after which a scan adds the partial sums of its lanes
)

// lanesFor divides the rows of a column among lanes.
func lanesFor(rows int) (lanes, each int) {
	for lanes = 1; lanes < maxLanes && lanes*rowsPerLane < rows; {
		lanes *= 2
	}
	return lanes, max(1, ceilDiv(rows, lanes))
}

var _ = register(Kernel{
	Op: "gated_delta_net", Takes: "(f32...)",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		const columns = 16
		lanes, rows := lanesFor(n.Graph.Syms.Largest(n.In[0].Type.Shape)[3])
		s := Shader{
			Name: "gated_delta_net", Body: gatedDeltaNetWGSL,
			Fields: []string{"heads", "tokens", "of_batch", "groups", "rows", "columns"},
			Consts: map[string]any{"Columns": columns, "Lanes": lanes, "Rows": rows,
				"State": n.In[op.GatedDeltaNetState] != nil},
			Bindings: withResults(n),
			Params: func(c *Call) []uint32 {
				q, v := c.In[0].Shape, c.In[2].Shape
				if q[0]*v[2]*v[3] == 0 {
					return nil
				}
				return []uint32{uint32(q[0] * v[2]), uint32(q[1]), uint32(v[2]), uint32(q[2]), uint32(q[3]),
					uint32(v[3])}
			},
			Groups: func(c *Call) int {
				v := c.In[2].Shape
				return v[0] * v[2] * ceilDiv(v[3], columns)
			},
			Loops: func(c *Call) int { return loop(c.In[0].Shape[1], 2*loop(lanes, 0)) + loop(lanes, 0) },
		}
		return []Shader{s}
	},
})

var _ = register(Kernel{
	Op: "selective_scan", Takes: "(f32...)",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		const columns = 16
		lanes, rows := lanesFor(n.Graph.Syms.Largest(n.In[2].Type.Shape)[1])
		lanes, rows = max(lanes, 4), max(1, ceilDiv(lanes*rows, max(lanes, 4)))
		s := Shader{
			Name: "selective_scan", Body: selectiveScanWGSL, Fields: []string{"batch", "tokens", "channels", "rows"},
			Consts: map[string]any{"Columns": columns, "Lanes": lanes, "Rows": rows,
				"State": n.In[op.SelectiveScanState] != nil, "Tokens": scanTokens},
			Bindings: withResults(n),
			Params: func(c *Call) []uint32 {
				x := c.In[0].Shape
				if x[0]*x[2] == 0 {
					return nil
				}
				return []uint32{uint32(x[0]), uint32(x[1]), uint32(x[2]), uint32(c.In[2].Shape[1])}
			},
			Groups: func(c *Call) int {
				x := c.In[0].Shape
				return x[0] * ceilDiv(x[2], columns)
			},
			Loops: func(c *Call) int {
				tokens := c.In[0].Shape[1]
				return loop(ceilDiv(tokens, scanTokens), loop(scanTokens, 0)+loop(scanTokens, loop(lanes, 0)))
			},
		}
		return []Shader{s}
	},
})

// withResults returns the bindings of an f32 node: operands x0, x1, ... and two results, y and z.
func withResults(n *ir.Node) (b []Binding) {
	for k, in := range n.Operands() {
		b = append(b, Binding{Name: operandNames[k], Operand: k, DType: in.Type.DType})
	}
	return append(b, Binding{Name: "y", Operand: Out, DType: dtype.F32},
		Binding{Name: "z", Operand: Result(1), DType: dtype.F32})
}

var _ = register(Kernel{
	Op: "causal_conv1d", Takes: "(f32...)",
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		a, group := n.Attrs.(op.CausalConv1DAttrs), 64
		k := int(n.In[1].Type.Shape[1].Const)
		consts := map[string]any{"K": k, "Bias": n.In[op.CausalConv1DBias] != nil,
			"Pad": n.In[op.CausalConv1DPad] != nil, "Silu": a.Silu, "Group": group}
		sizes := func(c *Call) []uint32 {
			x := c.In[0].Shape
			return []uint32{uint32(x[1]), uint32(x[2])}
		}
		y := coarsened(n, "causal_conv1d", part(causalConv1DWGSL, "values"), consts, []string{"tokens", "channels"},
			sizes)
		y.Loops = func(*Call) int { return largeEach * loop(k, 0) }
		if k == 1 {
			return []Shader{y}
		}
		next := Shader{
			Name: "causal_conv1d", Body: part(causalConv1DWGSL, "next"), Consts: consts,
			Fields: []string{"n", "tokens", "channels"},
			Bindings: []Binding{{Name: "x0", Operand: 0, DType: dtype.F32},
				{Name: "z", Operand: Result(1), DType: dtype.F32}},
			Params: func(c *Call) []uint32 {
				if count := numel(c.Outs[1].Shape); count > 0 {
					return append([]uint32{uint32(count)}, sizes(c)...)
				}
				return nil
			},
			Groups: func(c *Call) int { return ceilDiv(numel(c.Outs[1].Shape), group) },
		}
		if pad := op.CausalConv1DPad; n.In[pad] != nil {
			next.Bindings = append(next.Bindings, Binding{Name: operandNames[pad], Operand: pad, DType: dtype.F32})
		}
		return []Shader{y, next}
	},
})
