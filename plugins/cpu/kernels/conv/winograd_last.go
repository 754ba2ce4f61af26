package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Winograd's algorithm with channels last; see winograd.go for what it computes. A vector holds channels of one pixel,
// so tiles are transformed where they lie in x, without a copy, and a list says what is padding. The 16 matrix products
// are those of convolutions with one tap, whose pixels are tiles.

const (
	winogradSeen      = 256 // pixels whose magnitudes are added up together
	winogradLastShare = 4   // least number of tiles of a thread
)

// Tests change these.
var (
	// About how many floats of transformed tiles and products a task has, so that they stay in the second-level cache.
	winogradLastRoom = 1 << 17
	// Whether fasterByWinograd is asked.
	winogradLastAlways = false
)

// winogradLast is the state of such a convolution.
type winogradLast struct {
	*convolution
	size    [3]int // the tiles of an image along each axis
	tiles   int    // of all images
	chunks  int    // into which they are divided for tasks
	parts   int    // into which the blocks of channels are divided
	most    int    // tiles of a chunk
	high    int    // tiles of a product at most
	vectors int    // of channels of the result
	blocks  int    // of these vectors
	ldd     int    // floats from a transformed tile to the next
	lines   [16 * 4]int
	columns [16 * 4]int // places of pixels; see listPlaces
	list    [lastPixels + 1]int
	zeros   []float32
	seen    []float32 // magnitudes: see winogradLastRoutines.seen
	units   int       // of pixels of an image with magnitudes of their own
	others  []int     // images that are computed in another way
	turn    int       // counts convolutions
}

// A winogradTile is what routines know of a tile. Places are in bytes.
type winogradTile struct {
	x              int     // from the first pixel of x to that of the tile
	lines, columns uintptr // the addresses of four places each; see listPlaces
	out            int     // from the first channel of the first pixel of the result
	inside         int     // bit 2*y+x is set if element (y, x) is inside of the result
}

// byWinogradLast reports whether winogradLast may compute the convolution.
func (g *convolution) byWinogradLast() bool {
	return g.Packed != nil && !g.Packed.direct && g.suitsWinogradLast() && g.fasterByWinograd()
}

// fasterByWinograd reports whether winogradLast takes less time than lastConv. Transforming a channel takes about as
// long as its products with 16 others, so there must be enough of them. Elements of tiles that are outside of the
// result are computed and dropped. With few tiles, reading the weights takes the time, and there are 16/9 as many. The
// speed relative to lastConv on one thread of a Xeon with AVX-512, with weights in the second-level or third-level
// cache:
//
//	image, channels    speed     image, channels    speed
//	16x16, 8 to 64     0.91      2x2, 64 to 64      0.88
//	16x16, 16 to 16    1.01      2x4, 64 to 64      1.34
//	16x16, 16 to 32    1.14      3x3, 256 to 256    0.46
//	16x16, 32 to 32    1.31      4x4, 256 to 256    0.83
//	16x16, 32 to 64    1.51      4x8, 256 to 256    1.10
//	56x56, 64 to 64    1.63      5x5, 256 to 256    1.13
//	28x28, 128 to 128  1.79      4x8, 512 to 512    1.24
//	14x14, 256 to 256  1.56      7x7, 512 to 512    1.18
//
// With AVX2 it is mostly higher: 1.13 for 7x7 and 512 to 512, 2.01 for 14x14. In a model of 45 MB, whose weights came
// from memory at 11 GB/s, two images of 4x4 and 256 to 256 took 1.08 times as long as with lastConv. So with many
// weights there must be more tiles. To measure: go test ./plugins/cpu/kernels/conv -run - -bench WinogradLast
// -benchtime 100x
func (g *convolution) fasterByWinograd() bool {
	if winogradLastAlways {
		return true
	}
	lanes := g.p.Set.Lanes
	wide := pool.CeilDiv(g.Cout, lanes) * lanes
	tiles, pixels := g.N*elementwise.Volume(tilesOf(g.out)), g.N*elementwise.Volume(g.out)
	saved := 9*pixels - 16*tiles // products for each pair of channels
	if g.Cin*wide > 1<<12 {
		return g.Cin >= 16 && saved >= 180
	}
	return g.Cin >= 16 && g.Cin*wide >= 512 && saved >= max(100, 4*tiles)
}

// suitsWinogradLast reports whether winogradLast can compute the convolution.
func (g *convolution) suitsWinogradLast() bool {
	return g.Last && !g.Transposed && g.Groups == 1 && g.Kernel == [3]int{1, 3, 3} && g.Stride == [3]int{1, 1, 1} &&
		g.Dilation == [3]int{1, 1, 1} && g.In[0] == 1 && g.Pad[0] == 0 && winogradLastOn(g.p.Set).in != nil
}

// plan chooses the tasks.
func (w *winogradLast) plan() {
	lanes, threads := w.p.Set.Lanes, w.p.Threads()
	w.size = tilesOf(w.out)
	w.tiles = w.N * elementwise.Volume(w.size)
	w.vectors = pool.CeilDiv(w.Cout, lanes)
	w.ldd = w.lineSize()
	w.chunks = pool.CeilDiv(w.tiles, w.mostTiles())
	w.chunks = pool.CeilDiv(w.chunks, threads) * threads
	if w.tiles <= w.mostTiles() && !w.dividesTiles() {
		w.chunks = 1
	}
	w.most = pool.CeilDiv(w.tiles, w.chunks)
	w.high, w.blocks = lastOn(w.p.Set).shape(w.most, w.vectors, w.Cin)
	w.parts = 1
	if threads > 1 && w.chunks < 2*threads {
		w.parts = min(w.blocks, pool.CeilDiv(2*threads, w.chunks))
	}
	w.units = pool.CeilDiv(elementwise.Volume(w.In), winogradSeen)
}

// dividesTiles reports whether threads have tiles of their own where one task could have all. Otherwise they have
// channels of their own: each reads fewer weights, but transforms all tiles. With few channels there is nothing else to
// divide.
func (w *winogradLast) dividesTiles() bool {
	threads, lanes, weights := w.p.Threads(), w.p.Set.Lanes, winogradParts*w.Cin*w.Cout
	return w.tiles >= winogradLastShare*threads &&
		(w.Cout < threads*lanes*lastOn(w.p.Set).vectors || weights <= winogradLastRoom)
}

// lineSize returns the distance of transformed tiles. They do not all begin in the same sets of a cache.
func (g *convolution) lineSize() int {
	size := pool.CeilDiv(g.Cin, g.p.Set.Lanes) * g.p.Set.Lanes
	if size%512 == 0 {
		size += product.Spill
	}
	return size
}

// mostTiles returns the maximum number of tiles of a task.
func (g *convolution) mostTiles() int {
	on := lastOn(g.p.Set)
	return max(2*lastPixels, winogradLastRoom/(winogradParts*(g.Cin+on.vectors*g.p.Set.Lanes)))
}

// winogradLastScratch returns what winogradLast needs, also for smaller images.
func (g *convolution) winogradLastScratch() pool.Size {
	w, lanes, on := winogradLast{convolution: g}, g.p.Set.Lanes, lastOn(g.p.Set)
	w.plan()
	most := min(w.tiles, g.mostTiles())
	return pool.Size{
		Shared: pool.FloatBytes(w.vectors*lanes, w.zerosSize(), w.seenSize()),
		Worker: pool.FloatBytes(winogradParts*(most*w.ldd+product.Spill), tileFloats*most,
			winogradParts*(most*on.vectors*lanes+product.Spill)),
		Other: pool.SizeOf[int](g.N),
	}
}

func (w *winogradLast) zerosSize() int {
	return max(w.ldd, lastOn(w.p.Set).vectors*w.p.Set.Lanes)
}

func (w *winogradLast) seenSize() int { return w.N * w.units * w.seenLine() }

// seenLine returns the number of floats of the magnitudes of some pixels.
func (w *winogradLast) seenLine() int { return 2 * pool.CeilDiv(w.Cin, w.p.Set.Lanes) * w.p.Set.Lanes }

// winogradLast computes the convolution, unless its weights do not allow that.
func (g *convolution) winogradLast() bool {
	p := g.p
	w := pool.Keep[winogradLast](p)
	w.convolution = g
	w.plan()
	if g.Packed.winograd == nil {
		w.packWeights()
	}
	if g.Packed.direct {
		return false
	}
	w.turn++
	p.Shared.Reset()
	g.biases = p.Shared.Floats(w.vectors * p.Set.Lanes)
	clear(g.biases)
	copy(g.biases, g.Bias)
	w.zeros, w.seen = p.Shared.Floats(w.zerosSize()), p.Shared.Floats(w.seenSize())
	clear(w.zeros)
	w.listPlaces()
	g.epilogueLast()
	g.late = w.parts > 1
	p.Each(w.chunks*w.parts, 1, (*winogradLastTasks)(w))
	w.others = w.others[:0]
	for n := range g.N {
		if !w.suits(n) {
			w.others = append(w.others, n)
		}
	}
	if g.late {
		g.finishAll()
	}
	args := g.Args // the next convolution overwrites g
	for _, n := range w.others {
		args.again(p, n)
	}
	return true
}

// listPlaces lists where the lines and columns of tiles are, from the first one on, for each set of them that are
// inside of x. The sum of two places and an address is negative for padding.
func (w *winogradLast) listPlaces() {
	for i := range w.lines {
		set, k := i/4, i%4
		w.lines[i], w.columns[i] = 4*k*w.In[2]*w.Cin, 4*k*w.Cin
		if set>>k&1 == 0 {
			w.lines[i], w.columns[i] = padding/2, padding/2
		}
	}
	for i := range lastPixels {
		w.list[i+1] = 4 * i * w.ldd
	}
}

// insideOf returns which of four elements from at on are less than size, and not negative.
func insideOf(at, size int) (set int) {
	for k := range 4 {
		if at+k >= 0 && at+k < size {
			set |= 1 << k
		}
	}
	return set
}

// listTiles lists tiles from first on.
func (w *winogradLast) listTiles(tiles []winogradTile, first int) {
	area, across, high, wide := w.size[1]*w.size[2], w.size[2], w.out[1], w.out[2]
	image, line, column := first/area, first%area/across, first%across
	for i := 0; i < len(tiles); {
		y, below := 2*line-w.Pad[1], 2*line+1 < high
		lines := addressOfInts(w.lines[4*insideOf(y, w.In[1]):])
		for ; column < across && i < len(tiles); i, column = i+1, column+1 {
			x := 2*column - w.Pad[2]
			t := winogradTile{x: 4 * ((image*w.In[1]+y)*w.In[2] + x) * w.Cin, lines: lines,
				columns: addressOfInts(w.columns[4*insideOf(x, w.In[2]):]),
				out:     4 * ((image*high+2*line)*wide + 2*column) * w.Cout, inside: 1}
			if 2*column+1 < wide {
				t.inside = 3
			}
			if below {
				t.inside |= t.inside << 2
			}
			tiles[i] = t
		}
		column = 0
		if line+1 < w.size[1] {
			line++
		} else {
			line, image = 0, image+1
		}
	}
}

// suits reports whether the sums of image n are finite and accurate enough.
func (w *winogradLast) suits(n int) bool {
	line := w.seenLine()
	seen := w.seen[n*w.units*line:][:w.units*line]
	total := seen[:line] // of the whole image
	most, sum := total[:w.Cin], total[line/2:][:w.Cin]
	for at := line; at < len(seen); at += line {
		for c, v := range seen[at:][:w.Cin] {
			most[c] = max(most[c], v)
		}
		for c, v := range seen[at+line/2:][:w.Cin] {
			sum[c] += v
		}
	}
	largest := float32(0)
	for c, v := range most {
		largest = max(largest, v)
		if sum[c]-sum[c] != 0 {
			return false
		}
	}
	if !w.inRange(float64(largest)) {
		return false
	}
	used, even, least := 0, 0, float64(largest)*float64(elementwise.Volume(w.In)-1)
	for c, v := range most {
		if v > 0 {
			used++
			if (float64(sum[c])-float64(v))*winogradRange >= least {
				even++
			}
		}
	}
	return enough(even, used)
}
