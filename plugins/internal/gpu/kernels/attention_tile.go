package kernels

import (
	"fmt"
)

// AttentionTile is a shape of the tiled attention kernel. A workgroup has LQ x LK invocations, each with TQ queries and
// TK keys of a tile.
type AttentionTile struct {
	LQ, LK int // LK must be a multiple of four
	TQ, TK int // TQ must be a multiple of four
	Depth  int // values of the head dim staged in workgroup memory at a time, a multiple of four
	Body   int // unrolled values of the head dim per loop iteration: a divisor of Depth, a multiple of four
	// keys per invocation whose weights are in workgroup memory at a time: 1, or 2 or 4 if TK is a multiple of four
	Span int
}

// Queries and Keys are the numbers of queries of a workgroup and of keys of a tile.
func (t AttentionTile) Queries() int { return t.LQ * t.TQ }

// Keys: see Queries.
func (t AttentionTile) Keys() int { return t.LK * t.TK }

// Threads is the number of invocations in a workgroup.
func (t AttentionTile) Threads() int { return t.LQ * t.LK }

// String returns QUERIESxKEYS/TQxTK/dDEPTH/sSPAN.
func (t AttentionTile) String() string {
	return fmt.Sprintf("%dx%d/%dx%d/d%d/s%d", t.Queries(), t.Keys(), t.TQ, t.TK, t.Depth, t.Span)
}

// attentionShape is a tile for head dim D. The template reads its methods.
type attentionShape struct {
	AttentionTile
	D int
}

// DP is the head dim, padded so that parts and lanes divide it evenly.
func (s attentionShape) DP() int {
	unit := max(s.Depth, s.LK)
	return ceilDiv(s.D, unit) * unit
}

// Parts is the number of parts of the head dim, each of Depth values. Bodies is the number of loop iterations in a
// part.
func (s attentionShape) Parts() int    { return s.DP() / s.Depth }
func (s attentionShape) LastPart() int { return s.Parts() - 1 }
func (s attentionShape) Bodies() int   { return s.Depth / s.Body }

// KeyParts is the number of parts of a tile, each with PartRows keys, whose weights and values are staged in workgroup
// memory together.
func (s attentionShape) KeyParts() int { return s.TK / s.Span }
func (s attentionShape) PartRows() int { return s.LK * s.Span }

// QueryVecs and Rows are the vectors of four queries of a workgroup and of an invocation.
func (s attentionShape) QueryVecs() int { return s.Queries() / 4 }
func (s attentionShape) Rows() int      { return s.TQ / 4 }

// Pairs reports whether neighbouring lanes have neighbouring queries, which suits invocations with many queries.
func (s attentionShape) Pairs() bool { return s.Rows() > 1 && s.LQ%2 == 0 }

// VecKeys and SingleKeys are an invocation's keys: first vectors of four, LK of which are adjacent, then single keys.
func (s attentionShape) VecKeys() int    { return s.TK / 4 }
func (s attentionShape) SingleKeys() int { return s.TK % 4 }

// Cols is the number of result columns of an invocation, laid out like its keys.
func (s attentionShape) Cols() int       { return s.DP() / s.LK }
func (s attentionShape) VecCols() int    { return s.Cols() / 4 }
func (s attentionShape) SingleCols() int { return s.Cols() % 4 }

// Key and Col are the WGSL names of key or column j of an invocation. KeyAt and ColAt are its index in the tile or in
// the result.
func (s attentionShape) Key(j int) string   { return laneName(j, s.VecKeys()) }
func (s attentionShape) Col(j int) string   { return laneName(j, s.VecCols()) }
func (s attentionShape) KeyAt(j int) string { return s.laneAt(j, s.VecKeys()) }
func (s attentionShape) ColAt(j int) string { return s.laneAt(j, s.VecCols()) }

// SingleKey and SingleCol are the index of the vector that contains the first of the single keys or columns j.
func (s attentionShape) SingleKey(j int) int { return (s.VecKeys()*4 + j) * s.LK / 4 }
func (s attentionShape) SingleCol(j int) int { return (s.VecCols()*4 + j) * s.LK / 4 }

func laneName(j, vecs int) string {
	if v := j / 4; v < vecs {
		return fmt.Sprintf("b%d[%d]", v, j%4)
	}
	return fmt.Sprintf("e%d", j%4)
}

func (s attentionShape) laneAt(j, vecs int) string {
	if v := j / 4; v < vecs {
		return fmt.Sprintf("(tx + %du) * 4u + %du", v*s.LK, j%4)
	}
	return fmt.Sprintf("tx + %du", j*s.LK)
}

// attentionPass is a round in which each invocation fetches at most one unit (four rows x four values) of q or k.
type attentionPass struct {
	Index         int
	First         int  // unit that invocation 0 fetches
	A, Mixed      bool // A: all are units of q; Mixed: of q and of k
	Some          bool // some invocations fetch nothing
	UnitsA, Units int  // UnitsA: units of q; Units: units of q and k
}

// Passes lists the rounds in which the invocations fetch one part of q and k.
func (s attentionShape) Passes() (out []attentionPass) {
	a := s.QueryVecs() * s.Depth / 4
	all := a + s.Keys()*s.Depth/16
	for first := 0; first < all; first += s.Threads() {
		last := first + s.Threads()
		out = append(
			out, attentionPass{Index: len(out), First: first, A: last <= a, Mixed: first < a && last > a,
				Some: last > all, UnitsA: a, Units: all})
	}
	return out
}

// UnitsV is the number of vectors in a part of v. They are fetched in PassesV rounds; in round i, SomeV(i), some
// invocations fetch nothing.
func (s attentionShape) UnitsV() int      { return s.PartRows() * s.DP() / 4 }
func (s attentionShape) PassesV() int     { return ceilDiv(s.UnitsV(), s.Threads()) }
func (s attentionShape) SomeV(i int) bool { return (i+1)*s.Threads() > s.UnitsV() }

// Loops is Shader.Loops for that number of keys.
func (s attentionShape) Loops(keys int) int {
	part := loop(s.Bodies(), 0)
	weights := loop(s.PartRows(), 0) // the slow path for NaN and infinite values
	return loop(ceilDiv(keys, s.Keys()), loop(s.Parts(), part)+loop(s.KeyParts(), weights))
}

// The shapes to choose from. They are limited by workgroup memory (on a large GPU, the workgroups on a processor share
// about 64 KB) and by 255 registers per invocation.
var (
	attentionLarge = AttentionTile{LQ: 8, LK: 16, TQ: 8, TK: 8, Depth: 16, Body: 16, Span: 2}
	// if the columns of the result are read one by one
	attentionColumns = AttentionTile{LQ: 16, LK: 16, TQ: 8, TK: 8, Depth: 16, Body: 8, Span: 1}
	// if the keys of a window would leave much of the large tile empty
	attentionWindow = AttentionTile{LQ: 16, LK: 8, TQ: 4, TK: 5, Depth: 16, Body: 16, Span: 1}
	// for few queries or keys
	attentionFew = AttentionTile{LQ: 4, LK: 8, TQ: 4, TK: 4, Depth: 8, Body: 4, Span: 1}
	// short code: software adapters take a second to compile a thousand lines
	attentionShort = AttentionTile{LQ: 2, LK: 8, TQ: 4, TK: 4, Depth: 4, Body: 4, Span: 1}
)

// AttentionTiles lists all shapes. The last one is for software adapters.
var AttentionTiles = []AttentionTile{attentionLarge, attentionColumns, attentionWindow, attentionFew, attentionShort}

// chooseAttention returns the shape for a head dim and numbers of queries and keys. ok is false if no shape fits the
// device.
func chooseAttention(d, queries, keys int, l Limits) (s attentionShape, ok bool) {
	s = attentionShape{attentionLarge, d}
	padded := func(t AttentionTile) int { return ceilDiv(keys, t.Keys()) * t.Keys() }
	switch {
	case l.AttentionTile != nil:
		s.AttentionTile = *l.AttentionTile
	case queries <= 32 || keys <= 32:
		s.AttentionTile = attentionFew
	case padded(attentionWindow)*10 < padded(attentionLarge)*9:
		s.AttentionTile = attentionWindow
	case s.SingleCols() > 0:
		s.AttentionTile = attentionColumns // two multiplications per single read instead of one
	}
	if !s.fits(l) {
		s.AttentionTile = attentionFew
	}
	return s, s.fits(l)
}

// fits reports whether the operands fit in workgroup memory, and an invocation's part of the result in registers.
func (s attentionShape) fits(l Limits) bool {
	return s.bytes() <= l.WorkgroupStorage && s.Rows()*s.Cols() <= 20
}
