package kernels

import (
	"fmt"
	"strconv"
	"strings"
)

// The layout of an attention tile in workgroup memory: rows of q, k, weights or v in groups of four, and the groups in
// blocks with LK weights. The device clamps every index that varies. With two levels, a loop over blocks varies only
// one index.

// FoursA and FoursB are the groups of four rows in a block. BlocksA and BlocksB are the numbers of blocks.
func (s attentionShape) FoursA() int  { return s.LK / 4 }
func (s attentionShape) FoursB() int  { return s.LK / 4 / s.Halves() }
func (s attentionShape) BlocksA() int { return max(ceilDiv(s.Depth/4, s.FoursA()), s.Span) }
func (s attentionShape) BlocksB() int { return max(ceilDiv(s.Depth/4, s.FoursB()), s.Span) }

// RowVecs is the number of vectors in a row of k, or in Halves rows of v.
func (s attentionShape) RowVecs() int { return max(s.Keys(), s.DP()) / 4 }

// Halves is the number of rows of v in one row of memory: 2 if rows of k are long enough and there are several blocks,
// else 1.
func (s attentionShape) Halves() int {
	if s.Span > 1 && s.Keys() >= 2*s.DP() && s.LK%8 == 0 {
		return 2
	}
	return 1
}

// bytes is the size of the tiles in workgroup memory, without the table of key offsets.
func (s attentionShape) bytes() int {
	return 16 * (s.BlocksA()*s.FoursA()*(4*(s.QueryVecs()+1)+2) + s.BlocksB()*s.FoursB()*(4*s.RowVecs()+2))
}

// A and B return the WGSL of a group of four rows. four is an expression for its index.
func (s attentionShape) A(four string) string {
	return "tile_a" + twoLevels(four, s.FoursA(), s.BlocksA())
}

// B: see A.
func (s attentionShape) B(four string) string {
	return "tile_b" + twoLevels(four, s.FoursB(), s.BlocksB())
}

func twoLevels(four string, fours, blocks int) string {
	if k, err := strconv.Atoi(strings.TrimSuffix(four, "u")); err == nil {
		return fmt.Sprintf("[%d][%d]", k/fours, k%fours)
	}
	switch {
	case blocks == 1:
		return fmt.Sprintf("[0][%s]", four)
	case fours == 1:
		return fmt.Sprintf("[%s][0]", four)
	}
	return fmt.Sprintf("[(%s) / %du][(%s) %% %du]", four, fours, four, fours)
}

// QRow and KRow return the WGSL of the rows with value d of a body (see AttentionTile.Body).
func (s attentionShape) QRow(d int) string {
	return fmt.Sprintf("%s.rows[%d]", s.A(s.bodyFour(d)), d%4)
}

// KRow: see QRow.
func (s attentionShape) KRow(d int) string {
	return fmt.Sprintf("%s.rows[%d]", s.B(s.bodyFour(d)), d%4)
}

func (s attentionShape) bodyFour(d int) string {
	if s.Bodies() == 1 {
		return fmt.Sprintf("%du", d/4)
	}
	return fmt.Sprintf("body * %du + %du", s.Body/4, d/4)
}

// PRow and VRow return the WGSL of the rows with weight and value k of a block. VAt is the offset of value k in its
// row.
func (s attentionShape) PRow(k int) string {
	return fmt.Sprintf("tile_a[%s][%d].rows[%d]", s.block(), k/4, k%4)
}

// VRow: see PRow.
func (s attentionShape) VRow(k int) string {
	row := k / s.Halves()
	return fmt.Sprintf("tile_b[%s][%d].rows[%d]", s.block(), row/4, row%4)
}

// VAt: see PRow.
func (s attentionShape) VAt(k int) int { return k % s.Halves() * s.DP() / 4 }

func (s attentionShape) block() string {
	if s.Span == 1 {
		return "0"
	}
	return "block"
}

// ValueRow returns the WGSL of the row with value v of a part, and ValueAt the offset in it. v is a WGSL variable.
func (s attentionShape) ValueRow(v string) string {
	if s.Halves() == 2 {
		return fmt.Sprintf("%s.rows[%s / 2u %% 4u]", s.B(v+" / 8u"), v)
	}
	return fmt.Sprintf("%s.rows[%s %% 4u]", s.B(v+" / 4u"), v)
}

// ValueAt: see ValueRow.
func (s attentionShape) ValueAt(v string) string {
	if s.Halves() == 2 {
		return fmt.Sprintf("%s %% 2u * %du", v, s.DP()/4)
	}
	return "0u"
}
