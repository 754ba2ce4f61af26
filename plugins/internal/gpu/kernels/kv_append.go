package kernels

import (
	_ "embed"
	"slices"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
)

//go:embed kv_append.wgsl
var kvAppendWGSL string

var _ = register(Kernel{
	Op: "kv_append", Takes: "(any, same, i32)",
	Also: "(f32|i32|u32, same, i32, sequence: i32)", // elements are whole words
	Shaders: func(n *ir.Node, _ Limits) []Shader {
		d := n.Type.DType
		axis := positive(n.Attrs.(op.KVAppendAttrs).Axis, n.Type.Rank())
		u := appendUnit(n, axis)
		body, words := "rows", d
		if u.words > 0 {
			words = dtype.U32
		} else {
			body = "elements"
		}
		per, each := u.elements, 1 // per: elements per unit of the parameters; each: units that an invocation moves
		if u.words == 0 {
			per, each = 1, 4/d.Size()
		}
		count := func(c *Call) int { // number of units that invocations test
			if u.words == 0 {
				outer, _, _ := around(c.In[1].Shape, axis)
				_, have, inner := around(c.Out.Shape, axis)
				return outer * have * inner
			}
			return numel(c.In[1].Shape) / per
		}
		bindings := []Binding{
			{Name: "x1", Operand: 1, DType: words, Vec: vecOf(u.words)},
			{Name: "x2", Operand: 2, DType: n.In[2].Type.DType},
			{Name: "y", Operand: Out, DType: words, Vec: vecOf(u.words)},
			{Name: "status", Operand: Status, DType: dtype.U32},
		}
		if n.In[op.KVAppendSequence] != nil {
			bindings = append(bindings, Binding{Name: "x3", Operand: op.KVAppendSequence, DType: dtype.I32})
		}
		const group = 64
		return []Shader{{
			Name: "kv_append", Body: part(kvAppendWGSL, body),
			Fields: slices.Concat([]string{"n"}, appendFields, []string{"sequences", "blocks", "room"}),
			Consts: map[string]any{"Group": group, "Words": u.words, "PerWord": 4 / d.Size(), "Bits": 8 * d.Size(),
				"Mask": uint32(1<<(8*d.Size()%32) - 1), "Sequence": n.In[op.KVAppendSequence] != nil},
			Bindings: bindings,
			Params: func(c *Call) []uint32 {
				if numel(c.Out.Shape) == 0 || len(c.In[2].Shape) > 0 && c.In[2].Shape[0] == 0 {
					return nil
				}
				return slices.Concat([]uint32{uint32(count(c))}, appendSizes(c, axis, per), sequenceSizes(c, axis))
			},
			Groups: func(c *Call) int { return max(1, ceilDiv(ceilDiv(count(c), each), group)) },
			Loops: func(c *Call) int {
				sequences := numel(c.In[op.KVAppendSequence].Shape)
				share := loop(ceilDiv(sequences, group), 0)
				return loop(ceilDiv(numel(c.In[2].Shape), group), 0) + loop(4/d.Size(), 0) + share +
					loop(group, share) + loop(sequences, 0)
			},
		}}
	},
})

// sequenceSizes returns the number of elements of the operand sequence, the number of blocks of rows that each element
// stands for, and the number of sequences of the state.
func sequenceSizes(c *Call, axis int) []uint32 {
	if axis == 0 {
		return []uint32{0, 1, 0}
	}
	return []uint32{uint32(c.In[1].Shape[0]), uint32(numel(c.Out.Shape[1:axis])), uint32(c.Out.Shape[0])}
}

// appendUnit returns the unit in which a kv_append moves its rows.
func appendUnit(n *ir.Node, axis int) unit {
	rows := n.In[1]
	return units(n.Type.DType, []int{commonDivisor(rows.Type.Shape[axis+1:])}, rows)
}

// appendFields are the parameters that appendSizes returns. rows, state and inner are the sizes of the new rows, of the
// state, and of one row, in units of per elements. last is the last index at which the new rows may begin. places is
// the number of such indices in operand 2, and alike the number of consecutive blocks of rows that share an index.
var appendFields = []string{"rows", "state", "inner", "last", "places", "alike"}

func appendSizes(c *Call, axis, per int) []uint32 {
	outer, t, _ := around(c.In[1].Shape, axis)
	_, have, inner := around(c.Out.Shape, axis)
	places := numel(c.In[2].Shape)
	return []uint32{uint32(t * inner / per), uint32(have * inner / per), uint32(inner / per), uint32(have - t),
		uint32(places), uint32(max(1, outer/max(1, places)))}
}
