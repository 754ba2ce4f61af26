package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Convolutions with channels last, straight from x. A tile is a few pixels by a few vectors of output channels. Its
// sums stay in registers, while a list says where each pixel reads x for each tap. So x is not copied, and padding is a
// list entry. The sum of an element is always of the same products in the same order, so tiles may be of any shape.

const (
	lastLine   = 6       // least number of pixels of a line whose tiles are not joined with those of other lines
	lastList   = 1 << 13 // about how many entries a list has at most
	lastChunk  = 1 << 16 // about how many floats of x and of the result a task reads and writes
	lastFew    = 1 << 17 // products that are not worth a task of their own
	lastShares = 4       // tasks of a worker, if there is enough to do
)

// lastState is the state of a convolution with channels last.
type lastState struct {
	each    bool      // depthwise: vectors hold channels of x, too
	flat    bool      // all pixels are one line, of one tap
	lines   bool      // tiles are within lines
	x       []float32 // what is read
	vectors int       // vectors of output channels of a group
	blocks  int       // of vectors of a group
	high    int       // most pixels of a tile
	own     [2]lastRun
	spans   []lastSpan // of the lines of a plane of the result
	chunk   int        // pixels, or lines, of a task
	chunks  int
	parts   int // of the blocks of all groups
	zeros   []float32
	line    []lastRun // the tiles of a line
	list    []int     // of the tiles of a line
	blank   []int     // a tap outside of x
	does    int       // see lastTiles
}

// A lastRun is a run of tiles of as many pixels, whose part of the list begins at place at. In a line, tiles have only
// the columns of the kernel of which a pixel is inside of x.
type lastRun struct{ pixels, count, at, column, columns int }

// A lastSpan is a run of lines of the result, from first on, that have the same lines of the kernel inside of x: from
// above to below.
type lastSpan struct{ first, count, above, below int }

// channelsLast reports whether lastTiles computes the convolution.
func (g *convolution) channelsLast() bool {
	return g.Last && !g.Transposed && lastOn(g.p.Set).tile != nil
}

// shapeLast chooses the tiles. They depend on the shape alone.
func (g *convolution) shapeLast() {
	d, on := &g.last, lastOn(g.p.Set)
	d.each = g.cg == 1 && g.og == 1 && g.Groups > 1
	channels, k := g.og, g.cg
	if d.each {
		channels, k = g.Cout, 1
	}
	d.vectors = pool.CeilDiv(channels, g.p.Set.Lanes)
	d.flat = g.plain()
	d.lines = !d.flat && g.flatImage() && (d.each || g.out[2] >= lastLine) && g.out[2]*g.phases[0].k/g.cg <= lastList
	pixels := g.N * elementwise.Volume(g.out)
	if d.lines {
		pixels = g.out[2]
	}
	best := 0.0
	for v := 1; v <= min(on.vectors, d.vectors); v++ {
		high := min(lastPixels, on.sums/v)
		blocks := pool.CeilDiv(d.vectors, v)
		tiles := pool.CeilDiv(pixels, high)
		time := 0.0
		for b := range blocks {
			time += tileTime(pool.CeilDiv(pixels, tiles), (b+1)*d.vectors/blocks-b*d.vectors/blocks, k)
		}
		if time *= float64(tiles); v == 1 || time < best {
			best, d.high, d.blocks = time, high, blocks
		}
	}
}

// tileTime returns about how many cycles a tap takes for each of its k channels: for products, for loads, or for
// reading the weights from the second-level cache.
func tileTime(pixels, vectors, k int) float64 {
	p, v := float64(pixels), float64(vectors)
	return max(p*v/2, (p+2*v)/2, 4) + 0.5 + (0.6*p+10)/float64(k)
}

// block returns the vectors of a block of a group.
func (d *lastState) block(b int) (first, end int) {
	return b * d.vectors / d.blocks, (b + 1) * d.vectors / d.blocks
}

// lastGroups returns how many groups have vectors of their own.
func (g *convolution) lastGroups() int {
	if g.last.each {
		return 1
	}
	return g.Groups
}

// lastConv computes the convolution.
func (g *convolution) lastConv() {
	p, d := g.p, &g.last
	p.Shared.Reset()
	g.shapeLast()
	d.x = g.X
	g.packLast()
	if p.Bad.Load() != 0 {
		return
	}
	lanes := p.Set.Lanes
	wide := d.vectors * lanes
	g.biases = p.Shared.Floats(g.lastGroups() * wide)
	clear(g.biases)
	for i := range g.lastGroups() {
		if n := g.Cout / g.lastGroups(); g.Bias != nil {
			copy(g.biases[i*wide:], g.Bias[i*n:(i+1)*n])
		}
	}
	d.zeros = p.Shared.Floats(max(g.cg, lanes*lastOn(p.Set).vectors))
	clear(d.zeros)
	g.listLine()
	g.divideLast()
	d.does = 0
	if g.Addend != nil {
		d.does = doesAddend
	}
	g.rest.Addend = nil
	if g.Act == elementwise.Relu || g.Act == elementwise.Identity {
		g.rest = Epilogue{}
		if g.Act == elementwise.Relu {
			d.does |= doesRelu
		}
		if g.Residual != nil {
			d.does |= doesResidual
		}
	}
	g.late = d.parts > 1
	p.Each(d.chunks*d.parts, 1, (*convLast)(g))
}

// divideLast divides the work into tasks.
func (g *convolution) divideLast() {
	d, threads := &g.last, g.p.Threads()
	pixels, units := g.N*elementwise.Volume(g.out), 1 // pixels of a line
	if d.lines {
		units = g.out[2]
	}
	reads := g.Cout + g.Cin*min(g.Stride[1]*g.Stride[2], elementwise.Volume(g.Kernel))
	d.chunk = max(1, lastChunk/reads)
	if !d.flat && !d.lines {
		d.chunk = min(d.chunk, g.joinedPixels())
	}
	d.parts = 1
	if work := pixels * g.Cout * g.cg * elementwise.Volume(g.Kernel); threads > 1 && work > lastFew {
		tasks := min(threads*lastShares, pool.CeilDiv(work, lastFew))
		d.chunk = min(d.chunk, pool.CeilDiv(pixels, tasks))
		if chunks := pool.CeilDiv(pixels, max(d.chunk, d.high, units)); chunks < 2*threads {
			d.parts = min(d.blocks*g.lastGroups(), pool.CeilDiv(min(tasks, 2*threads), chunks))
		}
	}
	tile := max(units, d.high)
	d.chunk = max(1, d.chunk/tile) * tile / units
	d.chunks = pool.CeilDiv(pixels/units, d.chunk)
}

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
	ints := pool.ElementsOf[int](pool.BytesOf(g.p.Shared.Floats(2 * g.lastListSize())))
	d.blank, d.list = ints[:lastPixels+1], ints[lastPixels+1:]
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
		d.line = d.line[:0]
		first, at := 0, 0
		for _, r := range splitRun(d.own[:0], g.out[2], d.high) {
			for range r.count {
				at = g.listTile(place[0], first, r.pixels, at)
				first += r.pixels
			}
		}
		d.spans = d.spans[:0]
		for h := range g.out[1] {
			above, below := g.tapLines(h)
			if n := len(d.spans); n > 0 && d.spans[n-1].above == above && d.spans[n-1].below == below {
				d.spans[n-1].count++
			} else {
				d.spans = append(d.spans, lastSpan{h, 1, above, below})
			}
		}
	}
}

// listTile lists what a tile of a line reads, from pixel first on, at a place of the list, and returns the next place.
func (g *convolution) listTile(apart, first, pixels, at int) int {
	d, step, dilation := &g.last, g.Stride[2], g.Dilation[2]
	left, right := first*step-g.Pad[2], (first+pixels-1)*step-g.Pad[2]
	r := lastRun{pixels: pixels, count: 1, at: at}
	r.column = min(g.Kernel[2]-1, max(0, pool.CeilDiv(-right, dilation)))
	r.columns = max(1, min(g.Kernel[2], floorDiv(g.In[2]-1-left, dilation)+1)-r.column)
	for row := range g.Kernel[1] {
		for column := r.column; column < r.column+r.columns; column++ {
			t := &g.taps[row*g.Kernel[2]+column]
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

// lastPlaces returns the distances of weights: from a tap to the next, from a vector to the next, and from a group to
// the next, in bytes.
func (g *convolution) lastPlaces() (place [3]int) {
	d, line := &g.last, 4*g.p.Set.Lanes
	if d.each {
		return [3]int{line * d.vectors, line, 0}
	}
	tap := line * g.cg
	vector := tap * elementwise.Volume(g.Kernel)
	return [3]int{tap, vector, vector * d.vectors}
}

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
			w.end = min(w.end, g.N*g.out[0]*g.out[1])
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
		at, n := w.first*g.Cout, (w.end-w.first)*g.Cout
		if d.lines {
			at, n = at*g.out[2], n*g.out[2]
		}
		g.finish(at, n)
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
	t.zeros, t.k, t.ldw, t.ldd = address(d.zeros), g.cg, place[1], 4*g.Cout
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
	t.xStep, t.xLine = 0, 4*g.Stride[1]*g.In[2]*g.Cin
	for l := w.first; l < w.end; {
		plane, h, n := l/g.out[1], l%g.out[1], 0
		image, z := plane/g.out[0], plane%g.out[0]*g.Stride[0]
		line := (image*g.In[0]+z)*g.In[1] + h*g.Stride[1] // may be below the image
		for i := range d.spans {
			s := &d.spans[i]
			if h >= s.first+s.count {
				continue
			}
			n = min(s.first+s.count-h, w.end-l)
			m := l * g.out[2]
			for _, r := range d.line {
				row := r.columns * (r.pixels + 1)
				list := d.list[r.at+s.above*row:]
				t.taps, t.listStep = (s.below-s.above)*r.columns, 8*g.Kernel[1]*row
				if t.taps == 0 {
					t.taps, t.listStep, list = 1, 0, d.blank
				}
				t.x = address(d.x) + uintptr(4*(line*g.In[2]*g.Cin+c))
				t.lines, t.dstLine = n, 4*g.Cout*(g.out[2]-r.count*r.pixels)
				g.lastTiles(t, r.count, list, r.pixels, vectors, m*g.Cout+o)
				m += r.count * r.pixels
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

// lastListSize returns the number of entries of the lists of a line, also for shorter ones.
func (g *convolution) lastListSize() int {
	return 2*(lastPixels+1) + 2*min(lastList, g.out[2]*elementwise.Volume(g.Kernel))
}

// lastWeights returns the number of floats of the packed weights.
func (g *convolution) lastWeights() int {
	lanes, taps := g.p.Set.Lanes, elementwise.Volume(g.Kernel)
	if g.cg == 1 && g.og == 1 && g.Groups > 1 {
		return pool.CeilDiv(g.Cout, lanes) * lanes * taps
	}
	return g.Groups * pool.CeilDiv(g.og, lanes) * lanes * taps * g.cg
}

// packLast sets packed to the weights: [groups, vectors, taps, channels of x, lanes], or [taps, vectors, lanes] for
// depthwise convolutions. It stores 1 in Bad if they cannot be used.
func (g *convolution) packLast() {
	p, kept := g.p, g.Packed
	switch {
	case kept == nil:
		g.packed = p.Shared.Floats(g.lastWeights())
	case kept.last != nil:
		g.packed = kept.last
		g.refuse()
		return
	default:
		g.packed = make([]float32, g.lastWeights())
	}
	p.Share(g.lastGroups()*g.last.vectors, 1+pool.Grain/(g.lastWeights()/g.last.vectors), (*convPackLast)(g))
	if kept != nil {
		kept.last, kept.bad = g.packed, kept.bad || p.Bad.Load() != 0
	}
}

// convPackLast packs the weights of vectors of channels.
type convPackLast convolution

func (x *convPackLast) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	d, place, taps := &g.last, g.lastPlaces(), elementwise.Volume(g.Kernel)
	lanes, channels := g.p.Set.Lanes, g.Cout/g.lastGroups()
	cg := g.cg
	mark := g.p.Scratch(worker).Mark()
	row := g.p.Scratch(worker).Floats(taps)
	for v := lo; v < hi; v++ {
		to := g.packed[(v/d.vectors*place[2]+v%d.vectors*place[1])/4:]
		for l := range lanes {
			o := v%d.vectors*lanes + l
			for c := range cg {
				if o >= channels {
					for t := range taps {
						to[t*place[0]/4+c*lanes+l] = 0
					}
					continue
				}
				w := g.Weight.Row(g.p.Set, g.weightAt(v/d.vectors*channels+o, c), taps, row)
				g.check(w)
				for t, x := range w {
					to[t*place[0]/4+c*lanes+l] = x
				}
			}
		}
	}
	g.p.Scratch(worker).Release(mark)
}
