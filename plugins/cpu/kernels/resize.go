package kernels

import "slices"

// Images are the sizes of a resize: Count images of H by W become ToH by ToW, whose rows and columns are at Rows and Cols.
type Images struct {
	Count, H, W, ToH, ToW int
	Rows, Cols            Positions
}

// Positions are those of a resized axis in the original one: element i is at (Step*i + First) / Den, but not below 0.
type Positions struct{ Step, First, Den int }

// at is the element at or before position i, among n, and the fraction of the way to the next.
func (l Positions) at(i, n int) (k int, fraction float64) {
	p := max(l.Step*i+l.First, 0)
	if p/l.Den >= n-1 {
		return n - 1, 0
	}
	return p / l.Den, float64(p%l.Den) / float64(l.Den)
}

// ResizeNearest copies for each element of dst, [Count, ToH, ToW], the one of src, [Count, H, W], at its place or before it.
func ResizeNearest[T any](p *Pool, dst, src []T, m Images) {
	split(p, m.Count*m.ToH, 1+elementGrain/m.ToW, nearest[T]{dst, src, m})
}

type nearest[T any] struct {
	dst, src []T
	Images
}

// resizeWidth is the number of columns whose places are kept at a time.
const resizeWidth = 512

func (m *nearest[T]) do(lo, hi, _ int) {
	by := m.ToW / m.W
	if by*m.W != m.ToW || m.Cols.First >= m.Cols.Den || m.Cols.Step*by != m.Cols.Den {
		by = 0 // columns are not repeated equally often
	}
	var places [resizeWidth]int32
	for c := 0; c < m.ToW; c += resizeWidth {
		at := places[:min(resizeWidth, m.ToW-c)]
		for i := range at {
			k, _ := m.Cols.at(c+i, m.W)
			at[i] = int32(k)
		}
		was := -1 // the row of src that the row before is made of
		for t := lo; t < hi; t++ {
			r, _ := m.Rows.at(t%m.ToH, m.H)
			row := t/m.ToH*m.H + r
			dst, src := m.dst[t*m.ToW+c:][:len(at)], m.src[row*m.W:(row+1)*m.W]
			switch {
			case row == was:
				copy(dst, m.dst[(t-1)*m.ToW+c:])
			case by > 1 && c%by == 0 && len(at)%by == 0:
				for i, x := range src[c/by:][:len(at)/by] {
					for k := range by {
						dst[i*by+k] = x
					}
				}
			default:
				for i, k := range at {
					dst[i] = src[k]
				}
			}
			was = row
		}
	}
}

// ResizeLinear interpolates src, [Count, H, W], between columns and then between rows. A row of src is stretched once for all rows
// of dst that follow each other and need it.
func ResizeLinear(p *Pool, dst, src []float32, m Images) {
	split(p, m.Count*m.ToH, 1+elementGrain/m.ToW, linear{p, dst, src, m})
}

// ResizeLinearScratch is what ResizeLinear needs for rows of that many columns.
func ResizeLinearScratch(p *Pool, toW int) ScratchSize {
	return ScratchSize{Worker: floats(toW, toW, 2*toW, 2), Other: int64(len(p.workers)) * sizeOf[int](toW)}
}

type linear struct {
	p        *Pool
	dst, src []float32
	Images
}

func (m *linear) do(lo, hi, worker int) {
	sc, n := m.p.scratch(worker), m.ToW
	// The columns: left neighbour, and the shares of both.
	sc.at = sized(sc.at, n)
	left, near, far := sc.at, sc.floats(n), sc.floats(n)
	for i := range left {
		k, share := m.Cols.at(i, m.W)
		left[i], near[i], far[i] = k, float32(1-share), float32(share)
	}
	rows, held := sc.floats(2*n), [2]int{-1, -1} // two that are stretched, and which of src
	stretched := func(row int, other int) int {
		if k := slices.Index(held[:], row); k >= 0 {
			return k * n
		}
		k := 0
		if held[0] == other {
			k = 1
		}
		held[k] = row
		x, y, near, far := m.src[row*m.W:(row+1)*m.W], rows[k*n:][:len(left)], near[:len(left)], far[:len(left)]
		for i, at := range left {
			v := x[at]
			if f := far[i]; f != 0 {
				v = v*near[i] + x[at+1]*f
			}
			y[i] = v
		}
		return k * n
	}
	sc.place = sized(sc.place, 2)
	at, shares := sc.place, sc.floats(2) // of the two
	for t := lo; t < hi; t++ {
		r, share := m.Rows.at(t%m.ToH, m.H)
		image := t / m.ToH * m.H
		dst := m.dst[t*n : (t+1)*n]
		if share == 0 {
			copy(dst, rows[stretched(image+r, -1):])
			continue
		}
		at[0] = stretched(image+r, image+r+1)
		at[1] = stretched(image+r+1, image+r)
		shares[0], shares[1] = float32(1-share), float32(share)
		m.p.isa.stencil(dst, rows, at, shares, 0)
	}
}
