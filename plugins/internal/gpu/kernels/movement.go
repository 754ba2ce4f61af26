package kernels

import (
	_ "embed"
	"fmt"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed movement.wgsl
var movementWGSL string

var (
	_ = register(Kernel{Op: "flip", Takes: "(any)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		// Flipped axes have negative strides. 32-bit unsigned arithmetic wraps to the right offsets.
		shape, axes := n.Type.Shape, n.Attrs.(op.FlipAttrs).Axes
		u, rank := element(n.Type.DType), n.Type.Rank()
		if len(axes) == 0 || axes[len(axes)-1] < rank-1 {
			u = units(n.Type.DType, []int{commonDivisor(shape[rank-1:])}, n.In[0])
		}
		return []Shader{strided(n, u, rank, func(c *Call) (offset int, dims, stride []int) {
			dims, stride = c.Out.Shape, denseStrides(c.Out.Shape)
			for _, axis := range axes {
				offset += (dims[axis] - 1) * stride[axis]
				stride[axis] = -stride[axis]
			}
			return offset, dims, stride
		})}
	}})
	_ = register(Kernel{Op: "roll", Takes: "(any)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		// Axes between the shifted ones are merged.
		a, shape, rank := n.Attrs.(op.RollAttrs), n.Type.Shape, n.Type.Rank()
		inner := rank // first axis after the last shifted one
		if len(a.Axes) > 0 {
			inner = a.Axes[len(a.Axes)-1] + 1
		}
		u := units(n.Type.DType, []int{commonDivisor(shape[inner:])}, n.In[0])
		if inner == rank {
			u = element(n.Type.DType)
		}
		consts := map[string]any{"Axes": downTo(len(a.Axes)-1, 0)}
		// For each shifted axis: its size, its stride, and the source of index 0.
		fields := []string{"inner"}
		for _, name := range []string{"size", "stride", "origin"} {
			fields = append(fields, fmt.Sprint(name, ":", max(len(a.Axes), 1)))
		}
		return []Shader{
			moved(n, u, []int{0}, "roll", part(movementWGSL, "roll"), consts, fields, func(c *Call) []uint32 {
				p := make([]uint32, 1+3*max(len(a.Axes), 1))
				p[0] = uint32(numel(c.Out.Shape[inner:]) / u.per())
				sizes, strides, origins := p[1:][:len(a.Axes)], p[1+max(len(a.Axes), 1):], p[1+2*max(len(a.Axes), 1):]
				for i, axis := range a.Axes {
					d := c.Out.Shape[axis]
					sizes[i], strides[i] = uint32(d), uint32(numel(c.Out.Shape[axis+1:])/u.per())
					origins[i] = uint32(((-a.Shifts[i])%d + d) % d)
				}
				return p
			})}
	}})
	_ = register(Kernel{Op: "dynamic_slice", Takes: "(any, i32|i64)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		x, a := n.In[0], n.Attrs.(op.DynamicSliceAttrs)
		inner := commonDivisor(x.Type.Shape[a.Axis+1:])
		u := units(n.Type.DType, []int{inner}, x)
		return []Shader{
			moved(n, u, []int{0}, "dynamic_slice", part(movementWGSL, "slice"), nil,
				[]string{"row", "from_row", "inner", "last"}, func(c *Call) []uint32 {
					_, size, inner := around(c.In[0].Shape, a.Axis)
					inner /= u.per()
					return []uint32{uint32(a.Len * inner), uint32(size * inner), uint32(inner), uint32(size - a.Len)}
				}).withStatus()}
	}})
	_ = register(
		Kernel{Op: "gather_batched", Takes: "(any, i32|i64|u32)", Shaders: func(n *ir.Node, _ Limits) []Shader {
			x, b := n.In[0], n.Attrs.(op.GatherBatchedAttrs).BatchDims
			u := units(n.Type.DType, []int{commonDivisor(x.Type.Shape[b+1:])}, x)
			return []Shader{
				movedSeveral(n, u, largeEach, []int{0}, "gather_batched", part(movementWGSL, "gather_batched"),
					nil, []string{"inner", "count", "size"}, func(c *Call) []uint32 {
						return []uint32{uint32(numel(c.In[0].Shape[b+1:]) / u.per()), uint32(numel(c.In[1].Shape[b:])),
							uint32(c.In[0].Shape[b])}
					}).withStatus()}
		}})
	_ = register(
		Kernel{Op: "resize", Takes: `(any) if layout = "" and mode = "nearest"`,
			Also: `(f32|f16|bf16) if layout = "" and mode = "linear"`,
			Shaders: func(n *ir.Node, _ Limits) []Shader {
				a := n.Attrs.(op.ResizeAttrs)
				fields := []string{"h", "w", "to_h", "to_w"}
				for _, axis := range []string{"rows", "cols"} {
					fields = append(fields, axis+"_step", axis+"_first", axis+"_den")
				}
				consts := map[string]any{"Each": 1, "T": "u32", "Encode": "y_encode"}
				params := func(c *Call) []uint32 {
					last := len(c.Out.Shape) - 2
					h, w, toH, toW := c.In[0].Shape[last], c.In[0].Shape[last+1], c.Out.Shape[last], c.Out.Shape[last+1]
					p := []uint32{uint32(h), uint32(w), uint32(toH), uint32(toW)}
					for _, l := range []op.Along{a.Along(h, toH), a.Along(w, toW)} {
						p = append(p, uint32(l.Step), uint32(int32(l.First)), uint32(l.Den))
					}
					return p
				}
				// Four neighbouring elements of a row share the computations for that row.
				if d := n.Type.DType; d.Size() == 4 && commonDivisor(n.Type.Shape[n.Type.Rank()-1:])%4 == 0 {
					consts["Each"], consts["T"], consts["Encode"] = 4, "vec4<u32>", "bitcast<u32>"
					return []Shader{
						moved(n, unit{elements: 4, words: 4}, []int{Out}, "resize", part(movementWGSL, a.Mode), consts,
							fields, params)}
				}
				return []Shader{coarsened(n, "resize", part(movementWGSL, a.Mode), consts, fields, params)}
			}})
)

// denseStrides returns the strides of a dense shape in elements.
func denseStrides(shape []int) []int {
	out, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = n
		n *= shape[i]
	}
	return out
}
