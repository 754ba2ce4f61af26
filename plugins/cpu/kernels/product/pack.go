package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Layout of packed operands: k is divided into blocks of at most KBlock, all but the last of equal size. Within a
// block, A is a sequence of panels of up to mr rows (rows floats per k), and B a sequence of panels of nr columns (nr
// floats per k, zeros past the last column). Panels are written in ascending order, because the transposing copies
// spill into the next panel.

const KBlock = 512 // so that a panel of A stays in the L1 cache

// tileBlockK is KBlock for tiles. A panel of B and the blocks of A that are multiplied with it then fill half of an L1
// cache.
const tileBlockK = 256

// KSplit returns the size of the blocks that k is divided into.
func (w Packing) KSplit(k int) int {
	most, each := KBlock, 16
	if w == Tiled {
		most, each = tileBlockK, TileSide
	}
	blocks := max(1, (k+most-1)/most)
	return max(1, ((k+blocks-1)/blocks+each-1)/each*each)
}

// Spill is how many floats past the end of a packed buffer a copy may overwrite.
const Spill = 16

// PackRows packs one block of k of one panel: dst[l*rows+i] = a[i*lda+l].
func PackRows(s *isa.Set, dst, a []float32, lda, rows, k int) {
	whole := k / s.Lanes * s.Lanes
	if rows > s.Lanes {
		panic("BUG: panel higher than a vector")
	}
	vec.On(s).Transpose(dst, rows, a, lda, rows, whole)
	if whole > 0 && whole < k { // the last vector repeats elements of the one before
		at := k - s.Lanes
		vec.On(s).Transpose(dst[at*rows:], rows, a[at:], lda, rows, s.Lanes)
		return
	}
	for l := whole; l < k; l++ {
		for i := range rows {
			dst[l*rows+i] = a[i*lda+l]
		}
	}
}

// packRowsTrans packs panels of rows of A stored [k, m], one after the other: for a panel of h rows from row r on,
// dst[r*k+l*h+i] = a[l*lda+r+i]. A few rows of k at a time stay in the first-level cache while all panels take their
// parts.
func packRowsTrans(s *isa.Set, dst, a []float32, lda, rows, k int) {
	const few = 32
	for l := 0; l < k; l += few {
		n := min(few, k-l)
		for r, h := 0, 0; r < rows; r += h {
			h = PanelHeight(s, rows-r)
			copyShort(s, dst[r*k+l*h:], h, a[l*lda+r:], lda, n)
		}
	}
}

// copyShort is dst[i*n+j] = src[i*lds+j], i < rows, j < n.
func copyShort(s *isa.Set, dst []float32, n int, src []float32, lds, rows int) {
	i := 0
	if n <= s.Lanes {
		// Whole vectors are written, so the last row is left: what follows it is not ours.
		if len(src) >= s.Lanes {
			i = min(rows-1, (len(src)-s.Lanes)/lds+1)
			vec.On(s).CopyRows(dst, n, src, lds, i)
		}
	}
	for ; i < rows; i++ {
		copy(dst[i*n:i*n+n], src[i*lds:])
	}
}

// packCols packs one block of k of one panel of nr columns of B stored [k, n]: dst[l*nr+j] = b[l*ldb+j], j < cols.
func packCols(s *isa.Set, nr int, dst []float32, b stored.Values, ldb, cols, k int) {
	for l := range k {
		d := dst[l*nr : l*nr+nr]
		switch b.Kind {
		case dtype.F32:
			copy(d, b.Floats[l*ldb:l*ldb+cols])
		default:
			b.Row(s, l*ldb, cols, d)
		}
		clear(d[cols:])
	}
}

// packDepth is the number of values of k that PackColsTrans widens and transposes at a time, in whole blocks of every
// packed type. The widened values and their part of the panel then stay in the first-level cache.
const packDepth = 256

// PackColsTrans packs the same panel from B stored [n, k]: dst[l*nr+j] = b[j*ldb+l], j < cols. buf has lanes*k floats
// if b is not f32.
func PackColsTrans(s *isa.Set, nr int, dst []float32, b stored.Values, ldb, cols, k int, buf []float32) {
	lanes := s.Lanes
	for from := 0; from < k; from += packDepth {
		n := min(packDepth, k-from)
		whole := n / lanes * lanes
		for h := 0; h < nr; h += lanes {
			to, rows := dst[from*nr+h:], min(lanes, cols-h)
			if rows <= 0 {
				for l := range n {
					clear(to[l*nr : l*nr+lanes])
				}
				continue
			}
			src, lds := []float32(nil), ldb
			if b.Kind == dtype.F32 {
				src = b.Floats[h*ldb+from:]
			} else {
				src, lds = buf, n
				b.Rows(s, h*ldb+from, ldb, rows, n, buf, n)
			}
			vec.On(s).Transpose(to, nr, src, lds, rows, whole)
			for l := whole; l < n; l++ {
				for i := range rows {
					to[l*nr+i] = src[i*lds+l]
				}
			}
			if rows < lanes { // lanes past the last column hold anything: their products are not stored
				for l := range n {
					clear(to[l*nr+rows : l*nr+lanes])
				}
			}
		}
	}
}

// packsTogether reports whether packTogether packs B.
func (g *GemmArgs) packsTogether(way Packing) bool {
	return way == Plain && !g.TransB && !g.B.Kind.IsPacked()
}

// packTogether packs adjacent whole panels, at least one, as packB does one by one. A row of several panels is several
// adjacent cache lines. Rows of one panel are single lines, usually in different pages, so the processor does not
// prefetch them.
func (g *GemmArgs) packTogether(s *isa.Set, dst []float32, i, j, k, n, panels int, buf []float32) {
	nr := On(s).NR
	const ahead = 8 // rows
	at, wide := i*g.StrideB+k*g.LDB+j, panels*nr
	for l := range n {
		if vec.On(s).PrefetchRows != nil && g.B.Floats != nil && l+ahead < n {
			vec.On(s).PrefetchRows(uintptr(unsafe.Pointer(&g.B.Floats[at+ahead*g.LDB])), 64, wide/16)
		}
		row := g.B.Row(s, at, wide, buf)
		for q := range panels {
			copy(dst[(q*n+l)*nr:][:nr], row[q*nr:])
		}
		at += g.LDB
	}
}

// panelsTogether is the largest number of panels that packTogether packs at a time.
const panelsTogether = 8
