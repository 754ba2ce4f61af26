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

// KVAppendSequence is the index of the optional operand of kv_append.
const KVAppendSequence = 3

// KVAppendDef writes rows into a state.
var KVAppendDef = ir.Define(ir.Def[KVAppendAttrs]{
	Name: "kv_append",
	Doc: "Takes state, rows and pos. The result is state after writing rows to pos, pos+1, ... of the axis, in " +
		"the memory of state. Rows have state's element type. Their sizes are those of state, except on the " +
		"axis, where they may be smaller, and on axis 0, if that is another: sequences of state that rows " +
		"does not have stay as they are. pos (i32 or i64) is one number, or one for each of these sequences. " +
		"sequence (i32), if the axis is not 0, has for each element of axis 0 of rows the sequence of state " +
		"to which it is written, in place of its own number; rows may then have more elements than state. If several elements write to the same place, the " +
		"last one counts. A sequence that state does not have is a run error, and nothing is written. Rows " +
		"that do not fit, from 0 to the size of the axis, are a run error, and nothing is written. Rows of " +
		"the full size of the axis, at 0, replace the whole state.",
	Operands: "state, rows, pos, sequence?",
	Updates:  true,
	Infer: func(s ir.Sig[KVAppendAttrs]) (ir.Type, error) {
		state, rows, pos, axis := s.In[0], s.In[1], s.In[2], s.Attrs.Axis
		if err := checkAxis(axis, state.Rank()); err != nil {
			return ir.Type{}, err
		}
		if rows.DType != state.DType || rows.Rank() != state.Rank() {
			return ir.Type{}, fmt.Errorf("rows are %v; want the element type and rank of state, %v", rows, state)
		}
		for i, d := range rows.Shape {
			if i != axis && i != 0 && d != state.Shape[i] {
				return ir.Type{},
					ir.Differ(d, state.Shape[i], "rows are %v; want the sizes of state, %v, but on axis %d", rows,
						state, axis)
			}
		}
		sequence := s.In[KVAppendSequence]
		for _, i := range []int{0, axis} {
			if i < axis && sequence.Present() { // several elements may write to one sequence
				continue
			}
			if _, hi := s.Syms.Bounds(rows.Shape[i]); rows.Shape[i] != state.Shape[i] &&
				(hi > state.Shape[i].Const || !state.Shape[i].IsStatic()) {
				return ir.Type{}, fmt.Errorf("rows are %v, up to %d on axis %d; state, %v, has no place for so many",
					rows, hi, i, state)
			}
		}
		each := axis > 0 && pos.Rank() == 1 && pos.Shape[0] == rows.Shape[0]
		if pos.DType != dtype.I32 && pos.DType != dtype.I64 || pos.Rank() != 0 && !each {
			want := "i32[] or i64[]"
			if axis > 0 {
				want += fmt.Sprintf(", or one number for each of %v sequences", rows.Shape[0])
			}
			return ir.Type{}, fmt.Errorf("pos is %v; want %s", pos, want)
		}
		if !sequence.Present() {
			return state, nil
		}
		if axis == 0 {
			return ir.Type{}, fmt.Errorf("has an operand sequence with axis 0; want it with another axis")
		}
		return state, vectorOf("sequence", sequence, dtype.I32, rows.Shape[0])
	},
	Eval: func(a KVAppendAttrs, in []*tensor.Array, out *tensor.Array) error {
		state, rows, pos := in[0], in[1], in[2].Ints
		have, n := state.Shape[a.Axis], rows.Shape[a.Axis]
		if err := CheckAppend(pos, n, have, a.Axis); err != nil {
			return err
		}
		var sequence []int64
		if in[KVAppendSequence] != nil {
			sequence = in[KVAppendSequence].Ints
			if err := CheckSequences(sequence, state.Shape[0]); err != nil {
				return err
			}
		}
		copyArray(out, state)
		inner, outer := tensor.Numel(state.Shape[a.Axis+1:]), tensor.Numel(rows.Shape[:a.Axis])
		for o := range outer {
			at, to := pos[o*len(pos)/outer], o
			if sequence != nil {
				each := outer / len(sequence)
				to = int(sequence[o/each])*each + o%each
			}
			copyRange(out, (to*have+int(at))*inner, rows, o*n*inner, n*inner)
		}
		return nil
	},
	FLOPs: noFLOPs[KVAppendAttrs],
	Tol:   exact[KVAppendAttrs],
	Cases: func() []ir.Case[KVAppendAttrs] {
		c := func(axis int, state, rows, pos ir.Type, sequence ...ir.Type) ir.Case[KVAppendAttrs] {
			last := float64(state.Shape[axis].Const - rows.Shape[axis].Const)
			fill := []ir.Range{{Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: 0, Hi: last}}
			if !state.DType.IsFloat() {
				fill[0], fill[1] = ir.Range{Lo: 0, Hi: 3}, ir.Range{Lo: 0, Hi: 3}
			}
			if len(sequence) > 0 {
				fill = append(fill, ir.Range{Lo: 0, Hi: float64(state.Shape[0].Const - 1)})
			}
			return ir.Case[KVAppendAttrs]{Attrs: KVAppendAttrs{axis},
				In: append([]ir.Type{state, rows, pos}, sequence...), Fill: fill}
		}
		cases := []ir.Case[KVAppendAttrs]{
			c(0, f32(7), f32(1), i32()), c(0, f32(5, 3), f32(5, 3), i32()), c(1, f32(2, 9, 3), f32(2, 4, 3), i64()),
			c(2, f32(1, 3, 17, 8), f32(1, 3, 1, 8), i32()),
			c(2, f32(2, 2, 65, 5), f32(2, 2, 33, 5), i32()), c(1, f32(3, 4), f32(3, 0), i32()),
			c(1, f32(0, 4), f32(0, 2), i32()), c(1, f32(2, 3, 700), f32(2, 2, 700), i32()),
		}
		cases = append(cases, c(1, f32(4, 9, 8), f32(3, 2, 8), i32(3)), c(1, f32(3, 9, 5), f32(3, 1, 5), i64(3)),
			c(2, f32(5, 3, 17, 4), f32(2, 3, 4, 4), i32(2)), c(2, f32(3, 2, 6), f32(2, 2, 1), i32()),
			c(1, f32(2, 4), f32(0, 2), i32(0)), c(1, f32(9, 7, 8), f32(4, 1, 8), i32(4), i32(4)),
			c(1, f32(5, 9, 3), f32(1, 4, 3), i32(1), i32(1)), c(2, f32(6, 3, 17, 4), f32(2, 3, 4, 4), i32(2), i32(2)),
			c(1, f32(3, 9, 8), f32(3, 5, 8), i32(), i32(3)), c(1, f32(3, 9, 8), f32(0, 5, 8), i32(0), i32(0)),
			c(1, f32(150, 3, 8), f32(150, 1, 8), i32(150), i32(150)),
			c(1, f32(200, 5, 1), f32(70, 2, 1), i32(70), i32(70)),
			c(1, f32(3, 4, 8), f32(12, 1, 8), i32(12), i32(12)), c(1, f32(2, 5, 3), f32(70, 2, 3), i32(70), i32(70)))
		for _, d := range elementTypes() {
			cases = append(cases, c(1, ir.TypeOf(d, 2, 6, 3), ir.TypeOf(d, 2, 2, 3), i32()),
				c(1, ir.TypeOf(d, 3, 6, 3), ir.TypeOf(d, 2, 1, 3), i32(2)))
		}
		return cases
	},
})

// CheckAppend checks the positions at which n rows each are written to an axis of size have.
func CheckAppend[T int32 | int64](pos []T, n, have, axis int) error {
	for _, at := range pos {
		if at < 0 || int64(at) > int64(have-n) {
			return fmt.Errorf("%d rows at %d do not fit 0 to %d of axis %d", n, at, have, axis)
		}
	}
	return nil
}

// CheckSequences checks the numbers of the sequences to which rows are written. have is the number that the state has.
func CheckSequences[T int32 | int64](sequences []T, have int) error {
	for i, s := range sequences {
		if s < 0 || int64(s) >= int64(have) {
			return fmt.Errorf("sequence %d of element %d is out of range 0 to %d", s, i, have-1)
		}
	}
	return nil
}

// KVAppend adds an op that writes rows to pos, pos+1, ... of an axis of state, and returns the new value of state. pos
// is one number, or one for each element of axis 0 of rows.
func KVAppend(state, rows, pos *ir.Node, axis int) *ir.Node {
	return KVAppendTo(state, rows, pos, nil, axis)
}

// KVAppendTo is KVAppend with the index in axis 0 of state that each element of axis 0 of rows takes. A nil sequence
// means their own.
func KVAppendTo(state, rows, pos, sequence *ir.Node, axis int) *ir.Node {
	return state.Graph.Add(KVAppendDef, KVAppendAttrs{fromEnd(axis, state)}, state, rows, pos, sequence)
}

var _ = ir.Gradient(KVAppendDef, func(*ir.Node, []*ir.Node) ([]*ir.Node, error) {
	return nil, fmt.Errorf("has no gradient: it updates a state, and values that a state keeps between runs have none")
})
