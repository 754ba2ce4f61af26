package kernels

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

//go:embed layout.wgsl
var layoutWGSL string

// part selects one of the templates in a file.
func part(file, name string) string { return file + `{{template "` + name + `" .}}` }

// These ops move bits and do not interpret them.
var (
	_ = register(Kernel{Op: "narrow", Takes: "(any+)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.NarrowAttrs)
		shape, axis := n.In[0].Type.Shape, positive(a.Axis, n.Type.Rank())
		inner := commonDivisor(shape[axis+1:])
		u := units(
			n.Type.DType, []int{commonDivisor(shape[axis:]), commonDivisor(n.Type.Shape[axis:]), a.Start * inner},
			n.In[0])
		return []Shader{strided(n, u, 2, func(c *Call) (offset int, dims, stride []int) {
			_, size, inner := around(c.In[0].Shape, axis)
			return a.Start * inner, []int{numel(c.Out.Shape[:axis]), numel(c.Out.Shape[axis:])}, []int{size * inner, 1}
		})}
	}})
	_ = register(Kernel{Op: "copy", Takes: "(any+)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		// A unit that extends past the last element overwrites no other value, because places are aligned.
		u := units(n.Type.DType, nil, n.In[0])
		return []Shader{moved(n, u, []int{0}, "copy", "fn value(i: u32) -> {{.C.T}} {\n  return x0{{.C.Read}}(i);\n}\n",
			nil, nil, nil)}
	}})
	_ = register(
		Kernel{Op: "pad", Takes: "(any)", Shaders: func(n *ir.Node, _ Limits) []Shader { return []Shader{pad(n)} }})
	_ = register(Kernel{Op: "concat", Takes: "(any+...)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.ConcatAttrs)
		axis := positive(a.Axis, n.Type.Rank())
		fields, which, rows := []string{"row"}, []int{}, []int{}
		for i, x := range n.In {
			fields, which, rows = append(fields, fmt.Sprint("len", i)), append(which, i),
				append(rows, commonDivisor(x.Type.Shape[axis:]))
		}
		u := units(n.Type.DType, rows, n.In...)
		return []Shader{moved(n, u, which, "concat", part(layoutWGSL, "concat"), map[string]any{"Operands": which},
			fields, func(c *Call) []uint32 {
				p := []uint32{uint32(numel(c.Out.Shape[axis:]) / u.per())}
				for _, x := range c.In {
					p = append(p, uint32(numel(x.Shape[axis:])/u.per()))
				}
				return p
			})}
	}})
	_ = register(Kernel{Op: "gather", Takes: "(any+, i32|i64|u32)", Shaders: func(n *ir.Node, _ Limits) []Shader {
		x := n.In[0]
		axis := positive(n.Attrs.(op.GatherAttrs).Axis, x.Type.Rank())
		u := units(n.Type.DType, []int{commonDivisor(x.Type.Shape[axis+1:])}, x)
		// A unit waits for its index before it is read. Several units in an invocation wait at the same time.
		return []Shader{
			movedSeveral(n, u, largeEach, []int{0}, "gather", part(layoutWGSL, "gather"), nil,
				[]string{"inner", "count", "size"}, func(c *Call) []uint32 {
					_, size, inner := around(c.In[0].Shape, axis)
					return []uint32{uint32(inner / u.per()), uint32(numel(c.In[1].Shape)), uint32(size)}
				}).withStatus()}
	}})
	_ = register(Kernel{Op: "iota", Takes: "() -> any+", Shaders: func(n *ir.Node, _ Limits) []Shader {
		a := n.Attrs.(op.IotaAttrs)
		return []Shader{
			coarsened(n, "iota", part(layoutWGSL, "iota"), map[string]any{"Type": valueType(n.Type.DType)},
				[]string{"inner", "size"}, func(c *Call) []uint32 {
					_, size, inner := around(c.Out.Shape, positive(a.Axis, len(c.Out.Shape)))
					return []uint32{uint32(inner), uint32(size)}
				})}
	}})
	_ = register(Kernel{Op: "const", Takes: "() -> any+", Shaders: func(n *ir.Node, _ Limits) []Shader {
		v := n.Attrs.(op.ConstAttrs).Value
		return []Shader{
			coarsened(n, "const", part(layoutWGSL, "const"), map[string]any{"T": element(n.Type.DType).typ(),
				"Bits": literalOf(n.Type.DType, v)}, nil, nil)}
	}})
	_ = register(
		Kernel{Op: "cast", Takes: "(any+) -> any+", Shaders: func(n *ir.Node, _ Limits) []Shader {
			consts := map[string]any{"From": valueType(n.In[0].Type.DType), "To": valueType(n.Type.DType)}
			if s, ok := castWide(n); ok {
				return []Shader{s}
			}
			if s, ok := castFours(n); ok {
				return []Shader{s}
			}
			return []Shader{coarsened(n, "cast", part(layoutWGSL, "cast"), consts, nil, nil)}
		}})
)

// castFours casts between float types four elements at a time; ok is false if the size is not a multiple of four.
func castFours(n *ir.Node) (s Shader, ok bool) {
	x := n.In[0]
	if !x.Type.DType.IsFloat() || !n.Type.DType.IsFloat() || commonDivisor(n.Type.Shape)%4 != 0 || !aligned(x) {
		return s, false
	}
	count := func(c *Call) int { return numel(c.Out.Shape) / 4 }
	return Shader{
		Name: "cast", Body: part(layoutWGSL, "fours"), Fields: []string{"n"},
		Consts: map[string]any{"Group": largeGroup, "Each": largeEach},
		Bindings: []Binding{{Name: "x", Operand: 0, Vec: 4, DType: x.Type.DType},
			{Name: "y", Operand: Out, Vec: 4, DType: n.Type.DType}},
		Params: func(c *Call) []uint32 {
			if count(c) == 0 {
				return nil
			}
			return []uint32{uint32(count(c))}
		},
		Groups: func(c *Call) int { return ceilDiv(count(c), largeGroup*largeEach) },
	}, true
}

// pad merges each padded axis with the unpadded axes that follow it.
func pad(n *ir.Node) Shader {
	a, x := n.Attrs.(op.PadAttrs), n.In[0].Type.Shape
	var starts []int // first axis of each merged axis
	for i := range x {
		if i == 0 || a.Before[i] != 0 || a.After[i] != 0 {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 { // a scalar
		starts = []int{0}
	}
	rank, last := len(starts), starts[len(starts)-1]
	ends := append(slices.Clone(starts[1:]), len(x))
	before := func(k int, shape []int) int {
		if len(shape) == 0 {
			return 0
		}
		return a.Before[starts[k]] * numel(shape[starts[k]+1:ends[k]])
	}
	row := []int{commonDivisor(x[last:]), commonDivisor(n.Type.Shape[last:])}
	if len(x) > 0 {
		row = append(row, a.Before[last]*commonDivisor(x[last+1:]))
	}
	u := units(n.Type.DType, row, n.In[0])
	fill := bitsOf(n.Type.DType, a.Value)
	for w := 8 * n.Type.DType.Size(); w < 32 && u.words > 0; w *= 2 {
		fill |= fill << w
	}
	array := fmt.Sprint(":", rank)
	consts := map[string]any{"Bits": fill, "Axes": downTo(rank-1, 0)}
	return moved(n, u, []int{0}, "pad", part(layoutWGSL, "pad"), consts,
		[]string{"dims" + array, "before" + array, "inner" + array, "stride" + array}, func(c *Call) []uint32 {
			p, in, out := make([]uint32, 4*rank), c.In[0].Shape, c.Out.Shape
			for k := range rank {
				per := 1
				if k == rank-1 {
					per = u.per()
				}
				p[k], p[rank+k] = uint32(numel(out[starts[k]:ends[k]])/per), uint32(before(k, in)/per)
				p[2*rank+k], p[3*rank+k] = uint32(numel(in[starts[k]:ends[k]])/per),
					uint32(numel(in[ends[k]:])*per/u.per())
			}
			return p
		})
}

// strided makes a shader for a result of rank axes. Its element at index k is the operand's element at offset + k .
// stride. If u is more than one element, the last stride must be 1.
func strided(n *ir.Node, u unit, rank int, at func(c *Call) (offset int, dims, stride []int)) Shader {
	array := fmt.Sprint(":", rank)
	return moved(n, u, []int{0}, n.Op.Name, part(layoutWGSL, "strided"), map[string]any{"Axes": downTo(rank-1, 1)},
		[]string{"offset", "dims" + array, "stride" + array}, func(c *Call) []uint32 {
			offset, dims, stride := at(c)
			p := []uint32{uint32(offset / u.per())}
			for i, d := range dims {
				if i == rank-1 {
					d /= u.per()
				}
				p = append(p, uint32(d))
			}
			for i, s := range stride {
				if i < rank-1 {
					s /= u.per()
				}
				p = append(p, uint32(s))
			}
			return p
		})
}

// downTo returns the integers from high down to low, including both.
func downTo(high, low int) (out []int) {
	for i := high; i >= low; i-- {
		out = append(out, i)
	}
	return out
}

// literalOf returns the bits of v as an element of type d, as a WGSL value of the type that element(d) has.
func literalOf(d dtype.DType, v float64) string {
	a := tensor.NewArray(d, 1)
	a.Fill(v)
	data := a.Tensor().Data
	if d.Size() == 8 {
		low, high := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
		return fmt.Sprintf("vec2<u32>(%du, %du)", low, high)
	}
	return fmt.Sprintf("%du", bitsOf(d, v))
}

// bitsOf returns the bits of v as an element of type d.
func bitsOf(d dtype.DType, v float64) uint32 {
	a := tensor.NewArray(d, 1)
	a.Fill(v)
	var word [4]byte
	copy(word[:], a.Tensor().Data)
	return binary.LittleEndian.Uint32(word[:])
}
