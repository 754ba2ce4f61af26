package kernels

import (
	_ "embed"
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed pool.wgsl
var poolWGSL string

//go:embed im2col.wgsl
var im2colWGSL string

var (
	_ = register(Kernel{Op: "pool", Takes: "(" + floats + "|i32|u32)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.PoolAttrs)
		g, err := a.Geometry()
		if err != nil {
			return nil
		}
		f := folds["reduce_"+a.Kind]
		divisor := float64(g.Kernel[0]) * float64(g.Kernel[1]) * float64(g.Kernel[2])
		return []Shader{
			windows(n, g, f, map[string]any{"Adaptive": false, "Mean": f.mean, "Divisor": fmt.Sprintf("%.1f", divisor)},
				func(size, _ [3]int, i int) int {
					return min(g.Kernel[i], size[i])
				})}
	}})
	// The shader multiplies sizes of the result in 32 bits.
	_ = register(
		Kernel{Op: "adaptive_avg_pool", Takes: "(" + floats + ") if output <= 65535",
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				g, err := n.Attrs.(op.AdaptiveAvgPoolAttrs).Geometry()
				if err != nil {
					return nil
				}
				f := folds["reduce_mean"]
				return []Shader{
					windows(n, g, f, map[string]any{"Adaptive": true}, func(size, made [3]int, i int) int {
						return size[i]/made[i] + 2
					})}
			}})
	_ = register(Kernel{Op: "im2col", Takes: "(any)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		g, err := n.Attrs.(op.Im2ColAttrs).Geometry()
		if err != nil {
			return nil
		}
		consts := map[string]any{"Taps": g.Kernel[1] * g.Kernel[2], "Kernel": g.Kernel, "Stride": g.Stride,
			"Padding": g.Padding, "Dilation": g.Dilation}
		return []Shader{
			moved(n, element(n.Type.DType), []int{0}, "im2col", im2colWGSL, consts,
				[]string{"c_in", "h_in", "w_in", "h_out", "w_out"}, func(c *Call) []uint32 {
					_, channels, size := g.Sizes(c.In[0].Shape)
					out := g.OutSizes(size)
					return []uint32{uint32(channels), uint32(size[1]), uint32(size[2]), uint32(out[1]), uint32(out[2])}
				})}
	}})
)

// windows is a pooling op. most returns the largest number of elements of a window along axis i, for given sizes of x
// and the result.
func windows(n *ir.Node, g op.Geometry, f fold, consts map[string]any, most func(size, made [3]int, i int) int) Shader {
	t := elementType(n.Type.DType)
	consts["Zero"], consts["Fold"], consts["Last"] = f.zero[t], f.expr[t], g.Last
	axes := (&convSizes{Geometry: g}).Spatial()
	consts["Spatial"] = []spatial{axes[2], axes[1], axes[0]} // the last axis varies fastest
	return mapped(n, n.Op.Name, poolWGSL, consts, append([]string{"inner"}, convFields...), func(c *Call) []uint32 {
		_, channels, _ := g.Sizes(c.In[0].Shape)
		return append([]uint32{uint32(channels)}, (&convSizes{Geometry: g}).images(c)...)
	}).withLoops(n, func(c *Call) int {
		_, _, size := g.Sizes(c.In[0].Shape)
		_, _, made := g.Sizes(c.Out.Shape)
		return loop(most(size, made, 0), loop(most(size, made, 1), loop(most(size, made, 2), 0)))
	})
}
