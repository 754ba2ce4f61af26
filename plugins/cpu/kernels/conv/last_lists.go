package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// joinedPixels returns how many pixels a list of a worker may have.
func (g *convolution) joinedPixels() int {
	return max(lastPixels, lastList/elementwise.Volume(g.Kernel))
}

// splitRun divides pixels into tiles of about the same size.
func splitRun(runs []lastRun, pixels, high int) []lastRun {
	if pixels == 0 {
		return runs
	}
	tiles := pool.CeilDiv(pixels, high)
	n, more := pixels/tiles, pixels%tiles
	if more > 0 {
		runs = append(runs, lastRun{pixels: n + 1, count: more})
	}
	return append(runs, lastRun{pixels: n, count: tiles - more})
}

// listLine lists what the tiles of a line read, from the first pixel of x of the line on, as if the image had more
// lines above and below.
func (g *convolution) listLine() {
	d, place := &g.last, g.lastPlaces()
	d.blank, d.list = d.ints[:lastPixels+1], d.ints[lastPixels+1:]
	d.blank[0] = 0
	for i := range d.blank[1:] {
		d.blank[i+1] = padding
	}
	switch {
	case d.flat:
		d.list[0] = 0
		for i := range lastPixels {
			d.list[i+1] = 4 * i * g.Cin
		}
	case d.lines:
		d.columns = 1
		for d.columns < len(g.phaseTaps) && g.phaseTaps[d.columns].at[1] == g.phaseTaps[0].at[1] {
			d.columns++
		}
		d.line = d.line[:0]
		first, at := 0, 0
		for _, r := range splitRun(d.own[:0], g.count[2], d.high) {
			for range r.count {
				at = g.listTile(place[0], first, r.pixels, at)
				first += r.pixels
			}
		}
		d.spans = d.spans[:0]
		for h := range g.count[1] {
			above, below := g.rowsInside(h)
			if n := len(d.spans); n > 0 && d.spans[n-1].above == above && d.spans[n-1].below == below {
				d.spans[n-1].count++
			} else {
				d.spans = append(d.spans, lastSpan{h, 1, above, below})
			}
		}
	}
}

// rowsInside returns the range of lines of the kernel, in the phase, that are inside of x for line h of the result.
func (g *convolution) rowsInside(h int) (above, below int) {
	rows := len(g.phaseTaps) / g.last.columns
	inside := func(row int) bool {
		y := h*g.step[1] + g.phaseTaps[row*g.last.columns].at[1]
		return y >= 0 && y < g.In[1]
	}
	for above < rows && !inside(above) {
		above++
	}
	for below = above; below < rows && inside(below); {
		below++
	}
	return above, below
}

// columnsInside returns the range of columns of the kernel that are inside of x for a pixel of a tile, and at least one.
func (g *convolution) columnsInside(first, pixels int) (left, right int) {
	inside := func(column int) bool {
		at := g.phaseTaps[column].at[2] + first*g.step[2]
		return at+(pixels-1)*g.step[2] >= 0 && at < g.In[2]
	}
	for left < g.last.columns-1 && !inside(left) {
		left++
	}
	for right = left + 1; right < g.last.columns && inside(right); {
		right++
	}
	return left, right
}

// listTile lists what a tile of a line reads, from pixel first on, at a place of the list, and returns the next place.
func (g *convolution) listTile(apart, first, pixels, at int) int {
	d, step := &g.last, g.step[2]
	left, right := g.columnsInside(first, pixels)
	r := lastRun{pixels: pixels, count: 1, at: at, column: left, columns: right - left}
	for row := 0; row < len(g.phaseTaps); row += d.columns {
		for column := left; column < right; column++ {
			t := &g.phaseTaps[row+column]
			e := d.list[at : at+pixels+1]
			e[0] = apart * t.place
			x := first*step + t.at[2]
			for j := range pixels {
				e[j+1] = 4 * (t.at[1]*g.In[2] + x) * g.Cin
				if x < 0 || x >= g.In[2] {
					e[j+1] = padding
				}
				x += step
			}
			at += pixels + 1
		}
	}
	if n := len(d.line); n > 0 {
		if l := &d.line[n-1]; l.pixels == pixels && l.column == r.column && l.columns == r.columns {
			l.count++
			return at
		}
	}
	d.line = append(d.line, r)
	return at
}

// listPixels lists what each pixel of a task reads, from the beginning of x on.
func (g *convolution) listPixels(w *lastWork, sc *pool.Scratch) {
	place, area := g.lastPlaces(), elementwise.Volume(g.out)
	image, strides := elementwise.Volume(g.In), places(g.In)
	w.list = pool.ElementsOf[int](pool.BytesOf(sc.Floats(4 * len(g.taps) * (w.end - w.first))))
	at, m := 0, w.first
	for i := range w.runs {
		r := &w.runs[i]
		r.at = at
		for range r.count {
			for j := range r.pixels {
				n, pixel := m/area, g.phases[0].pixel(m%area)
				for k := range g.taps {
					from, inside := g.source(pixel, &g.taps[k])
					e := w.list[at+k*(r.pixels+1):]
					e[0], e[j+1] = place[0]*g.taps[k].place, padding
					if inside {
						e[j+1] = 4 * (n*image + dot3(from, strides)) * g.Cin
					}
				}
				m++
			}
			at += len(g.taps) * (r.pixels + 1)
		}
	}
}

// lastListSize returns the number of entries of the lists of a line, also for shorter ones.
func (g *convolution) lastListSize() int {
	return 2*(lastPixels+1) + 2*min(lastList, g.out[2]*elementwise.Volume(g.Kernel))
}
