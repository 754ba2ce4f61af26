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

var (
	_ = register(Kernel{Op: "layer_norm", Can: allF32, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, true, false, n.Attrs.(op.LayerNormAttrs).Eps)
	}})
	_ = register(Kernel{Op: "rms_norm", Can: allF32, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, false, false, n.Attrs.(op.RmsNormAttrs).Eps)
	}})
	_ = register(Kernel{Op: "fused_residual_layer_norm", Can: allF32, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, true, true, n.Attrs.(op.FusedResidualLayerNormAttrs).Eps)
	}})
	_ = register(Kernel{Op: "fused_residual_rms_norm", Can: allF32, Shaders: func(n *ir.Node, _ Limits) []Shader {
		return norm(n, false, true, n.Attrs.(op.FusedResidualRmsNormAttrs).Eps)
	}})
)

func allF32(n *ir.Node) bool {
	for _, x := range n.In {
		if x.Type.DType != dtype.F32 {
			return false
		}
	}
	return n.Type.DType == dtype.F32
}

// norm is one workgroup per row of the last axis, which is static: γ has its size.
func norm(n *ir.Node, center, residual bool, eps float64) []Shader {
	width := int(n.Type.Shape[n.Type.Rank()-1].B)
	vec, v, t := 0, "", "f32"
	if width%4 == 0 {
		vec, v, t = 4, "4", "vec4<f32>"
	}
	per := max(vec, 1)
	names := []string{"x", "gamma", "beta"}
	if residual {
		names = []string{"x", "r", "gamma", "beta"}
	}
	s := Shader{
		Name: n.Op.Name, Body: normWGSL, Fields: []string{"rows", "n", "count:f32", "eps:f32"},
		Consts: map[string]any{"Size": groupSize(width / per), "Center": center, "Residual": residual, "V": v, "T": t},
		Params: func(c *Call) []uint32 {
			if numel(c.Out.Shape) == 0 {
				return nil
			}
			return []uint32{uint32(numel(c.Out.Shape) / width), uint32(width / per), math.Float32bits(float32(width)), math.Float32bits(float32(eps))}
		},
		Groups: func(c *Call) int { return numel(c.Out.Shape) / width },
	}
	for i, name := range names {
		s.Bindings = append(s.Bindings, Binding{Name: name, Operand: i, Vec: vec, DType: dtype.F32})
	}
	s.Bindings = append(s.Bindings, Binding{Name: "y", Operand: Out, Vec: vec, DType: dtype.F32})
	return []Shader{s}
}

// groupSize is a power of two of invocations for n items.
func groupSize(n int) int {
	size := 32
	for size < n && size < 256 {
		size *= 2
	}
	return size
}
