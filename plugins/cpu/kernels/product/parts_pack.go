package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// partRoutines are the routines of a set that divide floats into parts. Each returns the largest magnitude, or NaN if
// an element is NaN. A plane is a place for one part, and planes are `plane` floats apart.
type partRoutines struct {
	// rows divides rows of 32*steps floats, ld apart. In a plane, rows are 16 floats and steps 512 floats apart.
	rows func(dst []float32, plane int, src []float32, ld, rows, steps int) float32
	// pairs divides 2*n rows of 32 floats, ld apart. A plane is pairs [n, 32].
	pairs func(dst []float32, plane int, src []float32, ld, n int) float32
	// halves packs 2*n rows of 32 bfloat16, ld apart, as pairs [n, 32].
	halves func(dst []float32, src []uint16, ld, n int) float32
	// largest returns the largest magnitude of pairs of bfloat16, in whole vectors.
	largest func(src []float32) float32
}

// partPacking divides blocks of 32 rows of A into parts.
type partPacking struct{ *partProduct }

func (x *partPacking) Do(lo, hi, w int) {
	g, s := x.g, x.p.Set
	ld := x.kb + Spill // so that rows do not share cache sets
	turned := x.p.Scratch(w).Floats(TileSide * ld)
	for b := lo; b < hi; b++ {
		rows, most := min(TileSide, x.rows-b*TileSide), float32(0)
		m := x.m + b*TileSide
		for k := 0; k < g.K; k += x.kb {
			n := min(x.kb, g.K-k)
			plane := x.high * Tiled.Depth(n)
			dst := x.plane(k, 0)[b*TileSide*Tiled.Depth(n):]
			if !g.TransA {
				most = max(most, partRows(s, dst, plane, g.A[m*g.LDA+k:], g.LDA, rows, n))
				continue
			}
			turn(s, turned, ld, g.A[k*g.LDA+m:], g.LDA, n, rows)
			most = max(most, partRows(s, dst, plane, turned, ld, rows, n))
		}
		x.mostA[b] = most
	}
}

// partRows divides rows of n floats, at most 32. It pads the last step with zeros.
func partRows(s *isa.Set, dst []float32, plane int, src []float32, ld, rows, n int) (most float32) {
	const area = TileSide * TileSide
	whole := n / TileSide
	if whole > 0 {
		most = On(s).parts.rows(dst, plane, src, ld, rows, whole)
	}
	if rest := n % TileSide; rest > 0 {
		var padded [area]float32
		for r := range rows {
			copy(padded[r*TileSide:][:rest], src[r*ld+whole*TileSide:])
		}
		most = max(most, On(s).parts.rows(dst[whole*area/2:], plane, padded[:], TileSide, rows, 1))
	}
	return most
}

// turn is dst[j*ldd+i] = src[i*lds+j], i < n, j < rows. Rows of dst have room for a vector more than n floats.
func turn(s *isa.Set, dst []float32, ldd int, src []float32, lds, n, rows int) {
	whole := rows / s.Lanes * s.Lanes
	for i := 0; i < n; i += s.Lanes {
		some := min(s.Lanes, n-i)
		if whole > 0 {
			vec.On(s).Transpose(dst[i:], ldd, src[i*lds:], lds, some, whole)
		}
		for l := i; l < i+some; l++ {
			for j := whole; j < rows; j++ {
				dst[j*ldd+l] = src[l*lds+j]
			}
		}
	}
}

// partsOfB divides panels of B into parts.
type partsOfB struct {
	s          *isa.Set
	g          *GemmArgs
	parts      int
	most       float32 // largest magnitude so far
	buf, panel []float32
	wide       []float32 // for packed types stored [K, N]: the values [k, width] of a strip, for one block of k
	width      int
}

// strip begins with the block of k of a strip.
func (x *partsOfB) strip(j, cols, k, n int) {
	if g := x.g; x.wide != nil {
		x.width = cols
		g.B.From(k*g.LDB+j).Rows(x.s, 0, g.LDB, n, cols, x.wide, cols)
	}
}

// pack writes the parts of columns [j+q, j+q+cols), for the block of k that begins at k, as pairs. Parts are plane
// floats apart.
func (x *partsOfB) pack(dst []float32, plane, j, q, cols, k, n int) {
	var most float32
	switch at := k*x.g.LDB + j + q; {
	case x.g.TransB:
		most = x.packRows(dst, plane, j+q, cols, k, n)
	case cols == TileSide && x.g.B.Kind == dtype.BF16:
		most = x.packHalves(dst, x.g.B.Halves[at:], n)
	case cols == TileSide && x.g.B.Kind == dtype.F32:
		most = x.packColumns(dst, plane, x.g.B.Floats[at:], x.g.LDB, n)
	case x.wide != nil:
		panel := x.panel[:n*TileSide]
		for l := range n {
			d := panel[l*TileSide:][:TileSide]
			copy(d, x.wide[l*x.width+q:][:cols])
			clear(d[cols:])
		}
		most = x.packColumns(dst, plane, panel, TileSide, n)
	default:
		packCols(x.s, TileSide, x.panel, x.g.B.From(at), x.g.LDB, cols, n)
		most = x.packColumns(dst, plane, x.panel, TileSide, n)
	}
	x.most = max(x.most, most)
}

// packColumns divides rows of 32 floats. It pads them with zeros to a multiple of 32.
func (x *partsOfB) packColumns(dst []float32, plane int, src []float32, ld, n int) (most float32) {
	const area = TileSide * TileSide
	to, keep := dst, plane
	if x.parts == 1 { // the other parts are zero
		to, keep = x.buf, TileSide*Tiled.Depth(n)
	}
	whole := n / TileSide
	if whole > 0 {
		most = On(x.s).parts.pairs(to, keep, src, ld, whole*TileSide/2)
	}
	if rest := n % TileSide; rest > 0 {
		var padded [area]float32
		for r := range rest {
			copy(padded[r*TileSide:][:TileSide], src[(whole*TileSide+r)*ld:])
		}
		most = max(most, On(x.s).parts.pairs(to[whole*area/2:], keep, padded[:], TileSide, TileSide/2))
	}
	if x.parts == 1 {
		copy(dst[:keep], to)
	}
	return most
}

// packHalves packs rows of 32 bfloat16. It pads them with zeros to a multiple of 32.
func (x *partsOfB) packHalves(dst []float32, src []uint16, n int) (most float32) {
	const area = TileSide * TileSide
	ld, whole := x.g.LDB, n/TileSide
	if whole > 0 {
		most = On(x.s).parts.halves(dst, src, ld, whole*TileSide/2)
	}
	if rest := n % TileSide; rest > 0 {
		var padded [area]uint16
		for r := range rest {
			copy(padded[r*TileSide:][:TileSide], src[(whole*TileSide+r)*ld:])
		}
		most = max(most, On(x.s).parts.halves(dst[whole*area/2:], padded[:], TileSide, TileSide/2))
	}
	return most
}

// packRows packs columns that are stored as rows.
func (x *partsOfB) packRows(dst []float32, plane, j, cols, k, n int) (most float32) {
	const area = TileSide * TileSide
	g, s := x.g, x.s
	if g.B.Kind == dtype.BF16 && cols == TileSide && n%TileSide == 0 && g.LDB%2 == 0 {
		src := g.B.Halves[j*g.LDB+k:]
		src = src[:(TileSide-1)*g.LDB+n]
		// two elements are a pair as they lie
		if first := unsafe.Pointer(unsafe.SliceData(src)); uintptr(first)%4 == 0 {
			pairs := unsafe.Slice((*float32)(first), len(src)/2)
			for at := 0; at < n*TileSide/2; at += area / 2 {
				transposePairs(s, dst[at:], pairs[at/TileSide:], g.LDB/2, TileSide)
			}
			return On(s).parts.largest(dst[:n*TileSide/2])
		}
	}
	depth := Tiled.Depth(n)
	src, ld := x.panel, n
	if g.B.Kind == dtype.F32 {
		src, ld = g.B.Floats[j*g.LDB+k:], g.LDB
	} else {
		g.B.From(j*g.LDB+k).Rows(s, 0, g.LDB, cols, n, x.panel, n)
	}
	most = partRows(s, x.buf, TileSide*depth, src, ld, cols, n)
	for part := range x.parts {
		for at := 0; at < TileSide*depth; at += area / 2 {
			transposePairs(s, dst[part*plane+at:], x.buf[part*TileSide*depth+at:], TileSide/2, cols)
		}
	}
	return most
}

// transposePairs is dst[i*32+c] = src[c*ld+i] for c < cols and i < 16. The other columns get arbitrary values.
func transposePairs(s *isa.Set, dst, src []float32, ld, cols int) {
	for h := 0; h < cols; h += s.Lanes {
		vec.On(s).Transpose(dst[h:], TileSide, src[h*ld:], ld, min(s.Lanes, cols-h), TileSide/2)
	}
}
