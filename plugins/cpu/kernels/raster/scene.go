// Package raster renders Gaussian splats, and differentiates that. Package core/splat has the mathematics.
//
// The splats are projected in float64 and sorted by a radix sort. An image is cut into tiles, and a row of tiles is a
// band. Each band has a list of the splats that it shows, of which each of its tiles picks its own. The bands are done
// in groups whose lists fit into memory, so that there is room for any scene; the result does not depend on the groups.
// A pixel takes its splats one after the other, so that no sum depends on the number of threads either.
package raster

import (
	"math"

	"github.com/rlx-go/rlx/core/splat"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Scene is a scene whose values were not checked yet.
type Scene = splat.Scene[float32]

// side is the side of a tile in pixels.
const side = 16

// form is a splat.Form.
type form [splat.FormLen]float32

// extent says which rows a splat may show up in.
type extent struct {
	top, bottom uint16
	plain       bool // its region is an ellipse, so that all of it lies before the camera
}

func (f *form) extent(height int) extent {
	wide := widened(f)
	c := wide.Conic()
	top, bottom := c.Rows(height)
	return extent{uint16(top), uint16(bottom), c.Ellipse}
}

func widened(f *form) (w splat.Form) {
	for k, x := range f {
		w[k] = float64(x)
	}
	return w
}

// prepared has the splats as pixels see them.
type prepared struct {
	pool    *pool.Pool
	view    *splat.View
	forms   []form
	colors  [][4]float32 // with the opacity
	extents []extent
	order   []int32 // the visible ones, the nearest first
}

// alloc returns n values of scratch memory with arbitrary contents.
func alloc[T any](s *pool.Scratch, n int) []T {
	return pool.ElementsOf[T](pool.BytesOf(s.Floats(int(pool.SizeOf[T](n)+3) / 4)))[:n:n]
}

// allocated returns the bytes that alloc takes.
func allocated[T any](n int) int64 { return pool.FloatBytes(int(pool.SizeOf[T](n)+3) / 4) }

// keyGrain is how many splats are worth a task.
const keyGrain = 256

// project computes the forms, colours and order of a checked scene.
func project(p *pool.Pool, v *splat.View, s *Scene) *prepared {
	shared := &p.Shared
	r := &prepared{pool: p, view: v, forms: alloc[form](shared, s.N), colors: alloc[[4]float32](shared, s.N),
		extents: alloc[extent](shared, s.N)}
	sorter := newSorter(shared, s.N)
	p.Split(s.N, keyGrain, func(lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			var f splat.Form
			var c [4]float64
			distance, seen := splat.PrepareOne(v, s, i, &f, &c)
			sorter.key(i, distance, seen)
			for k := range f {
				r.forms[i][k] = float32(f[k])
			}
			for k := range c {
				r.colors[i][k] = float32(c[k])
			}
			if seen {
				r.extents[i] = r.forms[i].extent(v.Height)
			}
		}
	})
	r.order = sorter.sort()
	return r
}

func projectBytes(n int) int64 {
	return allocated[form](n) + allocated[[4]float32](n) + allocated[extent](n) + sorterBytes(n)
}

// sorter orders splats by distance. Equally distant ones keep their order.
type sorter struct {
	keys, nextKeys   []uint64
	order, nextOrder []int32
}

const unseen = math.MaxUint64

func newSorter(s *pool.Scratch, n int) *sorter {
	return &sorter{alloc[uint64](s, n), alloc[uint64](s, n), alloc[int32](s, n), alloc[int32](s, n)}
}

func sorterBytes(n int) int64 { return 2*allocated[uint64](n) + 2*allocated[int32](n) }

// key sets the key of splat i. The bits of positive numbers are in the order of the numbers.
func (s *sorter) key(i int, distance float64, seen bool) {
	s.keys[i] = unseen
	if seen {
		s.keys[i] = math.Float64bits(distance)
	}
}

const digitBits = 11

// sort returns the splats that are seen, sorted. It is a radix sort that skips digits in which all keys agree.
func (s *sorter) sort() []int32 {
	n := 0
	all, common := uint64(0), uint64(math.MaxUint64)
	for i, k := range s.keys {
		if k != unseen {
			s.keys[n], s.order[n] = k, int32(i)
			all, common = all|k, common&k
			n++
		}
	}
	keys, order, nextKeys, nextOrder := s.keys[:n], s.order[:n], s.nextKeys[:n], s.nextOrder[:n]
	for shift := 0; shift < 64; shift += digitBits {
		const mask = 1<<digitBits - 1
		if (all^common)>>shift&mask == 0 {
			continue
		}
		var at [1 << digitBits]int32
		for _, k := range keys {
			at[k>>shift&mask]++
		}
		sum := int32(0)
		for d, count := range at {
			at[d] = sum
			sum += count
		}
		for i, k := range keys {
			d := k >> shift & mask
			nextKeys[at[d]], nextOrder[at[d]] = k, order[i]
			at[d]++
		}
		keys, order, nextKeys, nextOrder = nextKeys, nextOrder, keys, order
	}
	return order
}
