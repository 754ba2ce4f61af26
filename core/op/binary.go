package op

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// binarySpec describes z = f(x, y) on equal element types with NumPy broadcast.
type binarySpec struct {
	name, doc   string
	commutative bool
	tol         func(NoAttrs, []ir.Type, ir.Type) ir.Tolerance
	float       func(a, b float64) float64                 // nil if floats are not allowed
	integer     func(a, b int64) int64                     // nil if integers are not allowed; results wrap
	bits        func(d dtype.DType) func(a, b int64) int64 // replaces integer if the function depends on the type
	logical     func(a, b bool) bool                       // nil if bools are not allowed
	asI32       []dtype.DType                              // see ir.Def.AsI32
	unread      []ir.Unread                                // see ir.Def.Unread
	// name of an integer divisor of 0 in errors; empty if 0 is allowed
	zero string
	fill []ir.Range
}

func binary(b binarySpec) *ir.OpDef {
	if b.float != nil {
		scalars2.add(b.name, b.float)
	}
	var checked []ir.Checked
	if b.zero != "" {
		checked = []ir.Checked{{Operand: 1, Safe: 1, Integers: true}}
	}
	return ir.Define(ir.Def[NoAttrs]{
		Name: b.name, Doc: b.doc, Operands: "a, b", Elementwise: true, Commutative: b.commutative, InPlace: []int{0, 1},
		AsI32: b.asI32, Checked: checked, Unread: func(NoAttrs) []ir.Unread { return b.unread },
		Infer: func(s ir.Sig[NoAttrs]) (ir.Type, error) {
			if err := sameDType(s.In); err != nil {
				return ir.Type{}, err
			}
			if !b.takes(s.In[0].DType) {
				return ir.Type{}, fmt.Errorf("operands are %v; want %s", s.In[0], b.wanted())
			}
			shape, err := broadcast(s.In[0].Shape, s.In[1].Shape)
			return ir.Type{DType: s.In[0].DType, Shape: shape}, err
		},
		Eval: func(_ NoAttrs, in []*tensor.Array, out *tensor.Array) error {
			x, y := in[0], in[1]
			at := [][]int{strides(x.Shape, out.Shape), strides(y.Shape, out.Shape)}
			if n := len(out.Floats); n > 0 && len(x.Floats) == n && len(y.Floats) == n {
				tensor.InParts(n, func(from, to int) {
					for i, v := range x.Floats[from:to] {
						out.Floats[from+i] = b.float(v, y.Floats[from+i])
					}
				})
				return nil
			}
			if out.Floats != nil {
				tensor.WalkRows(out.Shape, at, func(i, n int, p, step []int) {
					for j := range n {
						out.Floats[i+j] = b.float(x.Floats[p[0]+j*step[0]], y.Floats[p[1]+j*step[1]])
					}
				})
				return nil
			}
			integer, zero := b.integerOf(out.DType), false
			tensor.Walk(out.Shape, at, func(i int, p []int) {
				if b.zero != "" && y.Ints[p[1]] == 0 {
					zero = true
					return
				}
				out.Ints[i] = integer(x.Ints[p[0]], y.Ints[p[1]])
			})
			if zero {
				return fmt.Errorf("%s is 0", b.zero)
			}
			return nil
		},
		FLOPs: perElement[NoAttrs](1),
		Tol:   b.tol,
		Cases: func() []ir.Case[NoAttrs] {
			var pairs [][2]ir.Type
			add := func(in ...[2]ir.Type) {
				for _, p := range in {
					if b.takes(p[0].DType) {
						pairs = append(pairs, p)
					}
				}
			}
			if add(broadcastPairs(f32)...); b.float == nil {
				add(broadcastPairs(i32)...)
			}
			add([2]ir.Type{f16(3, 7), f16(7)}, [2]ir.Type{bf16(33), bf16(33)}, [2]ir.Type{f64(5), f64()},
				[2]ir.Type{i32(3, 7), i32(7)},
				[2]ir.Type{i64(9), i64(9)}, [2]ir.Type{u8(9), u8(9)}, [2]ir.Type{u32(9), u32()},
				[2]ir.Type{i8(2, 33), i8(33)},
				[2]ir.Type{i16(35), i16(35)}, [2]ir.Type{bools(3, 21), bools(21)}, [2]ir.Type{bools(40), bools(40)})
			var cases []ir.Case[NoAttrs]
			for _, p := range pairs {
				fill := b.fill
				switch d := p[0].DType; {
				case d == dtype.Bool:
					fill = []ir.Range{{Lo: 0, Hi: 1}, {Lo: 0, Hi: 1}}
				case d.IsInt() && b.zero != "":
					fill = []ir.Range{{Lo: 0, Hi: 100}, {Lo: 1, Hi: 5}}
				}
				cases = append(cases, ir.Case[NoAttrs]{In: p[:], Fill: fill})
			}
			return cases
		},
	})
}

func (b *binarySpec) takes(d dtype.DType) bool {
	switch {
	case d.IsFloat():
		return b.float != nil
	case d == dtype.Bool:
		return b.logical != nil
	}
	return b.integer != nil || b.bits != nil
}

func (b *binarySpec) wanted() string {
	switch {
	case b.logical != nil:
		return "bool or an integer type"
	case b.float == nil:
		return "an integer type"
	case b.integer == nil && b.bits == nil:
		return "a float type"
	}
	return "a number type"
}

// integerOf returns the function for integers of type d, or for bools, which are 0 and 1.
func (b *binarySpec) integerOf(d dtype.DType) func(x, y int64) int64 {
	switch {
	case d == dtype.Bool:
		return func(x, y int64) int64 { return truth(b.logical(x != 0, y != 0)) }
	case b.bits != nil:
		return b.bits(d)
	}
	return b.integer
}

// broadcastPairs returns pairs of operand shapes to test the broadcasts of a binary op.
func broadcastPairs(t func(...int64) ir.Type) [][2]ir.Type {
	return [][2]ir.Type{
		{t(), t()}, {t(0), t(0)}, {t(0), t(1)}, {t(1), t(1)}, {t(17), t(17)}, {t(17), t()}, {t(), t(5)},
		{t(3, 33), t(3, 33)}, {t(3, 33), t(33)}, {t(3, 33), t(3, 1)}, {t(3, 1), t(1, 5)}, {t(2, 3, 4), t(3, 1)},
		{t(2, 1, 4, 1), t(3, 1, 5)}, {t(4, 257), t(4, 257)},
	}
}
