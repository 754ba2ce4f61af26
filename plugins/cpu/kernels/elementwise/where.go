package elementwise

import (
	"fmt"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Condition is a tensor of any type that serves as a condition: an element is true if it is not 0, so also if it is
// NaN.
type Condition struct {
	Data  []byte
	Shape []int
	DType dtype.DType
}

// truths returns n bytes that are not 0 where the elements at, at+step, ... are true: a slice of Data if elements are
// contiguous bytes, else buf.
func (c *Condition) truths(buf []uint8, at, n, step int) []uint8 {
	switch size := c.DType.Size(); {
	case size == 1 && step == 1:
		return c.Data[at:][:n]
	case step == 0:
		n = 1
	}
	switch d := c.DType; d.Size() {
	case 1:
		copy(buf[:n], c.Data[at:])
	case 2:
		mask := ^uint16(0)
		if d.IsFloat() {
			mask >>= 1 // -0 is false, too
		}
		holds(buf[:n], pool.ElementsOf[uint16](c.Data)[at:], mask)
	case 4:
		mask := ^uint32(0)
		if d.IsFloat() {
			mask >>= 1
		}
		holds(buf[:n], pool.ElementsOf[uint32](c.Data)[at:], mask)
	default:
		mask := ^uint64(0)
		if d.IsFloat() {
			mask >>= 1
		}
		holds(buf[:n], pool.ElementsOf[uint64](c.Data)[at:], mask)
	}
	return buf[:n]
}

func holds[T uint16 | uint32 | uint64](dst []uint8, src []T, mask T) {
	src = src[:len(dst)]
	for i, x := range src {
		dst[i] = Bit(x&mask != 0)
	}
}

// Where is dst = t where cond is true, else f, with NumPy broadcast of all three. It copies without computing, so T may
// be any type of the element's size.
func Where[T any](p *pool.Pool, dst []T, cond Condition, t []T, tShape []int, f []T, fShape []int) {
	g, n, ok := newGrid(cond.Shape, tShape, fShape)
	if !ok || len(dst) < n {
		panic(fmt.Sprintf("BUG: where of %v, %v and %v", cond.Shape, tShape, fShape))
	}
	pool.Split(p, n, pool.Grain, whereRows[T]{p, g, dst, cond, t, f})
}

type whereRows[T any] struct {
	p    *pool.Pool
	g    grid
	dst  []T
	cond Condition
	t, f []T
}

func (x *whereRows[T]) Do(lo, hi, worker int) {
	sc, st, sf := x.g.step(0), x.g.step(1), x.g.step(2)
	scratch := x.p.Scratch(worker)
	truths, buf := scratch.Octets(Spread), scratch.Floats(2*Spread)
	x.g.rows(lo, hi, func(out int, at [operands]int, n int) {
		if sc == 0 { // one condition for the row
			from, step, begin := x.f, sf, at[2]
			if x.cond.truths(truths, at[0], 1, 0)[0] != 0 {
				from, step, begin = x.t, st, at[1]
			}
			copyOrFill(x.dst[out:out+n], from[begin:], step)
			return
		}
		if d, ok := any(x.dst).([]float32); ok {
			pieces(n, any(x.t).([]float32)[at[1]:], any(x.f).([]float32)[at[2]:], st, sf, buf,
				func(i int, t, f []float32) {
					for k := 0; k < len(t); k += Spread { // not pieces, which does not divide rows of dense operands
						m := min(Spread, len(t)-k)
						On(x.p.Set).choose(d[out+i+k:][:m], x.cond.truths(truths, at[0]+i+k, m, 1), t[k:][:m],
							f[k:][:m])
					}
				})
			return
		}
		for i := 0; i < n; i += Spread {
			m := min(Spread, n-i)
			whereRow(x.dst[out+i:][:m], x.cond.truths(truths, at[0]+i, m, 1), x.t[at[1]+i*st:], x.f[at[2]+i*sf:], 1, st,
				sf)
		}
	})
}

// copyOrFill is dst[i] = src[i*step], where step is 0 or 1.
func copyOrFill[T any](dst, src []T, step int) {
	if step == 1 {
		copy(dst, src)
		return
	}
	v := src[0]
	for i := range dst {
		dst[i] = v
	}
}

// whereRow computes one row. The steps are 1, or 0 if the operand repeats its first element.
func whereRow[T any](dst []T, cond []uint8, t, f []T, sc, st, sf int) {
	for i := range dst {
		if cond[i*sc] != 0 {
			dst[i] = t[i*st]
		} else {
			dst[i] = f[i*sf]
		}
	}
}
