package kernels

import (
	"fmt"
)

// AttentionTile is a shape of the tiled attention: LQ x LK invocations have TQ queries each, and TK keys of a tile.
type AttentionTile struct {
	LQ, LK int // LK a multiple of four
	TQ, TK int // multiples of four
	Depth  int // values of the head dim that pass through workgroup memory at a time, a multiple of four
}

// Queries and Keys are those of a workgroup and of a tile.
func (t AttentionTile) Queries() int { return t.LQ * t.TQ }

// Keys: see Queries.
func (t AttentionTile) Keys() int { return t.LK * t.TK }

// Threads is the number of invocations.
func (t AttentionTile) Threads() int { return t.LQ * t.LK }

// String is the tile's queries and keys, those of an invocation, and the depth.
func (t AttentionTile) String() string {
	return fmt.Sprintf("%dx%d/%dx%d/d%d", t.Queries(), t.Keys(), t.TQ, t.TK, t.Depth)
}

// attentionShape is a tile for a head dim D; its methods are what the template reads.
type attentionShape struct {
	AttentionTile
	D int
}

// DP is the head dim, padded so that parts and lanes share it evenly.
func (s attentionShape) DP() int {
	unit := max(s.Depth, s.LK)
	return ceilDiv(s.D, unit) * unit
}

// Parts of the head dim.
func (s attentionShape) Parts() int    { return s.DP() / s.Depth }
func (s attentionShape) LastPart() int { return s.Parts() - 1 }

// Vectors of four: queries of the workgroup, queries of an invocation, the longer of a row of k and of v.
func (s attentionShape) QueryVecs() int { return s.Queries() / 4 }
func (s attentionShape) Rows() int      { return s.TQ / 4 }
func (s attentionShape) RowVecs() int   { return max(s.Keys(), s.DP()) / 4 }

// Fours of rows in workgroup memory, and of those that weights take.
func (s attentionShape) Fours() int  { return max(s.Depth, s.LK) / 4 }
func (s attentionShape) FoursP() int { return s.LK / 4 }

// Cols are the columns of the result that an invocation has: vectors of four, LK of them side by side, then single ones.
func (s attentionShape) Cols() int       { return s.DP() / s.LK }
func (s attentionShape) VecCols() int    { return s.Cols() / 4 }
func (s attentionShape) ScalarCols() int { return s.Cols() % 4 }

// Col names column j of an invocation among what it read; ColAt is where it lies in the result.
func (s attentionShape) Col(j int) string {
	if v := j / 4; v < s.VecCols() {
		return fmt.Sprintf("b%d[%d]", v, j%4)
	}
	return fmt.Sprintf("e%d", j%4)
}
func (s attentionShape) ColAt(j int) string {
	if v := j / 4; v < s.VecCols() {
		return fmt.Sprintf("(tx + %du) * 4u + %du", v*s.LK, j%4)
	}
	return fmt.Sprintf("tx + %du", j*s.LK)
}

// ScalarVec is the vector with the first of single columns j.
func (s attentionShape) ScalarVec(j int) int { return (s.VecCols()*4 + j) * s.LK / 4 }

// attentionPass is a round in which each invocation fetches at most one unit of q or k.
type attentionPass struct {
	Index         int
	First         int  // unit of invocation 0
	A, Mixed      bool // units of q, or of both
	Some          bool // some invocations have none
	UnitsA, Units int  // of q, and of both
}

// Passes are the rounds in which the invocations fetch a part of q and of k.
func (s attentionShape) Passes() (out []attentionPass) {
	a := s.QueryVecs() * s.Depth / 4
	all := a + s.Keys()*s.Depth/16
	for first := 0; first < all; first += s.Threads() {
		last := first + s.Threads()
		out = append(out, attentionPass{Index: len(out), First: first, A: last <= a, Mixed: first < a && last > a, Some: last > all, UnitsA: a, Units: all})
	}
	return out
}

// UnitsV are the vectors of a part of v, fetched in PassesV rounds.
func (s attentionShape) UnitsV() int      { return s.LK * s.DP() / 4 }
func (s attentionShape) PassesV() int     { return ceilDiv(s.UnitsV(), s.Threads()) }
func (s attentionShape) SomeV(i int) bool { return (i+1)*s.Threads() > s.UnitsV() }

// bytes of workgroup memory.
func (s attentionShape) bytes() int {
	return 16 * s.Fours() * (4*(s.QueryVecs()+1) + 2 + 4*s.RowVecs() + 2)
}

// AttentionTiles are the shapes to choose from: for many queries and keys, for many keys where columns of the result are read
// one by one, and for few queries or keys.
var AttentionTiles = []AttentionTile{
	{LQ: 16, LK: 16, TQ: 4, TK: 8, Depth: 16},
	{LQ: 16, LK: 16, TQ: 8, TK: 8, Depth: 16},
	{LQ: 4, LK: 8, TQ: 4, TK: 4, Depth: 8},
}

// chooseAttention is the tile for a head dim and so many queries and keys; ok is false where it does not fit the device.
func chooseAttention(d, queries, keys int, l Limits) (s attentionShape, ok bool) {
	s = attentionShape{AttentionTiles[0], d}
	switch {
	case l.AttentionTile != nil:
		s.AttentionTile = *l.AttentionTile
	case queries <= 32 || keys <= 32:
		s.AttentionTile = AttentionTiles[2]
	case s.ScalarCols() > 0 && queries >= 1024 && keys >= 1024:
		s.AttentionTile = AttentionTiles[1] // twice the products for each single read
	}
	if !s.fits(l) {
		s.AttentionTile = AttentionTiles[2]
	}
	return s, s.fits(l)
}

// fits: the operands in workgroup memory, and an invocation's part of the result in registers.
func (s attentionShape) fits(l Limits) bool {
	return s.bytes() <= l.WorkgroupStorage && s.Rows()*s.Cols() <= 20
}
