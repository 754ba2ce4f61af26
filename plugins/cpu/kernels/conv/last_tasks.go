package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
)

// convLast computes chunks of pixels and of blocks of channels.
type convLast convolution

func (x *convLast) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	d, sc := &g.last, g.p.Scratch(worker)
	var w lastWork
	blocks := d.blocks * g.lastGroups()
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		chunk, part := t%d.chunks*d.chunk, t/d.chunks
		w.first, w.end = chunk, chunk+d.chunk
		switch {
		case d.lines:
			w.end = min(w.end, g.N*g.count[0]*g.count[1]*d.cuts)
		default:
			w.end = min(w.end, g.N*elementwise.Volume(g.out))
			w.runs = splitRun(w.own[:0], w.end-w.first, d.high)
			w.list = d.list
			if !d.flat {
				g.listPixels(&w, sc)
			}
		}
		for b := part * blocks / d.parts; b < (part+1)*blocks/d.parts; b++ {
			g.lastBlock(&w, b/d.blocks, b%d.blocks)
		}
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

// lastWork is what a task computes: pixels or cuts of lines [first, end).
type lastWork struct {
	first, end int
	runs       []lastRun
	own        [2]lastRun
	list       []int
	tiles      lastTiles
}

// lastBlock computes a block of channels of a group.
func (g *convolution) lastBlock(w *lastWork, group, b int) {
	d, place, lanes := &g.last, g.lastPlaces(), g.p.Set.Lanes
	first, end := d.block(b)
	channels := g.Cout / g.lastGroups()
	o, from := group*g.og+first*lanes, group*g.cg // first channels of the result and of x
	if d.each {
		from = o
	}
	t := &w.tiles
	t.zeros, t.k, t.ldw, t.ldd = address(d.zeros), g.cg, place[1], 4*g.Cout*g.every[2]
	t.w = address(g.packed) + uintptr(group*place[2]+first*place[1])
	bias := address(g.biases[(group*d.vectors+first)*lanes:])
	t.mask = lastOn(g.p.Set).mask(min(lanes, channels-(end-1)*lanes))
	t.does = d.does
	if d.lines {
		g.lastLines(w, linePart{vectors: end - first, bias: bias}, from, o)
		return
	}
	m := w.first
	for _, r := range w.runs {
		t.lines, t.bias = 1, bias
		t.taps, t.listStep, t.xStep = len(g.taps), 8*len(g.taps)*(r.pixels+1), 0
		t.x = address(d.x) + uintptr(4*from)
		if d.flat {
			t.listStep, t.xStep = 0, 4*r.pixels*g.Cin
			t.x += uintptr(4 * m * g.Cin)
		}
		g.lastTiles(t, r.count, w.list[r.at:], r.pixels, end-first, m*g.Cout+o)
		m += r.count * r.pixels
	}
}

// lastLines computes lines of a block of channels, from channel o of the result on and from channel c of x.
func (g *convolution) lastLines(w *lastWork, part linePart, c, o int) {
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
		part.lines, part.first, part.end = n, cut*d.tiles/d.cuts, (cut+1)*d.tiles/d.cuts
		part.row, part.rows, part.again = 0, 0, false
		// the line may be below the image
		part.x = 4 * ((((image*g.In[0]+z*g.step[0])*g.In[1] + h*g.step[1]) * g.In[2] * g.Cin) + c)
		part.out = g.Cout*(((image*g.out[0]+g.start[0]+z*g.every[0])*g.out[1]+g.start[1]+h*g.every[1])*g.out[2]+
			g.start[2]) + o
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

// A linePart is a part of some lines: tiles [first, end) of each, and rows of taps from row on. If more is set, another
// part adds to the sums; again means that the result has sums already.
type linePart struct {
	vectors, lines, first, end, row, rows, x, out int
	bias                                          uintptr
	more, again                                   bool
}

// lastLine computes a part of lines.
func (g *convolution) lastLine(w *lastWork, part *linePart) {
	d, t := &g.last, &w.tiles
	all := len(g.phaseTaps) / d.columns
	out, tile := part.out, 0
	for _, r := range d.line {
		skip, n := max(0, part.first-tile), min(r.count, part.end-tile)
		tile += r.count
		if n -= skip; n <= 0 {
			out += r.count * r.pixels * g.every[2] * g.Cout
			continue
		}
		row := r.columns * (r.pixels + 1)
		list := d.list[r.at+part.row*row:]
		t.taps, t.listStep, t.xStep = part.rows*r.columns, 8*all*row, 4*r.pixels*g.step[2]*g.Cin
		if r.inner {
			t.listStep = 0
		}
		if t.taps == 0 {
			t.taps, t.listStep, list = 1, 0, d.blank
		}
		list = list[skip*t.listStep/8:]
		t.x = address(d.x) + uintptr(part.x+r.x+skip*t.xStep)
		pixel := g.every[2] * g.Cout
		t.lines, t.dstLine = part.lines, 4*(g.every[1]*g.out[2]*g.Cout-n*r.pixels*pixel)
		t.xLine = 4*g.step[1]*g.In[2]*g.Cin - n*t.xStep
		t.does, t.bias = d.does, part.bias
		if part.more {
			t.does &= doesAddend
		}
		if part.again {
			t.does |= doesSums
		}
		g.lastTiles(t, n, list, r.pixels, part.vectors, out+skip*r.pixels*pixel)
		out += r.count * r.pixels * pixel
	}
}

// lastTiles computes tiles. The first one begins at index out of the result.
func (g *convolution) lastTiles(t *lastTiles, count int, list []int, pixels, vectors, out int) {
	t.count, t.each, t.listBack = count, count, -count*t.listStep
	t.dst = address(g.Out[out:])
	switch {
	case t.does&doesSums == doesSums:
		t.addend, t.bias = t.dst, address(g.last.zeros)
	case t.does&doesAddend != 0:
		t.addend = address(g.Addend[out:])
	}
	if t.does&doesResidual != 0 {
		t.residual = address(g.Residual[out:])
	}
	if on := lastOn(g.p.Set); g.last.each {
		on.each(g, t, list, pixels, vectors)
	} else {
		on.tile(g, t, list, pixels, vectors)
	}
}
