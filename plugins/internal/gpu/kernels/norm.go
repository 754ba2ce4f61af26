package kernels

import (
	_ "embed"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed norm.wgsl
var normWGSL string

//go:embed norm_rows.wgsl
var normRowsWGSL string // the function that norm.wgsl and norm_backward.wgsl share

//go:embed norm_from_statistics.wgsl
var normFromStatisticsWGSL string

func init() {
	for _, k := range []struct {
		op               string
		center, residual bool
		eps              func(attrs any) float64
	}{
		{"layer_norm", true, false, func(a any) float64 { return a.(op.LayerNormAttrs).Eps }},
		{"rms_norm", false, false, func(a any) float64 { return a.(op.RmsNormAttrs).Eps }},
		{"fused_residual_layer_norm", true, true,
			func(a any) float64 { return a.(op.FusedResidualLayerNormAttrs).Eps }},
		{"fused_residual_rms_norm", false, true, func(a any) float64 { return a.(op.FusedResidualRmsNormAttrs).Eps }},
	} {
		register(Kernel{
			Op: k.op, Takes: "(" + floats + "...)",
			WritesRounded: func(n *ir.Node) bool { return fourAtOnce(n) && n.Type.DType == dtype.F32 },
			Shaders: func(n *ir.Node, l Limits) []Shader {
				s := norm(n, k.center, k.residual, k.eps(n.Attrs))
				if l.Rounds != 0 {
					s.Consts.(map[string]any)["Rounded"], s.Consts.(map[string]any)["Only"] = true, l.RoundsOnly
					s.Bindings = append(s.Bindings, Binding{Name: "z", Operand: RoundedOut, Vec: 4, DType: l.Rounds})
				}
				if sharesWords(n) {
					return []Shader{s, normFromStatistics(n, k.residual)}
				}
				return []Shader{s}
			},
			Scratch: func(n *ir.Node, _ Limits) int64 {
				if !sharesWords(n) {
					return 0
				}
				shape := n.Graph.Syms.Largest(n.Type.Shape)
				return int64(numel(shape[:len(shape)-1])) * 8
			},
		})
	}
}

// The sum and the norm are written where the row is read for the last time, because they may overwrite its operands.
func init() {
	for _, k := range []struct {
		op     string
		center bool
		eps    func(attrs any) float64
	}{
		{"fused_add_layer_norm", true, func(a any) float64 { return a.(op.FusedAddLayerNormAttrs).Eps }},
		{"fused_add_rms_norm", false, func(a any) float64 { return a.(op.FusedAddRmsNormAttrs).Eps }},
	} {
		register(Kernel{Op: k.op, Takes: "(f32...)", Shaders: func(n *ir.Node, _ Limits) []Shader {
			return []Shader{norm(n, k.center, true, k.eps(n.Attrs))}
		}})
	}
}

// Workgroups of norm.wgsl have enough invocations to hide the latency of memory, and a row has as few of them as can
// keep it in registers. An invocation reads γ and β for one unit after the other, so with many units few rows take
// long.
const (
	normGroup = 128 // invocations
	normUnits = 4   // most units of a row for each invocation, if the workgroup has enough of them
	normKept  = 16  // most units that an invocation keeps
)

// fourAtOnce reports whether the rows of the last axis consist of whole vectors of four, in all operands.
func fourAtOnce(n *ir.Node) bool {
	x := n.In[0].Type
	return x.Shape[x.Rank()-1].Const%4 == 0 && allAligned(n.In)
}

// sharesWords reports whether neighbouring rows share a 32-bit word, so that a row cannot be written independently.
func sharesWords(n *ir.Node) bool { return n.In[0].Type.DType != dtype.F32 && !fourAtOnce(n) }

// norm normalises rows of the last axis, which is static because γ has its size. If rows share words, it only computes
// the statistics for normFromStatistics.
func norm(n *ir.Node, center, residual bool, eps float64) Shader {
	x := n.In[0].Type
	width := int(x.Shape[x.Rank()-1].Const)
	vec, v, t := 0, "", "f32"
	if fourAtOnce(n) {
		vec, v, t = 4, "4", "vec4<f32>"
	}
	params := []uint32{math.Float32bits(float32(width)), math.Float32bits(float32(eps))}
	units := width / max(vec, 1)
	lanes := 8
	for lanes < normGroup && (lanes < 32 && lanes < units || ceilDiv(units, lanes) > normUnits) {
		lanes *= 2
	}
	kept := 0
	if k := units / lanes; units%lanes == 0 && k <= normKept {
		kept = k
	}
	rows := normGroup / lanes
	s := Shader{
		Name: n.Op.Name, Body: normRowsWGSL + normWGSL, Fields: []string{"rows", "count:f32", "eps:f32"},
		Consts: map[string]any{"Rows": rows, "Lanes": lanes, "Units": units, "Kept": kept, "Center": center,
			"Residual": residual, "Statistics": sharesWords(n), "Sum": n.Op.Tuple, "V": v, "T": t},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			return append([]uint32{uint32(numel(c.Out.Shape) / width)}, params...)
		},
		Groups: func(c *Call) int { return ceilDiv(numel(c.Out.Shape)/width, rows) },
	}
	s.Loops = func(*Call) int { return 3*loop(ceilDiv(units, lanes), 0) + 3*loop(lanes/4, 0) }
	names := []string{"x", "gamma", "beta"}
	if residual {
		names = []string{"x", "r", "gamma", "beta"}
	}
	for i, name := range names {
		s.Bindings = append(s.Bindings, Binding{Name: name, Operand: i, Vec: vec, DType: n.In[i].Type.DType})
	}
	switch {
	case n.Op.Tuple:
		s.Bindings = append(s.Bindings, Binding{Name: "s", Operand: Result(0), Vec: vec, DType: x.DType},
			Binding{Name: "y", Operand: Result(1), Vec: vec, DType: x.DType})
	case sharesWords(n):
		s.Bindings = append(s.Bindings[:len(names)-2], rowStatistics)
	default:
		s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, Vec: vec, DType: n.Type.DType})
	}
	return s
}

// normFromStatistics computes whole words, whose elements may belong to two rows.
func normFromStatistics(n *ir.Node, residual bool) Shader {
	width := int(n.Type.Shape[n.Type.Rank()-1].Const)
	consts := map[string]any{"Width": width, "Residual": residual, "Gamma": operandNames[len(n.In)-2],
		"Beta": operandNames[len(n.In)-1]}
	s := coarsened(n, n.Op.Name, normFromStatisticsWGSL, consts, nil, nil)
	s.Bindings = append(s.Bindings, rowStatistics)
	return s
}
