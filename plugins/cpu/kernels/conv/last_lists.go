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
		d.shapeTaps(g.phaseTaps)
		d.line, d.tiles = d.line[:0], 0
		first, at := 0, 0
		for _, r := range splitRun(d.own[:0], g.count[2], d.high) {
			for range r.count {
				at = g.listTile(place[0], first, r.pixels, at)
				first += r.pixels
				d.tiles++
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

// shapeTaps sets the numbers of lines and of columns of the kernel in the phase.
func (d *lastState) shapeTaps(taps []tap) {
	first := taps[0].at
	d.columns, d.rows = 1, 1
	for d.columns < len(taps) && taps[d.columns].at[0] == first[0] && taps[d.columns].at[1] == first[1] {
		d.columns++
	}
	for d.rows*d.columns < len(taps) && taps[d.rows*d.columns].at[0] == first[0] {
		d.rows++
	}
}

// rowsInside returns the range of lines of the kernel, in the phase, that are inside of x for line h of the result.
func (g *convolution) rowsInside(h int) (above, below int) {
	d := &g.last
	inside := func(row int) bool {
		y := h*g.step[1] + g.phaseTaps[row*d.columns].at[1]
		return y >= 0 && y < g.In[1]
	}
	for above < d.rows && !inside(above) {
		above++
	}
	for below = above; below < d.rows && inside(below); {
		below++
	}
	return above, below
}

// planesInside returns the range of planes of the kernel, in the phase, that are inside of x for plane z of the result.
func (g *convolution) planesInside(z int) (first, end int) {
	plane := g.last.rows * g.last.columns
	planes := len(g.phaseTaps) / plane
	if planes == 1 && z == 0 && g.phaseTaps[0].at[0] == 0 { // an image
		return 0, 1
	}
	inside := func(i int) bool {
		at := z*g.step[0] + g.phaseTaps[i*plane].at[0]
		return at >= 0 && at < g.In[0]
	}
	for first < planes && !inside(first) {
		first++
	}
	for end = first; end < planes && inside(end); {
		end++
	}
	return first, end
}

// columnsInside returns the range of columns of the kernel that are inside of x for a pixel of a tile, at least one,
// and whether all columns are inside for all pixels.
func (g *convolution) columnsInside(first, pixels int) (left, right int, all bool) {
	n, reach := g.last.columns, (pixels-1)*g.step[2]
	at := func(column int) int { return g.phaseTaps[column].at[2] + first*g.step[2] }
	inside := func(column int) bool { return at(column)+reach >= 0 && at(column) < g.In[2] }
	for left < n-1 && !inside(left) {
		left++
	}
	for right = left + 1; right < n && inside(right); {
		right++
	}
	return left, right, min(at(0), at(n-1)) >= 0 && max(at(0), at(n-1))+reach < g.In[2]
}

// joinedTaps returns how many taps inner tiles read as one: those of a line of the kernel, if they read adjacent
// elements of x. With few channels, as in the first layer of a network, most of the time of a tap is its beginning.
func (g *convolution) joinedTaps() int {
	if g.Transposed || g.Groups > 1 || g.Dilation[2] > 1 {
		return 1
	}
	return g.Kernel[2]
}

// listTile lists what a tile of a line reads, from pixel first on, at a place of the list, and returns the next place.
// The places in x are counted from that pixel. So tiles that read no padding have the same list.
func (g *convolution) listTile(apart, first, pixels, at int) int {
	d, step, joined := &g.last, g.step[2], 1
	left, right, all := g.columnsInside(first, pixels)
	if all {
		joined = g.joinedTaps()
		right = left + (right-left)/joined
	}
	r := lastRun{pixels: pixels, count: 1, at: at, columns: right - left, x: 4 * first * step * g.Cin, joined: joined,
		inner: all}
	last := len(d.line) - 1
	if all && last >= 0 && d.line[last].inner && d.line[last].pixels == pixels {
		d.line[last].count++
		return at
	}
	for row := 0; row < len(g.phaseTaps); row += d.columns {
		for column := left; column < right; column++ {
			t := &g.phaseTaps[row+column]
			e := d.list[at : at+pixels+1]
			e[0] = apart * t.place
			line := (t.at[0]*g.In[1] + t.at[1]) * g.In[2]
			for j := range pixels {
				e[j+1] = 4 * (line + j*step + t.at[2]) * g.Cin
				if x := (first+j)*step + t.at[2]; x < 0 || x >= g.In[2] {
					e[j+1] = padding
				}
			}
			at += pixels + 1
		}
	}
	d.line = append(d.line, r)
	return at
}

// listPixels lists what each pixel of a task reads, from the beginning of x on, unless the worker has done so for
// another part of the channels.
func (g *convolution) listPixels(w *lastWork, sc *pool.Scratch) {
	place, area := g.lastPlaces(), elementwise.Volume(g.out)
	image, strides := elementwise.Volume(g.In), places(g.In)
	list := pool.ElementsOf[int](pool.BytesOf(sc.Floats(4 * len(g.taps) * (w.end - w.first))))
	at := 0
	for i := range w.runs {
		r := &w.runs[i]
		r.at = at
		at += r.count * len(g.taps) * (r.pixels + 1)
	}
	if w.of == g && w.turn == g.last.turn && w.listed == w.first && &w.list[0] == &list[0] {
		return
	}
	w.of, w.turn, w.listed, w.list = g, g.last.turn, w.first, list
	m := w.first
	for _, r := range w.runs {
		at = r.at
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
	return 2*(lastPixels+1) + 2*min(g.out[2], 2*g.lastEdges()+8*lastPixels)*elementwise.Volume(g.Kernel)
}

// lastEdges returns a number of pixels, before and after a line, beyond which none reads padding.
func (g *convolution) lastEdges() int {
	return g.Pad[2] + g.OutputPad[2] + 2*g.Dilation[2]*g.Kernel[2]
}
