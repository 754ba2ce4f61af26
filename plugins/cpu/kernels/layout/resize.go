package layout

import (
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Images describes a resize: Count images of H by W become ToH by ToW. Rows and Cols map result positions to those of
// the original. Pixels have Inner adjacent elements.
type Images struct {
	Count, H, W, ToH, ToW int
	Inner                 int
	Rows, Cols            Positions
}

// Positions maps an axis of the result to the original one: element i is at max(0, Step*i + First) / Den.
type Positions struct{ Step, First, Den int }

// at returns the element, among n, at or before the position of element i of the result, and the fraction of the way to
// the next.
func (l Positions) at(i, n int) (k int, fraction float64) {
	p := max(l.Step*i+l.First, 0)
	if p/l.Den >= n-1 {
		return n - 1, 0
	}
	return p / l.Den, float64(p%l.Den) / float64(l.Den)
}

// ResizeNearest copies to each pixel of dst [Count, ToH, ToW, Inner] the pixel of src [Count, H, W, Inner] at or before
// its position.
func ResizeNearest[T any](p *pool.Pool, dst, src []T, m Images) {
	if m.Inner != 1 {
		pool.Split(p, m.Count*m.ToH, 1+pool.Grain/max(1, m.ToW*m.Inner), nearestPixels[T]{dst, src, m})
		return
	}
	pool.Split(p, m.Count*m.ToH, 1+pool.Grain/m.ToW, nearest[T]{dst, src, m})
}

type nearest[T any] struct {
	dst, src []T
	Images
}

// resizeWidth is the number of columns whose positions are computed at a time.
const resizeWidth = 512

func (m *nearest[T]) Do(lo, hi, _ int) {
	by := m.ToW / m.W
	if by*m.W != m.ToW || m.Cols.First >= m.Cols.Den || m.Cols.Step*by != m.Cols.Den {
		by = 0 // not every column is repeated the same number of times
	}
	var places [resizeWidth]int32
	for c := 0; c < m.ToW; c += resizeWidth {
		at := places[:min(resizeWidth, m.ToW-c)]
		for i := range at {
			k, _ := m.Cols.at(c+i, m.W)
			at[i] = int32(k)
		}
		was := -1 // the row of src that the previous row of dst copies
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

// nearestPixels copies pixels of several elements.
type nearestPixels[T any] struct {
	dst, src []T
	Images
}

func (m *nearestPixels[T]) Do(lo, hi, _ int) {
	line, was := m.ToW*m.Inner, -1 // was is the row of src that the previous row of dst copies
	for t := lo; t < hi; t++ {
		r, _ := m.Rows.at(t%m.ToH, m.H)
		row := t/m.ToH*m.H + r
		dst, src := m.dst[t*line:][:line], m.src[row*m.W*m.Inner:][:m.W*m.Inner]
		if row == was {
			copy(dst, m.dst[(t-1)*line:])
			continue
		}
		for i := range m.ToW {
			k, _ := m.Cols.at(i, m.W)
			copy(dst[i*m.Inner:][:m.Inner], src[k*m.Inner:])
		}
		was = row
	}
}

// ResizeLinear interpolates src [Count, H, W, Inner] to dst [Count, ToH, ToW, Inner], first between columns,
// then between rows. It interpolates the columns of a row of src once for all consecutive rows of dst that need it.
func ResizeLinear(p *pool.Pool, dst, src []float32, m Images) {
	pool.Split(p, m.Count*m.ToH, 1+pool.Grain/max(1, m.ToW*m.Inner), linear{p, dst, src, m})
}

// ResizeLinearScratch returns what ResizeLinear needs for results of toW columns of inner elements.
func ResizeLinearScratch(p *pool.Pool, toW, inner int) pool.Size {
	return pool.Size{Worker: pool.FloatBytes(toW, toW, 2*toW*inner, 2, 2),
		Other: int64(p.Threads()) * pool.SizeOf[int](toW)}
}

type linear struct {
	p        *pool.Pool
	dst, src []float32
	Images
}

func (m *linear) Do(lo, hi, worker int) {
	sc, n := m.p.Scratch(worker), m.ToW*m.Inner
	// For each column of dst, its left neighbour in src and the weights of the left and right ones.
	sc.At = pool.Sized(sc.At, m.ToW)
	left, nears, fars := sc.At, sc.Floats(m.ToW), sc.Floats(m.ToW)
	for i := range left {
		k, share := m.Cols.at(i, m.W)
		left[i], nears[i], fars[i] = k, float32(1-share), float32(share)
	}
	rows, held := sc.Floats(2*n), [2]int{-1, -1} // two interpolated rows, and which rows of src they are
	sc.Place = pool.Sized(sc.Place, 2)
	at, shares, across := sc.Place, sc.Floats(2), sc.Floats(2) // of the two rows, and of two columns
	stretched := func(row int, other int) int {
		if k := slices.Index(held[:], row); k >= 0 {
			return k * n
		}
		k := 0
		if held[0] == other {
			k = 1
		}
		held[k] = row
		x, y := m.src[row*m.W*m.Inner:][:m.W*m.Inner], rows[k*n:][:n]
		if m.Inner == 1 {
			stretch(y, x, left, nears, fars)
		} else {
			m.stretchPixels(y, x, left, nears, fars, at, across)
		}
		return k * n
	}
	for t := lo; t < hi; t++ {
		r, share := m.Rows.at(t%m.ToH, m.H)
		image := t / m.ToH * m.H
		dst := m.dst[t*n : (t+1)*n]
		if share == 0 {
			copy(dst, rows[stretched(image+r, -1):])
			continue
		}
		first := stretched(image+r, image+r+1)
		at[1] = stretched(image+r+1, image+r)
		at[0] = first
		shares[0], shares[1] = float32(1-share), float32(share)
		vec.On(m.p.Set).Stencil(dst, rows, at, max(at[0], at[1]), shares, 0)
	}
}

// stretch interpolates between the elements left[i] and left[i]+1 of x.
func stretch(y, x []float32, left []int, nears, fars []float32) {
	y, nears, fars = y[:len(left)], nears[:len(left)], fars[:len(left)]
	for i, at := range left {
		v := x[at]
		if f := fars[i]; f != 0 {
			v = v*nears[i] + x[at+1]*f
		}
		y[i] = v
	}
}

// stretchPixels is stretch for pixels of several elements. at and w are buffers of two elements.
func (m *linear) stretchPixels(y, x []float32, left []int, nears, fars []float32, at []int, w []float32) {
	n := m.Inner
	for i, k := range left {
		to := y[i*n:][:n]
		if fars[i] == 0 {
			copy(to, x[k*n:])
			continue
		}
		at[0], at[1], w[0], w[1] = k*n, (k+1)*n, nears[i], fars[i]
		vec.On(m.p.Set).Stencil(to, x, at, at[1], w, 0)
	}
}
