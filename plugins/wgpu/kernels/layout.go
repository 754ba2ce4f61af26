package kernels

import (
	_ "embed"
	"encoding/binary"
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

//go:embed layout.wgsl
var layoutWGSL string

// part is one of the templates of a file.
func part(file, name string) string { return file + `{{template "` + name + `" .}}` }

// These ops move bits and do not look at them.
var (
	_ = register(Kernel{Op: "transpose", Shaders: func(n *ir.Node, _ Limits) []Shader {
		perm := n.Attrs.(op.TransposeAttrs).Perm
		return []Shader{strided(n, func(c *Call) (offset int, stride []uint32) {
			from, to := dense(c.In[0].Shape), make([]uint32, maxRank)
			for i, p := range perm {
				to[maxRank-len(perm)+i] = from[maxRank-len(perm)+p]
			}
			return 0, to
		})}
	}})
	_ = register(Kernel{Op: "narrow", Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.NarrowAttrs)
		return []Shader{strided(n, func(c *Call) (offset int, stride []uint32) {
			axis := positive(a.Axis, len(c.Out.Shape))
			_, _, inner := around(c.In[0].Shape, axis)
			return a.Start * inner, dense(c.In[0].Shape)
		})}
	}})
	_ = register(Kernel{Op: "pad", Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.PadAttrs)
		return []Shader{mapped(n, "pad", part(layoutWGSL, "pad"), map[string]any{"Bits": bitsOf(n.Type.DType, a.Value)},
			[]string{"dims:8", "before:8", "inner:8", "stride:8"}, func(c *Call) []uint32 {
				before := make([]uint32, maxRank)
				for i, v := range a.Before {
					before[maxRank-len(a.Before)+i] = uint32(v)
				}
				return concat(dims(c.Out.Shape), before, dims(c.In[0].Shape), dense(c.In[0].Shape))
			})}
	}})
	_ = register(Kernel{Op: "concat", Can: func(n *ir.Node) bool { return len(n.In) <= 16 }, Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.ConcatAttrs)
		fields, which := []string{"row"}, []int{}
		for i := range n.In {
			fields, which = append(fields, fmt.Sprint("len", i)), append(which, i)
		}
		return []Shader{mapped(n, "concat", part(layoutWGSL, "concat"), map[string]any{"Operands": which}, fields, func(c *Call) []uint32 {
			axis := positive(a.Axis, len(c.Out.Shape))
			p := []uint32{uint32(numel(c.Out.Shape[axis:]))}
			for _, x := range c.In {
				p = append(p, uint32(numel(x.Shape[axis:])))
			}
			return p
		})}
	}})
	_ = register(Kernel{Op: "gather", Can: func(n *ir.Node) bool {
		return n.In[1].Type.DType == dtype.I32 || n.In[1].Type.DType == dtype.U32
	}, Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.GatherAttrs)
		return []Shader{mapped(n, "gather", part(layoutWGSL, "gather"), nil, []string{"inner", "count", "size"}, func(c *Call) []uint32 {
			_, size, inner := around(c.In[0].Shape, positive(a.Axis, len(c.In[0].Shape)))
			return []uint32{uint32(inner), uint32(numel(c.In[1].Shape)), uint32(size)}
		}).withStatus()}
	}})
	_ = register(Kernel{Op: "iota", Can: func(n *ir.Node) bool { return n.Type.DType != dtype.Bool }, Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.IotaAttrs)
		return []Shader{mapped(n, "iota", part(layoutWGSL, "iota"), map[string]any{"Type": elementType(n.Type.DType)}, []string{"inner", "size"}, func(c *Call) []uint32 {
			_, size, inner := around(c.Out.Shape, positive(a.Axis, len(c.Out.Shape)))
			return []uint32{uint32(inner), uint32(size)}
		})}
	}})
	_ = register(Kernel{Op: "const", Shaders: func(n *ir.Node, _ Limits) []Shader {
		v := n.Attrs.(op.ConstAttrs).Value
		return []Shader{mapped(n, "const", part(layoutWGSL, "const"), map[string]any{"Bits": bitsOf(n.Type.DType, v)}, nil, nil)}
	}})
	_ = register(Kernel{Op: "cast", Shaders: func(n *ir.Node, _ Limits) []Shader {
		consts := map[string]any{"From": elementType(n.In[0].Type.DType), "To": elementType(n.Type.DType)}
		return []Shader{mapped(n, "cast", part(layoutWGSL, "cast"), consts, nil, nil)}
	}})
)

// strided is a shader whose element at index k of the result is the operand's at offset + k . stride.
func strided(n *ir.Node, at func(c *Call) (offset int, stride []uint32)) Shader {
	return mapped(n, n.Op.Name, part(layoutWGSL, "strided"), nil, []string{"offset", "dims:8", "stride:8"}, func(c *Call) []uint32 {
		offset, stride := at(c)
		return concat([]uint32{uint32(offset)}, dims(c.Out.Shape), stride)
	})
}

// dense are the element strides of a shape, aligned like dims.
func dense(shape []int) []uint32 {
	out, n := make([]uint32, maxRank), 1
	for k := len(shape) - 1; k >= 0; k-- {
		out[maxRank-len(shape)+k] = uint32(n)
		n *= shape[k]
	}
	return out
}

func concat(parts ...[]uint32) (out []uint32) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// bitsOf are the bits of a number as an element.
func bitsOf(d dtype.DType, v float64) uint32 {
	a := tensor.NewArray(d, 1)
	if a.F != nil {
		a.F[0] = v
	} else {
		a.I[0] = int64(v)
	}
	var word [4]byte
	copy(word[:], a.Tensor().Data)
	return binary.LittleEndian.Uint32(word[:])
}
