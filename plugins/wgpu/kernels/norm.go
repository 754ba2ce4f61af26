package kernels

import (
	_ "embed"
	"math"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed norm.wgsl
var normWGSL string

//go:embed norm_each.wgsl
var normEachWGSL string

var (
	_ = register(Kernel{Op: "layer_norm", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, true, false, n.Attrs.(op.LayerNormAttrs).Eps)
	}})
	_ = register(Kernel{Op: "rms_norm", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, false, false, n.Attrs.(op.RmsNormAttrs).Eps)
	}})
	_ = register(Kernel{Op: "fused_residual_layer_norm", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, true, true, n.Attrs.(op.FusedResidualLayerNormAttrs).Eps)
	}})
	_ = register(Kernel{Op: "fused_residual_rms_norm", Can: floats, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, false, true, n.Attrs.(op.FusedResidualRmsNormAttrs).Eps)
	}})
)

// What a workgroup of norm.wgsl is made of: enough invocations for the device to have others to run while some wait for
// memory, and as few for a row as have it in registers.
const (
	normGroup = 128 // invocations
	normKept  = 16  // units of a row that an invocation keeps, at most
)

// norm normalises rows of the last axis, which is static: γ has its size.
func norm(n *ir.Node, center, residual bool, eps float64) []Shader {
	width := int(n.Type.Shape[n.Type.Rank()-1].B)
	vec, v, t := 0, "", "f32"
	whole := func(x *ir.Node) bool { return beginsAt(x, int64(4*n.Type.DType.Size())) }
	if width%4 == 0 && !slices.ContainsFunc(n.In, func(x *ir.Node) bool { return !whole(x) }) {
		vec, v, t = 4, "4", "vec4<f32>"
	}
	params := []uint32{math.Float32bits(float32(width)), math.Float32bits(float32(eps))}
	if vec == 0 && n.Type.DType != dtype.F32 {
		consts := map[string]any{"Width": width, "Center": center, "Residual": residual, "Gamma": operandNames[len(n.In)-2], "Beta": operandNames[len(n.In)-1]}
		return []Shader{mapped(n, n.Op.Name, normEachWGSL, consts, []string{"count:f32", "eps:f32"}, func(*Call) []uint32 { return params }).withLoops(n, func(*Call) int { return 2 * loop(width, 0) })}
	}
	units := width / max(vec, 1)
	lanes := 8
	for lanes < normGroup && (lanes < 32 && lanes < units || ceilDiv(units, lanes) > normKept) {
		lanes *= 2
	}
	kept := 0
	if k := units / lanes; units%lanes == 0 && k <= normKept {
		kept = k
	}
	rows := normGroup / lanes
	s := Shader{
		Name: n.Op.Name, Body: normWGSL, Fields: []string{"rows", "count:f32", "eps:f32"},
		Consts: map[string]any{"Rows": rows, "Lanes": lanes, "Units": units, "Kept": kept, "Center": center, "Residual": residual, "V": v, "T": t},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			return append([]uint32{uint32(numel(c.Out.Shape) / width)}, params...)
		},
		Groups: func(c *Call) int { return ceilDiv(numel(c.Out.Shape)/width, rows) },
	}
	s.Loops = func(*Call) int { return 3*loop(ceilDiv(units, lanes), 0) + 2*loop(lanes/4, 0) }
	names := []string{"x", "gamma", "beta"}
	if residual {
		names = []string{"x", "r", "gamma", "beta"}
	}
	for i, name := range names {
		s.Bindings = append(s.Bindings, Binding{Name: name, Operand: i, Vec: vec, DType: n.In[i].Type.DType})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, Vec: vec, DType: n.Type.DType})
	return []Shader{s}
}
