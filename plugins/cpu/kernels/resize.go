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

func (m *nearest[T]) do(lo, hi, _ int) {
	was := -1 // the row of src that the row before is made of
	for t := lo; t < hi; t++ {
		r, _ := m.Rows.at(t%m.ToH, m.H)
		row := t/m.ToH*m.H + r
		dst := m.dst[t*m.ToW : (t+1)*m.ToW]
		if row == was {
			copy(dst, m.dst[(t-1)*m.ToW:])
			continue
		}
		was = row
		src := m.src[row*m.W : (row+1)*m.W]
		if by := m.ToW / m.W; by*m.W == m.ToW && m.Cols.First < m.Cols.Den && m.Cols.Step*by == m.Cols.Den {
			for i, x := range src { // each as often as the others
				for k := range by {
					dst[i*by+k] = x
				}
			}
			continue
		}
		k, rest := m.Cols.First/m.Cols.Den, m.Cols.First%m.Cols.Den // the place of column 0, and then of each one after
		for i := range dst {
			dst[i] = src[min(k, m.W-1)]
			k += m.Cols.Step / m.Cols.Den
			if rest += m.Cols.Step % m.Cols.Den; rest >= m.Cols.Den {
				k, rest = k+1, rest-m.Cols.Den
			}
		}
	}
}

// ResizeLinear interpolates src, [Count, H, W], between columns and then between rows. A row of src is stretched once for all rows
// of dst that follow each other and need it.
func ResizeLinear(p *Pool, dst, src []float32, m Images) {
	split(p, m.Count*m.ToH, 1+elementGrain/m.ToW, linear{p, dst, src, m})
}

// ResizeLinearScratch is what ResizeLinear needs for rows of that many columns.
func ResizeLinearScratch(toW int) ScratchSize {
	return ScratchSize{Worker: floats(2*spread, toW, toW, toW, toW, toW)}
}

type linear struct {
	p        *Pool
	dst, src []float32
	Images
}

func (m *linear) do(lo, hi, worker int) {
	s, isa := m.p.scratch(worker), m.p.isa
	buf := s.floats(2 * spread)
	mul, add := isa.binary[Mul], isa.binary[Add]
	// The columns: left neighbour as bits of a float, and the shares of both.
	left, near, far := s.floats(m.ToW), s.floats(m.ToW), s.floats(m.ToW)
	for i := range left {
		k, share := m.Cols.at(i, m.W)
		left[i], near[i], far[i] = float32(k), float32(1-share), float32(share)
	}
	rows := [2][]float32{s.floats(m.ToW), s.floats(m.ToW)} // stretched
	held := [2]int{-1, -1}                                 // which of src
	stretched := func(row int, other int) int {
		if k := slices.Index(held[:], row); k >= 0 {
			return k
		}
		k := 0
		if held[0] == other {
			k = 1
		}
		held[k] = row
		x, y := m.src[row*m.W:(row+1)*m.W], rows[k]
		for i, at := range left {
			j := int(at)
			v := x[j]
			if far[i] != 0 {
				v = v*near[i] + x[j+1]*far[i]
			}
			y[i] = v
		}
		return k
	}
	for t := lo; t < hi; t++ {
		r, share := m.Rows.at(t%m.ToH, m.H)
		image := t / m.ToH * m.H
		dst := m.dst[t*m.ToW : (t+1)*m.ToW]
		if share == 0 {
			copy(dst, rows[stretched(image+r, -1)])
			continue
		}
		a := rows[stretched(image+r, image+r+1)]
		b := rows[stretched(image+r+1, image+r)]
		for i := range spread {
			buf[i], buf[spread+i] = float32(1-share), float32(share)
		}
		var part [spread]float32
		for i := 0; i < len(dst); i += spread {
			n := min(spread, len(dst)-i)
			mul(dst[i:i+n], a[i:i+n], buf[:n])
			mul(part[:n], b[i:i+n], buf[spread:spread+n])
			add(dst[i:i+n], dst[i:i+n], part[:n])
		}
	}
}
