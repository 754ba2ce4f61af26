package raster

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// entry is a splat in the list of a band, with the columns that it may show up in.
type entry struct {
	splat       int32
	left, right uint16
}

// A segment is a part of a band that one task does.
const segmentTiles = 8

// listRoom is how many entries the lists of a group of bands may have for each splat of the scene. A band has at most
// one for each, so that at least one band fits.
const listRoom = 4

// group is some bands whose lists are in memory.
type group struct {
	first, end int     // the bands
	starts     []int32 // of the lists, by band - first, and the end of the last
	entries    []entry
}

func bands(height int) int { return (height + side - 1) / side }

func groupBytes(n, height int) int64 {
	return allocated[int32](bands(height)+1) + allocated[int64](bands(height)+1) + allocated[entry](listRoom*n)
}

// eachGroup calls f for groups of bands, from the top.
func (r *prepared) eachGroup(f func(g *group)) {
	shared := &r.pool.Shared
	n, height := bands(r.view.Height), r.view.Height
	room := listRoom * len(r.forms)
	counts := alloc[int64](shared, n+1)
	clear(counts)
	for _, i := range r.order {
		x := r.extents[i]
		counts[int(x.top)/side]++
		counts[(int(x.bottom)-1)/side+1]--
	}
	for b := 1; b < n; b++ {
		counts[b] += counts[b-1]
	}
	g := &group{starts: alloc[int32](shared, n+1), entries: alloc[entry](shared, room)}
	for g.first = 0; g.first < n; g.first = g.end {
		total := int64(0)
		for g.end = g.first; g.end < n && total+counts[g.end] <= int64(room); g.end++ {
			g.starts[g.end-g.first] = int32(total)
			total += counts[g.end]
		}
		g.starts[g.end-g.first] = int32(total)
		r.pool.Run(g.end-g.first, func(task, _ int) { r.fill(g, task, height) })
		f(g)
	}
}

// fill writes the list of a band.
func (r *prepared) fill(g *group, task, height int) {
	top := (g.first + task) * side
	bottom := min(top+side, height)
	to := g.entries[g.starts[task]:g.starts[task+1]]
	for _, i := range r.order {
		if x := r.extents[i]; int(x.top) < bottom && int(x.bottom) > top {
			wide := widened(&r.forms[i])
			c := wide.Conic()
			left, right := c.Columns(max(top, int(x.top)), min(bottom, int(x.bottom)), r.view.Width)
			to[0] = entry{i, uint16(left), uint16(right)}
			to = to[1:]
		}
	}
}

// eachTile calls f for the tiles of a segment of a band with the places in entries that each shows.
func (r *prepared) eachTile(s *pool.Scratch, g *group, band, segment int, f func(x0, y0 int, places []int32)) {
	list := g.entries[g.starts[band-g.first]:g.starts[band-g.first+1]]
	first := g.starts[band-g.first]
	x0 := segment * segmentTiles * side
	x1 := min(x0+segmentTiles*side, r.view.Width)
	near := alloc[int32](s, len(list))[:0]
	for k, e := range list {
		if int(e.left) < x1 && int(e.right) > x0 {
			near = append(near, first+int32(k))
		}
	}
	places := alloc[int32](s, len(near))
	for x := x0; x < x1; x += side {
		n := 0
		for _, k := range near {
			if e := &g.entries[k]; int(e.left) < x+side && int(e.right) > x {
				places[n] = k
				n++
			}
		}
		f(x, band*side, places[:n])
	}
}

func tileBytes(n int) int64 { return 2 * allocated[int32](n) }

func segments(width int) int { return (width + segmentTiles*side - 1) / (segmentTiles * side) }
