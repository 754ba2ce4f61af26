package conv

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions of 3x3 taps with stride 1 and channels first, by Winograd's algorithm F(2x2, 3x3), as in Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks" (2016). A tile of 2x2 elements of the result is A^T m A. d is the
// tile of 4x4 pixels that it reads, and m is the sum over channels of the elementwise products of G w G^T and B^T d B.
// So it takes 16 products in place of 36. Element (i, j) of all tiles and channels is a matrix: there are 16 matrix
// products of weights [Cout, Cin] and tiles [Cin, tiles].

const (
	winogradParts    = 16 // the elements of a transformed tile
	winogradChannels = 16 // least numbers of channels of x and of the result
	// Least number of tiles, in vectors. With fewer, reading the weights takes long: there are 16/9 as many.
	winogradTiles = 2
	// About how many floats of transformed tiles and products a task has. They fit in the second-level cache.
	winogradRoom = 1 << 17
	// The error of an element of the result is relative to the largest pixel of its tile, which the element itself may
	// not read, and to the largest weight, which may multiply padding there. So in some channels of x, and for some
	// weights, the mean is at least the largest magnitude divided by this.
	winogradRange = 1 << 10
)

// byWinograd reports whether winograd computes the convolution.
func (g *convolution) byWinograd() bool {
	if g.Last || g.Transposed || g.Groups != 1 || g.Kernel != [3]int{1, 3, 3} || g.Stride != [3]int{1, 1, 1} ||
		g.Dilation != [3]int{1, 1, 1} || g.In[0] != 1 || g.Pad[0] != 0 || winogradOn(g.p.Set).input == nil {
		return false
	}
	return g.Cin >= winogradChannels && g.Cout >= winogradChannels &&
		elementwise.Volume(tilesOf(g.out)) >= winogradTiles*g.p.Set.Lanes
}

// tilesOf returns the number of tiles along each axis of a result.
func tilesOf(out [3]int) [3]int { return [3]int{1, pool.CeilDiv(out[1], 2), pool.CeilDiv(out[2], 2)} }

// winograd is the state of such a convolution.
type winograd struct {
	*convolution
	size        [3]int    // the tiles of an image along each axis
	merged      bool      // tiles are counted over images; otherwise images are computed one after the other
	image       int       // the first image that is being computed
	images      int       // number of images that are computed together
	panels      int       // panels of their tiles
	most        int       // panels of a task
	across      int       // tasks along the tiles
	pixels      flatCopy  // layout of copied
	copied      []float32 // the images, with padding; see split
	transformed []float32 // the tiles of all tasks, if several tasks share them
	seen        []magnitudes
	others      []int // images that are computed in another way
}

// area returns the number of tiles of an image.
func (w *winograd) area() int { return elementwise.Volume(w.size) }

// plan chooses the tasks.
func (w *winograd) plan() {
	nr, s := product.On(w.p.Set).NR, w.p.Set
	w.size = tilesOf(w.out)
	w.images = 1
	if w.merged = w.N > 1 && w.area() < 2*nr; w.merged {
		w.images = w.N
	}
	w.panels = pool.CeilDiv(w.images*w.area(), nr)
	w.across = pool.CeilDiv(w.panels, w.mostPanels())
	w.most = pool.CeilDiv(w.panels, w.across) // tasks of about equal size
	b := &w.pixels
	b.lines, b.line = w.size[1]+1, w.size[2]+1
	b.channel = 4 * b.lines * b.line
	b.image = w.Cin * b.channel
	for b.vector = 4; b.vector < s.Lanes && b.vector < w.size[2] && (b.vector < 8 || w.size[2] > 12); {
		b.vector *= 2
	}
}

// mostPanels returns the maximum number of panels of a task.
func (w *winograd) mostPanels() int {
	nr := product.On(w.p.Set).NR
	return max(1, 32/nr, winogradRoom/(winogradParts*nr*(w.Cin+w.blockRows())))
}

// shares reports whether tasks share the transformed tiles. Otherwise each task transforms its own ones, and computes
// all channels of the result.
func (w *winograd) shares() bool { return w.p.Threads() > 1 && w.across < 2*w.p.Threads() }

// part returns the distance of two matrices of transformed tiles. They do not begin in the same sets of a cache.
func (w *winograd) part(panels int) int {
	return panels*product.On(w.p.Set).NR*w.Cin + product.Spill
}

// winogradScratch returns what winograd needs, also for smaller images.
func (g *convolution) winogradScratch() pool.Size {
	w := winograd{convolution: g}
	w.plan()
	nr, threads := product.On(g.p.Set).NR, g.p.Threads()
	most := min(w.panels, w.mostPanels())
	wide, rows := most*nr, g.blockRows()
	plane := w.pixels.lines * w.pixels.line
	copied := max(plane, g.N*min(plane, 4*nr+2)) // twice the tiles of merged images, and more, if they are few
	r := pool.Size{Shared: pool.FloatBytes(4*g.Cin*copied + 2*g.p.Set.Lanes),
		Other: pool.SizeOf[magnitudes](g.N*g.Cin) + pool.SizeOf[int](g.N),
		Worker: pool.FloatBytes(winogradParts*w.part(most), winogradParts*(nr+g.p.Set.Lanes+product.Spill),
			winogradParts*(rows*wide+product.Spill), 4*rows*wide, product.On(g.p.Set).MR*nr,
			winogradParts*rows*g.Cin)}
	if shared := min(w.across*w.most, 2*threads*w.mostPanels()); threads > 1 {
		r.Shared += pool.FloatBytes(winogradParts * (w.part(shared) + 2*threads*product.Spill))
	}
	return r
}

// winogradSize returns the number of floats of the packed weights.
func (g *convolution) winogradSize() int { return g.blocks() * winogradParts * g.blockSizeOf(g.Cin) }

// blockSizeOf is blockSize for k products.
func (g *convolution) blockSizeOf(k int) int { return g.blockRows()*k + product.Spill }

// winograd computes the convolution.
func (g *convolution) winograd() {
	p := g.p
	w := pool.Keep[winograd](p)
	w.convolution = g
	w.plan()
	if g.Packed.winograd == nil {
		w.packWeights()
	}
	w.seen, w.others = pool.Sized(w.seen, g.N*g.Cin), w.others[:0]
	w.inTiles()
	for w.image = 0; w.image < g.N; w.image += w.images {
		p.Shared.Reset()
		w.copied, w.transformed = p.Shared.Floats(w.images*w.pixels.image+2*p.Set.Lanes), nil
		p.Share(w.images*g.Cin, 1+pool.Grain/elementwise.Volume(g.In), (*winogradSplit)(w))
		if w.shares() {
			w.transformed = p.Shared.Floats(w.across * winogradParts * w.part(w.most))
			p.Share(w.across*w.channelParts(), 1, (*winogradTransform)(w))
			p.Each(w.across*w.blocks(), 1, (*winogradBlocks)(w))
		} else {
			p.Each(w.across, 1, (*winogradBlocks)(w))
		}
	}
	for n := range g.N {
		if !w.suits(n) {
			w.others = append(w.others, n)
		}
	}
	g.finishAll()
	args := g.Args // the next convolution overwrites g
	for _, n := range w.others {
		args.again(w.p, n)
	}
}

// again computes image n in another way.
func (g Args) again(p *pool.Pool, n int) {
	in, out := g.Cin*elementwise.Volume(g.In), g.Cout*elementwise.Volume(g.OutSize())
	g.X, g.Out, g.N, g.Packed = g.X[n*in:][:in], g.Out[n*out:][:out], 1, nil
	g.Epilogue = g.from(n * out)
	Convolve(p, &g)
}

// winogradSplit copies channels, counted over images, with padding. It separates even and odd lines and columns.
type winogradSplit winograd

func (x *winogradSplit) Do(lo, hi, _ int) {
	w, b := (*winograd)(x), &x.pixels
	high, wide, py, px := w.In[1], w.In[2], w.Pad[1], w.Pad[2]
	split := winogradOn(w.p.Set).split
	for c := lo; c < hi; c++ {
		dst := w.copied[c*b.channel:][:b.channel]
		src := w.X[(w.image*w.Cin+c)*high*wide:][:high*wide]
		m := &w.seen[w.image*w.Cin+c]
		*m = magnitudes{}
		clear(dst)
		for y := range min(2, high) { // even lines, then odd ones
			lines := (high - y + 1) / 2
			// to returns where columns of the given remainder begin.
			to := func(x int) []float32 {
				return dst[((y+py)%2*2+(x+px)%2)*b.lines*b.line+(y+py)/2*b.line+(x+px)/2:]
			}
			even, from := to(0), src[y*wide:]
			split(even, to(1), b.line, from, 2*wide, lines, wide/2, m)
			for l := range wide % 2 * lines { // the last column
				v := from[2*l*wide+wide-1]
				even[l*b.line+wide/2] = v
				m.add(0, v)
			}
		}
	}
}

// suits reports whether the sums of image n are finite and accurate enough.
func (w *winograd) suits(n int) bool {
	largest, seen := 0.0, w.seen[n*w.Cin:][:w.Cin]
	for c := range seen {
		most, sum := seen[c].total()
		largest = max(largest, most)
		if sum-sum != 0 {
			return false
		}
	}
	if !w.inRange(largest) {
		return false
	}
	used, even := 0, 0
	for c := range seen {
		most, sum := seen[c].total()
		if most > 0 {
			used++
		}
		if most > 0 && (sum-most)*winogradRange >= largest*float64(elementwise.Volume(w.In)-1) {
			even++
		}
	}
	return enough(even, used)
}

// inRange reports whether sums are finite if the largest pixel is so large. A transformed pixel is at most 4 pixels,
// and an element of the result 9 sums.
func (g *convolution) inRange(largest float64) bool {
	return 36*largest*float64(g.Cin)*g.Packed.largest <= math.MaxFloat32
}

// enough reports whether at least an eighth of all numbers, or channels, are large.
func enough(large, all int) bool { return 8*large >= all }

// packWeights transforms and packs the weights.
func (w *winograd) packWeights() {
	kept := w.Packed
	kept.winograd = make([]float32, w.winogradSize())
	w.p.Share(w.blocks(), 1, (*winogradWeights)(w))
	for _, v := range kept.winograd {
		kept.largest = max(kept.largest, float64(v), -float64(v))
	}
	if w.p.Bad.Swap(0) != 0 {
		kept.largest = math.Inf(1)
	}
}

type winogradWeights winograd

func (x *winogradWeights) Do(lo, hi, worker int) {
	w := (*winograd)(x)
	s, sc, k := w.p.Set, w.p.Scratch(worker), w.Cin
	var row [9]float32
	for t := lo; t < hi; t++ {
		first := t * w.blockRows()
		rows := min(w.blockRows(), w.Cout-first)
		mark := sc.Mark()
		made := sc.Floats(winogradParts * rows * k)
		for r := range rows {
			for c := range k {
				var u [winogradParts]float32
				transformWeights(&u, w.Weight.Row(s, ((first+r)*k+c)*9, 9, row[:]))
				for i, v := range u {
					made[(i*rows+r)*k+c] = v
				}
			}
			w.checkWeights(made[r*k:], rows*k)
		}
		for i := range winogradParts {
			q := product.GemmArgs{M: rows, K: k, A: made[i*rows*k:], LDA: k}
			inner := sc.Mark()
			q.PackA(s, sc, w.Packed.winograd[(t*winogradParts+i)*w.blockSizeOf(k):], 0, 0, rows)
			sc.Release(inner)
		}
		sc.Release(mark)
	}
}

// checkWeights sets Bad if the sums of a channel of the result are not accurate enough. made has the transformed
// weights, apart elements apart.
func (w *winograd) checkWeights(made []float32, apart int) {
	most, used, large := float32(0), 0, 0
	for i := range winogradParts {
		for _, v := range made[i*apart:][:w.Cin] {
			most = max(most, v, -v)
			if v != 0 {
				used++
			}
		}
	}
	for i := range winogradParts {
		for _, v := range made[i*apart:][:w.Cin] {
			if v != 0 && max(v, -v) >= most/winogradRange {
				large++
			}
		}
	}
	if !enough(large, used) || most-most != 0 { // not finite
		w.p.Bad.Store(1)
	}
}

// transformWeights is u = G w G^T.
func transformWeights(u *[winogradParts]float32, w []float32) {
	var t [4][3]float64
	for x := range 3 {
		a, b, c := float64(w[x]), float64(w[3+x]), float64(w[6+x])
		t[0][x], t[1][x], t[2][x], t[3][x] = a, (a+b+c)/2, (a-b+c)/2, c
	}
	for i, r := range t {
		for j, v := range [4]float64{r[0], (r[0] + r[1] + r[2]) / 2, (r[0] - r[1] + r[2]) / 2, r[2]} {
			u[4*i+j] = float32(v)
		}
	}
}

// tilePart returns the tiles of task t.
func (w *winograd) tilePart(t int) (x flatPart, panels int) {
	nr := product.On(w.p.Set).NR
	at := t * w.most * nr
	x = flatPart{first: at, total: min(w.most*nr, w.images*w.area()-at), end: w.Cin}
	panels = pool.CeilDiv(x.total, nr)
	x.across = panels * nr
	return x, panels
}

// channelParts returns the number of tasks in which the channels of shared tiles are transformed.
func (w *winograd) channelParts() int { return min(w.Cin, pool.CeilDiv(2*w.p.Threads(), w.across)) }

// winogradTransform transforms the shared tiles. Its items are parts of the channels of each task's tiles.
type winogradTransform winograd

func (x *winogradTransform) Do(lo, hi, worker int) {
	w := (*winograd)(x)
	for t := lo; t < hi; t++ {
		task, part, parts := t/w.channelParts(), t%w.channelParts(), w.channelParts()
		f, panels := w.tilePart(task)
		f.c, f.end = part*w.Cin/parts, (part+1)*w.Cin/parts
		w.transform(w.transformed[task*winogradParts*w.part(w.most):], w.part(panels), &f, w.p.Scratch(worker))
	}
}

// transform transforms the tiles of a part.
func (w *winograd) transform(dst []float32, apart int, x *flatPart, sc *pool.Scratch) {
	kb, s, b, input := product.Plain.KSplit(w.Cin), w.p.Set, &w.pixels, winogradOn(w.p.Set).input
	mark := sc.Mark()
	edge := sc.Floats(winogradParts * (product.On(s).NR + s.Lanes + product.Spill))
	for m := 0; m < x.total; {
		width := x.width(s, x.total-m)
		cols := min(width, x.total-m)
		sc.Place = b.runs(w.size, sc.Place[:0], x, m, cols, width)
		spills := sc.Place[len(sc.Place)-2]+b.vector > width
		for k := x.c; k < x.end; {
			block := k / kb * kb
			size := min(kb, w.Cin-block)
			end := min(block+size, x.end)
			to, from := dst[block*x.across+m*size+(k-block)*width:], w.copied[k*b.channel:]
			last := end - k
			if spills { // into the next row, which comes later, except from the last one
				last--
			}
			input(to, apart, width, from, b, last, sc.Place)
			if spills {
				ld := width + s.Lanes + product.Spill
				input(edge, ld, 0, from[last*b.channel:], b, 1, sc.Place)
				for i := range winogradParts {
					copy(to[i*apart+last*width:][:width], edge[i*ld:])
				}
			}
			k = end
		}
		m += cols
	}
	sc.Release(mark)
}

// winogradBlocks computes the products of a task and transforms them back: of its own tiles and all channels of the
// result, or of shared tiles and a block of channels.
type winogradBlocks winograd

func (x *winogradBlocks) Do(lo, hi, worker int) {
	w := (*winograd)(x)
	sc, blocks := w.p.Scratch(worker), w.blocks()
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		task, first, end := t, 0, blocks
		if w.transformed != nil {
			task, first, end = t/blocks, t%blocks, t%blocks+1
		}
		f, panels := w.tilePart(task)
		tiles := w.transformed
		if tiles == nil {
			tiles = sc.Floats(winogradParts * w.part(panels))
			w.transform(tiles, w.part(panels), &f, sc)
		} else {
			tiles = tiles[task*winogradParts*w.part(w.most):]
		}
		for block := first; block < end; block++ {
			w.block(tiles, panels, &f, block, sc)
		}
		sc.Release(mark)
	}
}

// block computes a block of channels of the result for the tiles of a part.
func (w *winograd) block(tiles []float32, panels int, x *flatPart, block int, sc *pool.Scratch) {
	s := w.p.Set
	first := block * w.blockRows()
	rows := min(w.blockRows(), w.Cout-first)
	wide := pool.CeilDiv(x.total, s.Lanes) * s.Lanes
	apart := rows*wide + product.Spill
	mark := sc.Mark()
	products, lines := sc.Floats(winogradParts*apart), sc.Floats(4*rows*wide)
	for i := range winogradParts {
		q := product.GemmArgs{M: rows, N: wide, K: w.Cin, C: products[i*apart:], LDC: wide}
		inner := sc.Mark()
		q.Tiles(s, sc, 0, 0, rows, 0, wide, w.Packed.winograd[(block*winogradParts+i)*w.blockSizeOf(w.Cin):],
			tiles[i*w.part(panels):], panels, 0)
		sc.Release(inner)
	}
	output := winogradOn(s).output
	for r := range rows {
		var bias float32
		if w.Bias != nil {
			bias = w.Bias[first+r]
		}
		output(lines[4*r*wide:], 2*wide, products[r*wide:], apart, bias, wide)
	}
	w.activate(lines[:4*rows*wide])
	w.writeTiles(lines, 2*wide, x, first, rows, sc)
	sc.Release(mark)
}

// writeTiles writes lines of elements of all tiles of a part, for channels [first, first+rows) of the result. A
// channel has two lines of ld floats.
func (w *winograd) writeTiles(lines []float32, ld int, x *flatPart, first, rows int, sc *pool.Scratch) {
	area, across, high, wide := w.area(), w.size[2], w.out[1], w.out[2]
	sc.At = sc.At[:0]
	for r := range rows {
		sc.At = append(sc.At, 2*r*ld)
	}
	for vector := 1; vector <= w.p.Set.Lanes; vector = max(4, 2*vector) { // 1 stands for shorter runs
		sc.Place = sc.Place[:0]
		for t := 0; t < x.total; {
			at := x.first + t
			n := min(across-at%across, x.total-t)
			row, col := at%area/across*2, at%across*2
			size := min(2*n, wide-col)
			to := at/area*w.Cout*high*wide + row*wide + col
			if size >= vector && (size < max(4, 2*vector) || vector == w.p.Set.Lanes) {
				for y := range min(2, high-row) {
					sc.Place = appendRuns(sc.Place, to+y*wide, 2*t+y*ld, size, vector)
				}
			}
			t += n
		}
		if len(sc.Place) == 0 {
			continue
		}
		dst := w.Out[(w.image*w.Cout+first)*high*wide:]
		if vector > 1 {
			vec.On(w.p.Set).CopyRuns(dst, high*wide, lines, sc.At, sc.At[rows-1], sc.Place, vector)
			continue
		}
		for r := range rows {
			for i := 0; i < len(sc.Place); i += 2 {
				dst[r*high*wide+sc.Place[i]] = lines[2*r*ld+sc.Place[i+1]]
			}
		}
	}
}

// appendRuns appends runs of vectors for n >= vector elements. The last vector overlaps the one before.
func appendRuns(runs []int, to, from, n, vector int) []int {
	for i := 0; i < n; i += vector {
		at := min(i, n-vector)
		runs = append(runs, to+at, from+at)
	}
	return runs
}
