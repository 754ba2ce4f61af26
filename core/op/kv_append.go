package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// KVAppendAttrs are the attributes of kv_append.
type KVAppendAttrs struct {
	Axis int `attr:"axis"`
}

// KVAppendDef writes rows into a state.
var KVAppendDef = ir.Define(ir.Def[KVAppendAttrs]{
	Name: "kv_append",
	Doc: "Of state, rows and pos: state after rows have been written to pos, pos+1, ... of the axis, in the memory of state. Rows have state's element type and sizes, " +
		"but for the axis, where they may have fewer; pos is one number (i32 or i64). Rows that do not fit, from 0 to the size of the axis, are a run error, and nothing is written. " +
		"As many rows as the axis has, at 0, replace the whole state.",
	MinIn: 3, MaxIn: 3,
	Updates: true,
	Infer: func(s ir.Sig[KVAppendAttrs]) (ir.Type, error) {
		state, rows, pos, axis := s.In[0], s.In[1], s.In[2], s.Attrs.Axis
		if err := checkAxis(axis, state.Rank()); err != nil {
			return ir.Type{}, err
		}
		if rows.DType != state.DType || rows.Rank() != state.Rank() {
			return ir.Type{}, fmt.Errorf("rows are %v; want the element type and rank of state, %v", rows, state)
		}
		for i, d := range rows.Shape {
			if i != axis && d != state.Shape[i] {
				return ir.Type{}, ir.Differ(d, state.Shape[i], "rows are %v; want the sizes of state, %v, but on axis %d", rows, state, axis)
			}
		}
		if _, hi := s.Syms.Bounds(rows.Shape[axis]); hi > state.Shape[axis].B || !state.Shape[axis].IsStatic() {
			return ir.Type{}, fmt.Errorf("rows are %v, up to %d on axis %d; state, %v, has no place for so many", rows, hi, axis, state)
		}
		if pos.DType != dtype.I32 && pos.DType != dtype.I64 || pos.Rank() != 0 {
			return ir.Type{}, fmt.Errorf("pos is %v; want i32[] or i64[]", pos)
		}
		return state, nil
	},
	Eval: func(a KVAppendAttrs, in []*tensor.Array, out *tensor.Array) error {
		state, rows, pos := in[0], in[1], in[2].I[0]
		have, n := state.Shape[a.Axis], rows.Shape[a.Axis]
		if pos < 0 || pos > int64(have-n) {
			return fmt.Errorf("%d rows at %d do not fit 0 to %d of axis %d", n, pos, have, a.Axis)
		}
		copyArray(out, state)
		inner := tensor.Numel(state.Shape[a.Axis+1:])
		for o := range tensor.Numel(state.Shape[:a.Axis]) {
			copyRange(out, (o*have+int(pos))*inner, rows, o*n*inner, n*inner)
		}
		return nil
	},
	FLOPs: noFLOPs[KVAppendAttrs],
	Tol:   exact[KVAppendAttrs],
	Cases: func() []ir.Case[KVAppendAttrs] {
		c := func(axis int, state, rows, pos ir.Type) ir.Case[KVAppendAttrs] {
			last := float64(state.Shape[axis].B - rows.Shape[axis].B)
			fill := []ir.Range{{Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: 0, Hi: last}}
			if !state.DType.IsFloat() {
				fill[0], fill[1] = ir.Range{Lo: 0, Hi: 3}, ir.Range{Lo: 0, Hi: 3}
			}
			return ir.Case[KVAppendAttrs]{Attrs: KVAppendAttrs{axis}, In: []ir.Type{state, rows, pos}, Fill: fill}
		}
		cases := []ir.Case[KVAppendAttrs]{
			c(0, f32(7), f32(1), i32()), c(0, f32(5, 3), f32(5, 3), i32()), c(1, f32(2, 9, 3), f32(2, 4, 3), i64()), c(2, f32(1, 3, 17, 8), f32(1, 3, 1, 8), i32()),
			c(2, f32(2, 2, 65, 5), f32(2, 2, 33, 5), i32()), c(1, f32(3, 4), f32(3, 0), i32()), c(1, f32(0, 4), f32(0, 2), i32()), c(1, f32(2, 3, 700), f32(2, 2, 700), i32()),
		}
		for _, d := range elementTypes() {
			cases = append(cases, c(1, ir.TypeOf(d, 2, 6, 3), ir.TypeOf(d, 2, 2, 3), i32()))
		}
		return cases
	},
})

// KVAppend writes rows to pos, pos+1, ... of an axis of state, and gives state's new value.
func KVAppend(state, rows, pos *ir.Node, axis int) *ir.Node {
	return state.Graph.Add(KVAppendDef, KVAppendAttrs{fromEnd(axis, state)}, state, rows, pos)
}
