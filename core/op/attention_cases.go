package op

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

func attentionCases() []ir.Case[AttentionAttrs] {
	c := func(a AttentionAttrs, in ...ir.Type) ir.Case[AttentionAttrs] {
		if a.Mask == "" {
			a.Mask = MaskNone
		}
		return ir.Case[AttentionAttrs]{Attrs: a, In: in}
	}
	none := ir.Type{}
	// the position is from lo to hi
	at := func(lo, hi float64, a AttentionAttrs, q, k, v, position ir.Type) ir.Case[AttentionAttrs] {
		x := c(a, q, k, v, none, position)
		x.Fill = []ir.Range{{Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {Lo: -2, Hi: 2}, {}, {Lo: lo, Hi: hi}}
		return x
	}
	// operands of i32 are from lo to hi
	more := func(lo, hi float64, a AttentionAttrs, in ...ir.Type) ir.Case[AttentionAttrs] {
		x := c(a, in...)
		for _, t := range in {
			r := ir.Range{Lo: -2, Hi: 2}
			if t.Equal(i32()) || t.Equal(i32(2)) {
				r = ir.Range{Lo: lo, Hi: hi}
			} else if !t.DType.IsFloat() {
				r = ir.Range{Lo: 0, Hi: 1}
			}
			x.Fill = append(x.Fill, r)
		}
		return x
	}
	// sequence and the position, from lo to hi; k is v, too
	of := func(lo, hi float64, a AttentionAttrs, q, k, position ir.Type) ir.Case[AttentionAttrs] {
		x := at(lo, hi, a, q, k, k, position)
		x.In = append(x.In, none, none, ir.Type{DType: dtype.I32, Shape: q.Shape[:1]})
		x.Fill = append(x.Fill, ir.Range{}, ir.Range{}, ir.Range{Lo: 0, Hi: float64(k.Shape[0].Const - 1)})
		return x
	}
	// pages, so many for each element, and the position, from lo to hi; k is v, too
	in := func(pages int64, lo, hi float64, a AttentionAttrs, q, k, position ir.Type) ir.Case[AttentionAttrs] {
		x := at(lo, hi, a, q, k, k, position)
		x.In = append(x.In, none, none, none, i32(q.Shape[0].Const, pages))
		x.Fill = append(x.Fill, ir.Range{}, ir.Range{}, ir.Range{}, ir.Range{Lo: 0, Hi: float64(k.Shape[0].Const - 1)})
		return x
	}
	q, k := f32(2, 5, 12), f32(2, 7, 12)
	g := f32(2, 7, 6)
	return []ir.Case[AttentionAttrs]{
		c(AttentionAttrs{Heads: 1, Layout: BSE}, f32(1, 1, 1), f32(1, 1, 1), f32(1, 1, 1)),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, q, k, k),
		c(AttentionAttrs{Heads: 4, Layout: BSHD, Scale: 0.3, Softcap: 2}, f32(2, 4, 4, 3), f32(2, 9, 4, 3),
			f32(2, 9, 4, 3)),
		c(AttentionAttrs{Heads: 2, Layout: BHSD}, f32(1, 2, 33, 17), f32(1, 2, 70, 17), f32(1, 2, 70, 17)),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE}, q, g, g),
		c(AttentionAttrs{Heads: 4, KVHeads: 1, Layout: BHSD, Mask: MaskCausal}, f32(1, 4, 3, 8), f32(1, 1, 6, 8),
			f32(1, 1, 6, 8)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, q, k, k),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, k, q, q), // the first queries have no keys
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal, UseQOffset: true}, q, k, k),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskSliding, Window: 2}, q, k, k),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskSliding, Window: 1, UseQOffset: true, QOffset: 1}, q, k, k),
		at(0, 2, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, q, k, k, i32()),
		at(-2, 8, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BHSD, Mask: MaskCausal}, f32(2, 4, 1, 8),
			f32(2, 2, 37, 8), f32(2, 2, 37, 8), i32()),
		at(3, 9, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskSliding, Window: 2}, q, k, k, i32()),
		at(100, 400, AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskCausal}, f32(1, 2, 3, 64), f32(1, 2, 300, 64),
			f32(1, 2, 300, 64), i32()),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, bools(2, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, bools(1, 5, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, f32(2, 1, 5, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskBias}, q, k, k, f32(2, 3, 5, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskBias}, q, k, k, f32(1, 1, 1, 7)),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, f32(2, 5, 12), f32(2, 0, 12), f32(2, 0, 12)),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, f32(2, 0, 12), k, k),
		c(AttentionAttrs{Heads: 2, Layout: BSE}, f16(1, 3, 8), f16(1, 5, 8), f16(1, 5, 8)),
		c(AttentionAttrs{Heads: 1, Layout: BHSD}, f32(1, 1, 130, 64), f32(1, 1, 130, 64), f32(1, 1, 130, 64)),
		// Values of another width than keys.
		c(AttentionAttrs{Heads: 2, Layout: BHSD}, f32(2, 2, 5, 8), f32(2, 2, 7, 8), f32(2, 2, 7, 3)),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskCausal}, f32(2, 5, 16), f32(2, 7, 8),
			f32(2, 7, 12)),
		c(AttentionAttrs{Heads: 2, Layout: BSHD}, f32(1, 40, 2, 16), f32(1, 70, 2, 16), f32(1, 70, 2, 24)),
		// Caches: positions and numbers of keys, for all and for each batch element.
		more(0, 7, AttentionAttrs{Heads: 3, Layout: BSE}, q, k, k, none, none, i32()),
		more(0, 7, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, q, k, k, none, none, i32(2)),
		more(0, 7, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskSliding, Window: 3}, q, g, g, none,
			i32(2), i32()),
		more(1, 7, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCustom}, q, k, k, bools(2, 7), none, i32(2)),
		more(1, 7, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskBias}, q, k, k, f32(1, 1, 5, 7), none, i32(2)),
		more(100, 1200, AttentionAttrs{Heads: 8, KVHeads: 2, Layout: BHSD, Mask: MaskCausal}, f32(2, 8, 1, 64),
			f32(2, 2, 1200, 64), f32(2, 2, 1200, 64), none, none, i32(2)),
		at(900, 1300, AttentionAttrs{Heads: 4, KVHeads: 1, Layout: BSHD, Mask: MaskSliding, Window: 300},
			f32(2, 3, 4, 32), f32(2, 1200, 1, 32), f32(2, 1200, 1, 32), i32(2)),
		at(200, 270, AttentionAttrs{Heads: 2, Layout: BHSD, Mask: MaskCausal}, f32(1, 2, 40, 64), f32(1, 2, 300, 64),
			f32(1, 2, 300, 64), i32()),
		// Caches with room for more sequences.
		at(-1, 7, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskCausal}, f32(2, 1, 16), f32(3, 7, 8),
			f32(3, 7, 8), i32(2)),
		more(0, 7, AttentionAttrs{Heads: 2, Layout: BHSD}, f32(1, 2, 5, 4), f32(3, 2, 7, 4), f32(3, 2, 7, 4), none,
			none, i32()),
		c(AttentionAttrs{Heads: 3, Layout: BSE}, f32(0, 2, 12), k, k),
		// Caches whose sequences are chosen.
		of(0, 40, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskCausal}, f32(3, 1, 64), f32(5, 40, 32),
			i32(3)),
		of(0, 40, AttentionAttrs{Heads: 2, Layout: BSE, Mask: MaskSliding, Window: 9}, f32(3, 12, 32), f32(3, 70, 32),
			i32(3)),
		of(0, 9, AttentionAttrs{Heads: 1, Layout: BHSD, Mask: MaskCausal}, f32(2, 1, 3, 5), f32(4, 1, 9, 5), i32()),
		of(500, 1300, AttentionAttrs{Heads: 2, KVHeads: 1, Layout: BSE, Mask: MaskCausal}, f32(2, 2, 32),
			bf16(3, 1200, 16), i32(2)),
		of(0, 40, AttentionAttrs{Heads: 1, Layout: BSE, Mask: MaskCausal}, f32(0, 1, 8), f32(3, 9, 8), i32(0)),
		// Caches in pages.
		in(3, 0, 20, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Mask: MaskCausal}, f32(3, 1, 64), f32(5, 7, 32),
			i32(3)),
		in(9, 500, 575, AttentionAttrs{Heads: 2, KVHeads: 1, Layout: BSE, Mask: MaskCausal}, f32(2, 2, 32),
			f32(12, 64, 16), i32(2)),
		in(5, 100, 170, AttentionAttrs{Heads: 2, Layout: BSE, Mask: MaskSliding, Window: 45}, f32(2, 33, 32),
			f32(4, 32, 32), i32(2)),
		in(2, 0, 250, AttentionAttrs{Heads: 2, KVHeads: 1, Layout: BSE, Mask: MaskCausal, Softcap: 3}, f32(1, 70, 64),
			bf16(3, 128, 32), i32()),
		in(11, 20, 30, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BHSD, Mask: MaskCausal}, f32(2, 4, 3, 8),
			f32(3, 2, 3, 8), i32()),
		in(4, 2, 9, AttentionAttrs{Heads: 2, Layout: BSHD, Mask: MaskCausal}, f32(2, 9, 2, 16), f32(1, 5, 2, 16),
			i32(2)),
		in(2, 2, 9, AttentionAttrs{Heads: 1, Layout: BSE, Mask: MaskCausal, Packed: []int{0, 4, 8}, HeadDim: 4},
			f32(2, 2, 12), f32(3, 5, 12), i32(2)),
		in(0, 2, 9, AttentionAttrs{Heads: 1, Layout: BSE, Mask: MaskCausal}, f32(2, 2, 8), f32(3, 5, 8), i32(2)),
		in(2, 0, 9, AttentionAttrs{Heads: 1, Layout: BSE, Mask: MaskCausal}, f32(0, 1, 8), f32(3, 9, 8), i32(0)),
		// Sinks.
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE}, q, g, g, none, none, none, f32(4)),
		more(-2, 7, AttentionAttrs{Heads: 3, Layout: BSE, Mask: MaskCausal}, q, k, k, none, i32(2), none, f32(3)),
		more(0, 70, AttentionAttrs{Heads: 2, Layout: BHSD}, f32(1, 2, 33, 16), f32(1, 2, 70, 16), f32(1, 2, 70, 16),
			none, none, i32(), f32(2)),
		more(0, 1100, AttentionAttrs{Heads: 2, Layout: BHSD}, f32(2, 2, 2, 16), f32(2, 2, 1100, 16),
			f32(2, 2, 1100, 16), none, none, i32(2), f32(2)),
		c(AttentionAttrs{Heads: 2, Layout: BSE}, f32(1, 3, 8), f32(1, 5, 8), f32(1, 5, 8), none, none, none, f32(2)),
		c(AttentionAttrs{Heads: 2, Layout: BSE}, f32(1, 9, 8), f32(1, 5, 8), f32(1, 5, 8), none, none, none, f32(2)),
		c(AttentionAttrs{Heads: 2, Layout: BSE}, f16(1, 3, 8), f16(1, 5, 8), f16(1, 5, 8), none, none, none, f16(2)),
		// Caches of half floats.
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE}, q, bf16(2, 7, 6), bf16(2, 7, 6)),
		more(3, 40, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BHSD, Mask: MaskCausal}, f32(2, 4, 1, 32),
			f16(2, 2, 40, 32), f16(2, 2, 40, 32), none, none, i32()),
		more(600, 1200, AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BHSD}, f32(1, 4, 1, 64), bf16(1, 2, 1200, 64),
			bf16(1, 2, 1200, 64), none, none, i32()),
		c(AttentionAttrs{Heads: 2, Layout: BSE, Mask: MaskCausal}, f32(1, 40, 32), bf16(1, 40, 32), bf16(1, 40, 32)),
		// Packed rows.
		c(AttentionAttrs{Heads: 3, Layout: BSE, Packed: []int{0, 12, 24}, HeadDim: 4}, f32(2, 5, 36), f32(2, 5, 36),
			f32(2, 5, 36)),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Packed: []int{0, 0, 25}, HeadDim: 3, Mask: MaskCausal}, q,
			g, f32(2, 7, 33)),
		c(AttentionAttrs{Heads: 4, KVHeads: 2, Layout: BSE, Packed: []int{0, 64, 96}, HeadDim: 16, Mask: MaskCausal},
			f32(1, 40, 128), f32(1, 40, 128), f32(1, 40, 128)),
	}
}
