package kernels

import (
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// Layout of packed operands: k is divided into blocks of at most kBlock, all but the last of equal size. Within a
// block, A is a sequence of panels of up to mr rows (rows floats per k), and B a sequence of panels of nr columns (nr
// floats per k, zeros past the last column). Panels are written in ascending order, because the transposing copies
// spill into the next panel.

const kBlock = 512 // so that a panel of A stays in the L1 cache

// tileBlockK is kBlock for tiles. A panel of B and the blocks of A that are multiplied with it then fill half of an L1
// cache.
const tileBlockK = 256

// kSplit returns the size of the blocks that k is divided into.
func (w packing) kSplit(k int) int {
	most, each := kBlock, 16
	if w == tiled {
		most, each = tileBlockK, tileSide
	}
	blocks := max(1, (k+most-1)/most)
	return max(1, ((k+blocks-1)/blocks+each-1)/each*each)
}

// spill is how many floats past the end of a packed buffer a copy may overwrite.
const spill = 16

// packRows packs one block of k of one panel: dst[l*rows+i] = a[i*lda+l].
func packRows(s *isa.Set, dst, a []float32, lda, rows, k int) {
	whole := k / s.Lanes * s.Lanes
	if rows > s.Lanes {
		panic("BUG: panel higher than a vector")
	}
	vecOn(s).transpose(dst, rows, a, lda, rows, whole)
	for l := whole; l < k; l++ {
		for i := range rows {
			dst[l*rows+i] = a[i*lda+l]
		}
	}
}

// packRowsTrans packs the same panel from A stored [k, m]: dst[l*rows+i] = a[l*lda+i].
func packRowsTrans(dst, a []float32, lda, rows, k int) {
	for l := range k {
		copy(dst[l*rows:l*rows+rows], a[l*lda:])
	}
}

// packCols packs one block of k of one panel of nr columns of B stored [k, n]: dst[l*nr+j] = b[l*ldb+j], j < cols.
func packCols(s *isa.Set, nr int, dst []float32, b Weights, ldb, cols, k int) {
	for l := range k {
		d := dst[l*nr : l*nr+nr]
		switch b.kind {
		case dtype.F32:
			copy(d, b.f32[l*ldb:l*ldb+cols])
		default:
			b.row(s, l*ldb, cols, d)
		}
		clear(d[cols:])
	}
}

// packDepth is the number of values of k that packColsTrans widens and transposes at a time, in whole blocks of every
// packed type. The widened values and their part of the panel then stay in the first-level cache.
const packDepth = 256

// packColsTrans packs the same panel from B stored [n, k]: dst[l*nr+j] = b[j*ldb+l], j < cols. buf has lanes*k floats
// if b is not f32.
func packColsTrans(s *isa.Set, nr int, dst []float32, b Weights, ldb, cols, k int, buf []float32) {
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
			if b.kind == dtype.F32 {
				src = b.f32[h*ldb+from:]
			} else {
				src, lds = buf, n
				b.rows(s, h*ldb+from, ldb, rows, n, buf, n)
			}
			vecOn(s).transpose(to, nr, src, lds, rows, whole)
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
func (g *GemmArgs) packsTogether(way packing) bool {
	return way == plain && !g.TransB && !g.B.kind.IsPacked()
}

// packTogether packs adjacent whole panels, at least one, as packB does one by one. A row of several panels is several
// adjacent cache lines. Rows of one panel are single lines, usually in different pages, so the processor does not
// prefetch them.
func (g *GemmArgs) packTogether(s *isa.Set, dst []float32, i, j, k, n, panels int, buf []float32) {
	const ahead = 8 // rows
	at, wide := i*g.StrideB+k*g.LDB+j, panels*productOn(s).nr
	for l := range n {
		if vecOn(s).prefetchRows != nil && g.B.f32 != nil && l+ahead < n {
			vecOn(s).prefetchRows(uintptr(unsafe.Pointer(&g.B.f32[at+ahead*g.LDB])), 64, wide/16)
		}
		row := g.B.row(s, at, wide, buf)
		for q := range panels {
			copy(dst[(q*n+l)*productOn(s).nr:][:productOn(s).nr], row[q*productOn(s).nr:])
		}
		at += g.LDB
	}
}

// panelsTogether is the largest number of panels that packTogether packs at a time.
const panelsTogether = 8
