package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Convolutions with channels last, straight from x. A tile is a few pixels by a few vectors of output channels. Its
// sums stay in registers, while a list says where each pixel reads x for each tap. So x is not copied, and padding is a
// list entry. The sum of an element is always of the same products in the same order, so tiles may be of any shape.

const (
	lastJoined = 8       // least number of channels whose taps are not worth joining in short lines
	lastLine   = 6       // least number of pixels of a line whose tiles are not joined with those of other lines
	lastList   = 1 << 13 // about how many entries a list has at most
	lastChunk  = 1 << 16 // about how many floats of x and of the result a task reads and writes
	lastFew    = 1 << 17 // products that are not worth a task of their own
	lastShares = 4       // tasks of a worker, if there is enough to do
)

// lastState is the state of a convolution with channels last.
type lastState struct {
	compute func(g *convolution, t *lastTiles, list []int, pixels, vectors int)
	each    bool      // depthwise: vectors hold channels of x, too
	flat    bool      // all pixels are one line, of one tap
	lines   bool      // tiles are within lines
	x       []float32 // what is read
	vectors int       // vectors of output channels of a group
	blocks  int       // of vectors of a group
	high    int       // most pixels of a tile
	own     [2]lastRun
	spans   []lastSpan // of the lines of a plane of the result
	chunk   int        // pixels, or cuts of lines, of a task
	chunks  int
	parts   int // of the blocks of all groups
	zeros   []float32
	line    []lastRun // the tiles of a line
	ints    []int     // room for the lists
	list    []int     // of the tiles of a line
	blank   []int     // a tap outside of x
	columns int       // of the kernel in the phase
	rows    int
	tiles   int // of a line
	cuts    int // into which lines are divided for tasks
	does    int // see lastTiles
	turn    int // counts phases
}

// A lastRun is a run of tiles with the same number of pixels. Their part of the list begins at place at. In a line, the
// first tile begins x bytes after the beginning of the line, and the list has only the columns of the kernel that have
// a pixel inside of x. Inner tiles, which read no padding, share the list. Where taps are joined, several have one
// entry; see joinedTaps.
type lastRun struct {
	pixels, count, at, columns, x, joined int
	inner                                 bool
}

// A lastSpan is a run of lines of the result, from first on, that have the same lines of the kernel inside of x: from
// above to below.
type lastSpan struct{ first, count, above, below int }

// channelsLast reports whether lastConv computes the convolution.
func (g *convolution) channelsLast() bool { return g.Last && lastOn(g.p.Set).tile != nil }

// depthwise reports whether each channel of the result is computed from one channel of x, and each of these is read
// once.
func (g *convolution) depthwise() bool { return g.cg == 1 && g.og == 1 && g.Groups > 1 }

// shapeLast chooses the tiles of the phase. They depend on the shape alone.
func (g *convolution) shapeLast() {
	d, on := &g.last, lastOn(g.p.Set)
	d.compute = on.tile
	if d.each = g.depthwise(); d.each {
		d.compute = on.each
	}
	channels, k := g.og, g.cg
	if d.each {
		channels, k = g.Cout, 1
	}
	d.vectors = pool.CeilDiv(channels, g.p.Set.Lanes)
	d.flat = g.plain()
	d.lines = !d.flat && (g.Transposed || d.each || g.out[2] >= lastLine || g.joins())
	pixels := g.N * elementwise.Volume(g.count)
	if d.lines {
		pixels = g.count[2]
	}
	if d.lines {
		k *= g.joinedTaps()
	}
	d.high, d.blocks = on.shape(pixels, d.vectors, k)
}

// joins reports whether the taps of a line of the kernel are read as one in lines of any length, as for the patches of
// small images.
func (g *convolution) joins() bool {
	n := len(g.phaseTaps)
	return g.cg < lastJoined && g.joinedTaps() > 1 && g.phaseTaps[0].at[2] >= 0 &&
		g.phaseTaps[n-1].at[2]+(g.count[2]-1)*g.step[2] < g.In[2]
}

// shape returns how many pixels a tile has at most, and into how many blocks so many vectors of channels are divided.
func (on *lastRoutines) shape(pixels, vectors, k int) (high, blocks int) {
	best := 0.0
	for v := 1; v <= min(on.vectors, vectors); v++ {
		most, n := min(lastPixels, on.sums/v), pool.CeilDiv(vectors, v)
		tiles := pool.CeilDiv(pixels, most)
		time := 0.0
		for b := range n {
			time += tileTime(pool.CeilDiv(pixels, tiles), (b+1)*vectors/n-b*vectors/n, k)
		}
		if time *= float64(tiles); v == 1 || time < best {
			best, high, blocks = time, most, n
		}
	}
	return high, blocks
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
	p, d, lanes := g.p, &g.last, g.p.Set.Lanes
	p.Shared.Reset()
	if len(g.phases) == 0 { // no element is computed from x
		g.prefill()
		return
	}
	g.usePhase(0)
	d.x = g.X
	g.packLast()
	if p.Bad.Load() != 0 {
		return
	}
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
	d.ints = pool.ElementsOf[int](pool.BytesOf(g.p.Shared.Floats(2 * g.lastListSize())))
	g.epilogueLast()
	g.prefill()
	for i := range g.phases {
		g.usePhase(i)
		g.listLine()
		g.divideLast()
		d.turn++
		p.Each(d.chunks*d.parts, 1, (*convLast)(g))
	}
}

// usePhase begins a phase.
func (g *convolution) usePhase(i int) {
	g.phase = g.phases[i]
	g.phaseTaps = g.taps[g.first:g.end]
	g.shapeLast()
}

// epilogueLast chooses what tiles apply of the epilogue.
func (g *convolution) epilogueLast() {
	d := &g.last
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
}

// divideLast divides the work into tasks.
func (g *convolution) divideLast() {
	d, threads := &g.last, g.p.Threads()
	pixels, units := g.N*elementwise.Volume(g.count), g.count[2] // units: pixels of a line
	reads := g.Cout + g.Cin*min(g.step[1]*g.step[2], len(g.phaseTaps))
	d.chunk = max(1, lastChunk/reads)
	if !d.flat && !d.lines {
		d.chunk = min(d.chunk, g.joinedPixels())
	}
	d.parts = 1
	if work := pixels * g.Cout * g.k; threads > 1 && work > lastFew {
		tasks := min(threads*lastShares, pool.CeilDiv(work, lastFew))
		if g.lastWeights() > pixels*reads {
			d.parts = g.shareBlocks(tasks)
			tasks = pool.CeilDiv(min(tasks, 2*threads), d.parts)
		}
		d.chunk = min(d.chunk, pool.CeilDiv(pixels, tasks))
		if chunks := pool.CeilDiv(pixels, max(d.chunk, d.high)); d.parts == 1 && chunks < 2*threads {
			d.parts = g.shareBlocks(pool.CeilDiv(min(tasks, 2*threads), chunks))
		}
	}
	g.late = d.parts > 1
	d.cuts = 1
	if !d.lines {
		d.evenChunks(pixels, max(d.chunk, d.high), threads)
		return
	}
	d.cuts = max(1, min(d.tiles, units/d.chunk))
	units = max(1, units/d.cuts)
	tile := max(units, d.high)
	d.chunk = max(1, d.chunk/tile) * tile / units
	if d.cuts > 1 {
		d.chunk = 1
	}
	d.evenChunks(g.N*g.count[0]*g.count[1]*d.cuts, d.chunk, threads)
}

// evenChunks divides items into chunks of at most so many, about as many for each thread.
func (d *lastState) evenChunks(items, most, threads int) {
	d.chunks = pool.CeilDiv(items, most)
	if d.chunks*d.parts > 1 && d.parts%threads != 0 {
		d.chunks = pool.CeilDiv(d.chunks, threads) * threads
	}
	d.chunk = pool.CeilDiv(items, d.chunks)
	d.chunks = pool.CeilDiv(items, d.chunk)
}

// shareBlocks returns the number of parts, at most tasks, that the blocks of all groups are divided into. If there are
// too few of them for parts of the same size, blocks become smaller.
func (g *convolution) shareBlocks(tasks int) int {
	d, groups, threads := &g.last, g.lastGroups(), g.p.Threads()
	if most := d.vectors / threads * threads; groups == 1 && most > 0 {
		d.blocks = min(pool.CeilDiv(d.blocks, threads)*threads, most)
	}
	return min(d.blocks*groups, tasks)
}
