package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// lastWork is what a task computes: pixels or cuts of lines [first, end) of some blocks of channels. Calls are listed
// for the first channels, and made for each block.
type lastWork struct {
	first, end, block, blocks int
	runs                      []lastRun
	own                       [2]lastRun
	list                      []int
	of                        *convolution // list is for its pixels from listed on, in a phase
	turn, listed              int
	now                       lastTiles
	calls                     [lastCalls]lastCall
	n                         int // of calls
}

// A lastCall is a call for so many pixels of a tile. The first one is that with index out of the first channel of the
// result.
type lastCall struct {
	lastTiles
	pixels, out int
	entries     []int // of the list
}

const lastCalls = 64 // calls that are listed at a time

// convLast computes chunks of pixels and of blocks of channels.
type convLast convolution

func (x *convLast) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	d, sc := &g.last, g.p.Scratch(worker)
	w := pool.Own[lastWork](sc)
	blocks := d.blocks * g.lastGroups()
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		chunk, part := t%d.chunks*d.chunk, t/d.chunks
		w.first, w.end, w.n = chunk, chunk+d.chunk, 0
		w.block, w.blocks = part*blocks/d.parts, (part+1)*blocks/d.parts
		if d.lines {
			w.end = min(w.end, g.N*g.count[0]*g.count[1]*d.cuts)
			g.lastLines(w)
		} else {
			w.end = min(w.end, g.N*elementwise.Volume(g.out))
			g.lastPixels(w, sc)
		}
		g.makeCalls(w)
		if first := g.lastPixel(w.first); !g.Transposed {
			g.finish(first*g.Cout, (g.lastPixel(w.end)-first)*g.Cout)
		}
		sc.Release(mark)
	}
}

// lastPixel returns the pixel of the result with which an item of a task begins, if there is one phase.
func (g *convolution) lastPixel(item int) (pixel int) {
	d := &g.last
	if !d.lines {
		return item
	}
	pixel = item / d.cuts * g.out[2]
	tiles := item % d.cuts * d.tiles / d.cuts
	for _, r := range d.line {
		pixel += min(tiles, r.count) * r.pixels
		tiles -= min(tiles, r.count)
	}
	return pixel
}

// lastPixels lists the calls for pixels that are joined over lines.
func (g *convolution) lastPixels(w *lastWork, sc *pool.Scratch) {
	d := &g.last
	w.runs = splitRun(w.own[:0], w.end-w.first, d.high)
	list := d.list
	if !d.flat {
		g.listPixels(w, sc)
		list = w.list
	}
	m := w.first
	for _, r := range w.runs {
		c := g.addCall(w, r.pixels, m*g.Cout, list[r.at:])
		c.count, c.lines, c.dstLine, c.xLine = r.count, 1, 0, 0
		c.taps, c.listStep, c.xStep = len(g.taps), 8*len(g.taps)*(r.pixels+1), 0
		c.x = address(d.x)
		if d.flat {
			c.listStep, c.xStep = 0, 4*r.pixels*g.Cin
			c.x += uintptr(4 * m * g.Cin)
		}
		m += r.count * r.pixels
	}
}

// addCall adds a call. Its caller sets what varies.
func (g *convolution) addCall(w *lastWork, pixels, out int, list []int) *lastCall {
	if w.n == lastCalls {
		g.makeCalls(w)
	}
	c := &w.calls[w.n]
	w.n++
	c.pixels, c.out, c.does, c.entries, c.k = pixels, out, g.last.does, list, g.cg
	return c
}

// makeCalls makes the calls that are listed, for each block of channels.
func (g *convolution) makeCalls(w *lastWork) {
	d, place, lanes := &g.last, g.lastPlaces(), g.p.Set.Lanes
	channels := g.Cout / g.lastGroups()
	t := &w.now
	for i := range w.n {
		c := &w.calls[i]
		c.each, c.listBack = c.count, -c.count*c.listStep
		c.zeros, c.ldw, c.ldd = address(d.zeros), place[1], 4*g.Cout*g.every[2]
	}
	for b := w.block; b < w.blocks; b++ {
		group := b / d.blocks
		first, end := d.block(b % d.blocks)
		o, from := group*g.og+first*lanes, group*g.cg // first channels of the result and of x
		if d.each {
			from = o
		}
		weights := address(g.packed) + uintptr(group*place[2]+first*place[1])
		bias := address(g.biases[(group*d.vectors+first)*lanes:])
		mask := lastOn(g.p.Set).mask(min(lanes, channels-(end-1)*lanes))
		for i := range w.n {
			c := &w.calls[i]
			*t = c.lastTiles
			t.x += uintptr(4 * from)
			t.w, t.bias, t.mask, t.dst = weights, bias, mask, address(g.Out[c.out+o:])
			switch {
			case t.does&doesSums == doesSums:
				t.addend, t.bias = t.dst, t.zeros
			case t.does&doesAddend != 0:
				t.addend = address(g.Addend[c.out+o:])
			}
			if t.does&doesResidual != 0 {
				t.residual = address(g.Residual[c.out+o:])
			}
			d.compute(g, t, c.entries, c.pixels, end-first)
		}
	}
	w.n = 0
}

// lastLines lists the calls for lines.
func (g *convolution) lastLines(w *lastWork) {
	d := &g.last
	for i := w.first; i < w.end; {
		l, cut, n := i/d.cuts, i%d.cuts, 1
		plane, h := l/g.count[1], l%g.count[1]
		image, z := plane/g.count[0], plane%g.count[0]
		s := &d.spans[0]
		for k := 1; h >= s.first+s.count; k++ {
			s = &d.spans[k]
		}
		if d.cuts == 1 {
			n = min(s.first+s.count-h, w.end-i)
		}
		part := linePart{lines: n, first: cut * d.tiles / d.cuts, end: (cut + 1) * d.tiles / d.cuts}
		// the line may be below the image
		part.x = 4 * (((image*g.In[0]+z*g.step[0])*g.In[1] + h*g.step[1]) * g.In[2] * g.Cin)
		part.out = g.Cout * (((image*g.out[0]+g.start[0]+z*g.every[0])*g.out[1]+g.start[1]+h*g.every[1])*g.out[2] +
			g.start[2])
		first, end := g.planesInside(z)
		switch rows := s.below - s.above; {
		case first == end || rows == 0:
			g.lastLine(w, &part)
		case rows == d.rows || first+1 == end: // adjacent in the list
			part.row, part.rows = first*d.rows+s.above, (end-first-1)*d.rows+rows
			g.lastLine(w, &part)
		default:
			for part.rows = rows; first < end; first++ {
				part.row = first*d.rows + s.above
				part.more = first+1 < end
				g.lastLine(w, &part)
				part.again = true
			}
		}
		i += n
	}
}

// A linePart is a part of some lines: tiles [first, end) of each, and rows of taps from row on. x is its place in bytes
// and out its index. If more is set, another part adds to the sums; again means that the result has sums already.
type linePart struct {
	lines, first, end, row, rows, x, out int
	more, again                          bool
}

// lastLine lists the calls for a part of lines.
func (g *convolution) lastLine(w *lastWork, part *linePart) {
	d := &g.last
	row := len(g.phaseTaps) / d.columns
	out, tile, pixel := part.out, 0, g.every[2]*g.Cout
	for i := range d.line {
		r := &d.line[i]
		skip, n := max(0, part.first-tile), min(r.count, part.end-tile)
		tile += r.count
		if n -= skip; n > 0 {
			entries := r.columns * (r.pixels + 1)
			list, step, taps := d.list[r.at+part.row*entries:], 8*row*entries, part.rows*r.columns
			k := r.joined * g.cg
			if r.inner {
				step = 0
			}
			if taps == 0 {
				taps, step, list, k = 1, 0, d.blank, g.cg
			}
			c := g.addCall(w, r.pixels, out+skip*r.pixels*pixel, list[skip*step/8:])
			c.count, c.taps, c.listStep, c.xStep = n, taps, step, 4*r.pixels*g.step[2]*g.Cin
			c.k = k
			c.x = address(d.x) + uintptr(part.x+r.x+skip*c.xStep)
			c.lines, c.dstLine = part.lines, 4*(g.every[1]*g.out[2]*g.Cout-n*r.pixels*pixel)
			c.xLine = 4*g.step[1]*g.In[2]*g.Cin - n*c.xStep
			if part.more {
				c.does &= doesAddend
			}
			if part.again {
				c.does |= doesSums
			}
		}
		out += r.count * r.pixels * pixel
	}
}
