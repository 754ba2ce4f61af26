package op

import "github.com/rlx-go/rlx/core/ir"

func ropeCases() []ir.Case[RopeAttrs] {
	type fill = ir.Range
	unit := fill{Lo: -1, Hi: 1}
	c := func(a RopeAttrs, lo, hi float64, in ...ir.Type) ir.Case[RopeAttrs] { // positions between lo and hi
		if a.Style == "" {
			a.Style = NeoX
		}
		fills := []fill{{Lo: -2, Hi: 2}, unit, unit, unit, {Lo: lo, Hi: hi}}
		return ir.Case[RopeAttrs]{Attrs: a, In: in, Fill: fills[:len(in)]}
	}
	none := ir.Type{} // an absent operand
	base := func(a RopeAttrs) RopeAttrs { a.Base = 10000; return a }
	const far = 1 << 20 // positions of long texts
	return []ir.Case[RopeAttrs]{
		c(base(RopeAttrs{HeadDim: 2, Layout: BSE}), 0, 0, f32(1, 1, 2)),
		c(base(RopeAttrs{HeadDim: 8, Layout: BSE}), 0, 0, f32(2, 5, 24)),
		c(base(RopeAttrs{HeadDim: 8, Layout: BHSD, Style: GPTJ}), 0, far, f32(2, 3, 5, 8), none, none, none, i32()),
		c(base(RopeAttrs{HeadDim: 7, Rot: 4, Layout: BSHD}), -far, far, f32(2, 5, 3, 7), none, none, none, i32(2)),
		c(base(RopeAttrs{HeadDim: 128, Layout: BSE, Factor: 1.5}), 0, far, f32(2, 3, 256), none, none, none, i32(2, 3)),
		c(base(RopeAttrs{HeadDim: 6, Rot: 2, Layout: BSE, Style: GPTJ, Heads: 2, Start: 3}), 0, 100, f32(2, 3, 40),
			none, none, none, i32(2, 3)),
		c(RopeAttrs{HeadDim: 8, Layout: BSE}, 0, far, f32(2, 5, 24), none, none, f32(4), i32()),
		c(RopeAttrs{HeadDim: 8, Layout: BHSD, Factor: 0.75, Style: GPTJ}, -far, far, f32(2, 3, 5, 8), none, none,
			f32(4), i32(2)),
		c(RopeAttrs{HeadDim: 9, Rot: 6, Layout: BSHD}, 0, 0, f32(2, 5, 3, 9), none, none, f32(3)),
		c(RopeAttrs{HeadDim: 8, Layout: BSE}, 0, far, f32(1, 3, 16), none, none, f64(4), i32()),
		c(RopeAttrs{HeadDim: 8, Layout: BSE}, 0, 0, f32(2, 5, 24), f32(5, 4), f32(5, 4)),
		c(RopeAttrs{HeadDim: 8, Layout: BHSD}, 0, 4, f32(2, 3, 5, 8), f32(9, 4), f32(9, 4), none, i32()),
		// tables for all of the head, of which half is used
		c(RopeAttrs{HeadDim: 8, Rot: 4, Layout: BSHD, Style: GPTJ}, 0, 4, f32(2, 5, 3, 8), f32(9, 4), f32(9, 4), none,
			i32(2)),
		c(RopeAttrs{HeadDim: 8, Rot: 4, Layout: BSE}, 0, 6, f32(2, 5, 24), f32(7, 2), f32(7, 2), none, i32(2, 5)),
		c(RopeAttrs{HeadDim: 8, Layout: BSE, Heads: 3, Start: 8}, 0, 4, f32(2, 5, 40), f32(9, 4), f32(9, 4), none,
			i32(2)),
		c(RopeAttrs{HeadDim: 64, Layout: BHSD}, 0, 40, f32(1, 5, 33, 64), f32(80, 32), f32(80, 32), none, i32()),
		c(RopeAttrs{HeadDim: 4, Layout: BSE}, 0, 0, f32(2, 0, 8), f32(3, 2), f32(3, 2)),
		c(RopeAttrs{HeadDim: 4, Layout: BSE}, 0, 0, f32(0, 2, 8), f32(3, 2), f32(3, 2)),
		c(RopeAttrs{HeadDim: 4, Layout: BSE}, 0, 2, f16(2, 2, 8), f32(4, 2), f32(4, 2), none, i32()),
		c(RopeAttrs{HeadDim: 4, Layout: BHSD}, 0, 2, bf16(2, 2, 2, 4), bf16(4, 2), bf16(4, 2), none, i32()),
		c(RopeAttrs{HeadDim: 4, Layout: BHSD}, 0, 2, f64(2, 2, 2, 4), f64(4, 2), f64(4, 2), none, i32()),
		c(base(RopeAttrs{HeadDim: 6, Layout: BSHD}), 0, far, f16(2, 3, 2, 6), none, none, none, i32()),
		c(base(RopeAttrs{HeadDim: 5, Rot: 4, Layout: BSE, Heads: 1, Start: 1}), 0, far, bf16(2, 3, 7), none, none, none,
			i32()),
		c(base(RopeAttrs{HeadDim: 6, Layout: BSHD}), 0, far, f64(2, 3, 2, 6), none, none, none, i32()),
	}
}
