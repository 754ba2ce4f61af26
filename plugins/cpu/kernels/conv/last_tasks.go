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
			w.end = min(w.end, g.N*g.count[0]*g.count[1])
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
		if at, n := w.first*g.Cout, (w.end-w.first)*g.Cout; d.lines && !g.Transposed {
			g.finish(at*g.out[2], n*g.out[2])
		} else if !g.Transposed {
			g.finish(at, n)
		}
		sc.Release(mark)
	}
}

// lastWork is what a task computes: pixels or lines [first, end).
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
	t.bias = address(g.biases[(group*d.vectors+first)*lanes:])
	t.mask = lastOn(g.p.Set).mask(min(lanes, channels-(end-1)*lanes))
	t.does = d.does
	if d.lines {
		g.lastLines(w, end-first, from, o)
		return
	}
	m := w.first
	for _, r := range w.runs {
		t.lines = 1
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

// lastLines computes lines of so many vectors of channels, from channel o of the result on and from channel c of x.
func (g *convolution) lastLines(w *lastWork, vectors, c, o int) {
	d, t := &g.last, &w.tiles
	t.xStep, t.xLine = 0, 4*g.step[1]*g.In[2]*g.Cin
	rows := len(g.phaseTaps) / d.columns
	for l := w.first; l < w.end; {
		plane, h, n := l/g.count[1], l%g.count[1], 0
		image, z := plane/g.count[0], plane%g.count[0]
		line := (image*g.In[0]+z*g.step[0])*g.In[1] + h*g.step[1] // may be below the image
		m := ((image*g.out[0]+g.start[0]+z*g.every[0])*g.out[1]+g.start[1]+h*g.every[1])*g.out[2] + g.start[2]
		for i := range d.spans {
			s := &d.spans[i]
			if h >= s.first+s.count {
				continue
			}
			n = min(s.first+s.count-h, w.end-l)
			for _, r := range d.line {
				row := r.columns * (r.pixels + 1)
				list := d.list[r.at+s.above*row:]
				t.taps, t.listStep = (s.below-s.above)*r.columns, 8*rows*row
				if t.taps == 0 {
					t.taps, t.listStep, list = 1, 0, d.blank
				}
				t.x = address(d.x) + uintptr(4*(line*g.In[2]*g.Cin+c))
				pixels := r.count * r.pixels * g.every[2]
				t.lines, t.dstLine = n, 4*g.Cout*(g.every[1]*g.out[2]-pixels)
				g.lastTiles(t, r.count, list, r.pixels, vectors, m*g.Cout+o)
				m += pixels
			}
			break
		}
		l += n
	}
}

// lastTiles computes tiles. The first one begins at index out of the result.
func (g *convolution) lastTiles(t *lastTiles, count int, list []int, pixels, vectors, out int) {
	t.count, t.each, t.listBack = count, count, -count*t.listStep
	t.dst = address(g.Out[out:])
	if t.does&doesAddend != 0 {
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
