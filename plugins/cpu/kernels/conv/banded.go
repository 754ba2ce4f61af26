package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions with channels first, as matrix products whose columns are read from a band: a copy of the part of x that
// a task reads. The copy includes the padding, so taps need no checks, and separates even and odd columns if the stride
// is 2, so that loads are contiguous. A transpose computes all its phases from one band, and writes whole lines.

const (
	bandRoom = 1 << 18 // maximum size of a band in floats; copying more does not pay
	// with that many channels in a group, gatherColumns is as fast, unless it has to skip elements
	manyChannels = 16
)

// banded reports whether bands computes the convolution.
func (g *convolution) banded() bool {
	switch {
	case g.Last || g.flat() || !g.Transposed && elementwise.Volume(g.Kernel) == 1:
		return false
	case g.Transposed:
		return true
	case g.Stride[2] > 2, g.Stride[2] == 1 && g.cg >= manyChannels:
		return false
	}
	b, nr := g.productBand(g.mostColumns()), product.On(g.p.Set).NR
	made := (b.high*b.line + nr - 1) / nr * nr
	return g.cg*b.size(g) <= bandRoom && 10*b.high*b.wide >= 9*made
}

// reach computes the range of x that the taps of all phases read. The grid counts the elements of a phase along each
// axis. Element at of the grid reads x from at*step + low to at*step + low + span.
func (g *convolution) reach() {
	g.grid, g.step, g.planes, g.apart, g.deep = g.out, g.Stride, g.Kernel[0], g.Dilation[0], g.cg
	for i := range 3 {
		covers := g.Dilation[i] * (g.Kernel[i] - 1)
		g.low[i], g.span[i] = -g.Pad[i], covers
		taps := g.Kernel[i]
		if s := g.Stride[i]; g.Transposed {
			g.step[i], g.grid[i] = 1, (g.out[i]+s-1)/s
			g.low[i] = -floorDiv(covers-g.Pad[i], s)
			g.span[i] = -floorDiv(-g.Pad[i], s) - g.low[i]
			classes := g.classes(i)
			taps = (taps + classes - 1) / classes
		}
		g.deep *= taps
	}
	if g.Transposed {
		g.planes, g.apart = g.span[0]+1, 1
	}
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// keptRows returns the number of output channels whose results a task holds at a time, for each phase along the width.
func (g *convolution) keptRows() int {
	if !g.Transposed {
		return min(g.og, g.blockRows())
	}
	return min(g.og, max(1, columnsRoom/(4*product.On(g.p.Set).NR*g.Stride[2]*g.blockRows()))*g.blockRows())
}

// lineStep returns the distance of two elements of a phase in a line of the result.
func (g *convolution) lineStep() int {
	if g.Transposed {
		return g.Stride[2]
	}
	return 1
}

// mostColumns returns the maximum number of elements of the grid that a task computes.
func (g *convolution) mostColumns() int {
	nr := product.On(g.p.Set).NR
	return max(nr, min(columnsRoom/max(1, g.deep), columnsRoom/(g.lineStep()*g.keptRows()), panelsMost*nr)/nr*nr)
}

// productBand returns the size of bands for products of up to most columns, a multiple of nr.
func (g *convolution) productBand(most int) (b band) {
	lanes, halo := g.p.Set.Lanes, g.span[2]/g.step[2]
	b.wide, b.step = min(g.grid[2], most), 1
	b.line = (b.wide + lanes - 1) / lanes * lanes
	b.pitch = b.line + halo
	if b.flat = b.wide+halo < b.line; b.flat {
		b.line = b.wide + halo
		b.pitch = b.line
	}
	b.high = min(g.grid[1], max(1, most/b.line))
	b.lines = b.high + g.span[1]/g.step[1]
	return b
}

// productScratch returns the bytes that a worker needs, also for smaller results.
func (g *convolution) productScratch() int64 {
	s, most, halo := g.p.Set, g.mostColumns(), g.span[2]/g.step[2]
	nr := product.On(s).NR
	line := min(most, (g.grid[2]+s.Lanes-1)/s.Lanes*s.Lanes)
	copied := g.planes * g.step[1] * g.step[2] * (most + min(g.grid[1], most)*halo + g.span[1]/g.step[1]*(line+halo))
	return pool.FloatBytes(g.cg*copied+2*s.Lanes, most*g.deep+product.Spill, g.lineStep()*g.keptRows()*most+nr,
		line*g.lineStep()+s.Lanes*(1+g.lineStep()), product.On(s).MR*nr, g.blockRows()*nr)
}

// bands computes all phases.
func (g *convolution) bands() {
	p := g.p
	g.prefill()
	p.Shared.Reset()
	if g.Transposed {
		g.packPhases()
	} else {
		g.phase = g.phases[0]
		g.phaseTaps = g.taps
		g.packLeft()
		g.packed = g.left
	}
	if p.Bad.Load() != 0 {
		return
	}
	g.cut()
	p.Each(g.N*g.Groups*g.band.tasks(g)*g.chunks, 1, (*convBanded)(g))
}

// blocks returns the number of blocks of a group's output channels.
func (g *convolution) blocks() int { return (g.og + g.blockRows() - 1) / g.blockRows() }

// cut chooses the bands and the tasks, and lists where each tap begins to read in a band.
func (g *convolution) cut() {
	want, nr := 4*g.p.Threads(), product.On(g.p.Set).NR
	each := (g.N*g.Groups*elementwise.Volume(g.grid)/want + nr) / nr * nr // elements of a task
	b := g.productBand(min(g.mostColumns(), max(4*nr, each)))
	g.band = b
	channel := b.size(g)
	g.at = g.at[:0]
	for i := range g.phases {
		f := &g.phases[i]
		f.most = 0
		first := len(g.at)
		for k := f.first; k < f.end; k++ {
			at := b.tap(g, k)
			g.at, f.most = append(g.at, at), max(f.most, (g.cg-1)*channel+at)
		}
		taps := g.at[first:]
		for c := 1; c < g.cg; c++ {
			for _, at := range taps {
				g.at = append(g.at, c*channel+at)
			}
		}
		f.like = i
		if i > 0 && g.sameTaps(f, &g.phases[i-1]) {
			f.like = g.phases[i-1].like
		}
	}
	tasks := g.N * g.Groups * b.tasks(g)
	g.chunks = min(g.blocks(), max((g.og+g.keptRows()-1)/g.keptRows(), (want+tasks-1)/tasks))
	if !g.Transposed {
		g.chunks = min(g.blocks(), (want+tasks-1)/tasks)
	}
}

// packedAt returns where the packed weights of phase i begin.
func (g *convolution) packedAt(i, blocks int) int {
	return g.Groups * blocks * (g.blockRows()*g.cg*g.phases[i].first + product.Spill*i)
}

// sameTaps reports whether two phases read the same elements of x.
func (g *convolution) sameTaps(a, b *phase) bool {
	if a.k != b.k {
		return false
	}
	for t := range a.end - a.first {
		if g.taps[a.first+t].at != g.taps[b.first+t].at {
			return false
		}
	}
	return true
}

// convPhases packs blocks of the weights of all phases of a transpose.
type convPhases convolution

func (x *convPhases) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, taps, blocks := g.p.Set, elementwise.Volume(g.Kernel), g.blocks()
	buf, turned := g.p.Scratch(worker).Floats(g.blockRows()*taps),
		g.p.Scratch(worker).Floats(g.blockRows()/product.On(s).MR*taps*s.Lanes)
	for t := lo; t < hi; t++ {
		first := t % blocks * g.blockRows()
		rows := min(g.blockRows(), g.og-first)
		for c := range g.cg {
			w := g.Weight.Row(s, g.weightAt(t/blocks*g.og+first, c), rows*taps, buf)
			for r, h, at := 0, 0, 0; r < rows; r, at = r+h, at+taps*s.Lanes {
				h = product.PanelHeight(s, rows-r)
				turnRows(s, turned[at:], w[r*taps:], h, taps)
			}
			for i := range g.phases {
				f := &g.phases[i]
				block := g.packed[g.packedAt(i, blocks)+t*(g.blockRows()*f.k+product.Spill):]
				n, kb := f.end-f.first, product.Plain.KSplit(f.k)
				k := c * n / kb * kb
				for l := c * n; l < (c+1)*n; l++ {
					if l == k+kb {
						k = l
					}
					at, size := g.taps[f.first+l-c*n].place*s.Lanes, min(kb, f.k-k)
					for r, h := 0, 0; r < rows; r, at = r+h, at+taps*s.Lanes {
						h = product.PanelHeight(s, rows-r)
						copy(block[k*rows+r*size+(l-k)*h:][:h], turned[at:][:h])
					}
				}
			}
		}
		for i := range g.phases {
			g.check(g.packed[g.packedAt(i, blocks)+t*(g.blockRows()*g.phases[i].k+product.Spill):][:rows*g.phases[i].k])
		}
	}
}

// turnRows is dst[j*lanes+i] = src[i*cols+j], i < rows <= lanes, j < cols.
func turnRows(s *isa.Set, dst, src []float32, rows, cols int) {
	whole := cols / s.Lanes * s.Lanes
	vec.On(s).Transpose(dst, s.Lanes, src, cols, rows, whole)
	for j := whole; j < cols; j++ {
		for i := range rows {
			dst[j*s.Lanes+i] = src[i*cols+j]
		}
	}
}

type convBanded convolution

func (x *convBanded) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	for t := lo; t < hi; t++ {
		g.bandTask(t, worker)
	}
}

// A bandPart is the part of the grid that a task computes, for output channels [first, end) of a group.
type bandPart struct {
	n, group   int
	at         [3]int // first element
	high, wide int
	first, end int
	cols, ldc  int // columns of the product, and those of its panels
	panels     int
	c          []float32 // results, [lineStep, rows, ldc]
	rows       int
}

// part returns the part of task t.
func (g *convolution) part(t int) bandPart {
	b, blocks := &g.band, g.blocks()
	across, down := (g.grid[2]+b.wide-1)/b.wide, (g.grid[1]+b.high-1)/b.high
	chunk, rest := t%g.chunks, t/g.chunks
	x := bandPart{at: [3]int{rest / across / down % g.grid[0], rest / across % down * b.high, rest % across * b.wide},
		first: chunk * blocks / g.chunks * g.blockRows(), end: min(g.og, (chunk+1)*blocks/g.chunks*g.blockRows())}
	rest /= across * down * g.grid[0]
	x.n, x.group = rest/g.Groups, rest%g.Groups
	x.high, x.wide = min(b.high, g.grid[1]-x.at[1]), min(b.wide, g.grid[2]-x.at[2])
	x.cols = (x.high-1)*b.line + x.wide
	nr := product.On(g.p.Set).NR
	x.panels = pool.CeilDiv(x.cols, nr)
	x.ldc = x.panels * nr
	return x
}

// narrow makes the last panel a narrow one if that suffices.
func (x *bandPart) narrow(s *isa.Set) {
	on := product.On(s)
	if before := (x.panels - 1) * on.NR; x.cols-before <= on.Narrow.NR {
		x.ldc = before + on.Narrow.NR
	}
}

// bandTask computes a part.
func (g *convolution) bandTask(t, worker int) {
	s, sc, b, blocks := g.p.Set, g.p.Scratch(worker), &g.band, g.blocks()
	nr := product.On(s).NR
	mark := sc.Mark()
	x := g.part(t)
	x.narrow(s)
	copied := g.copyInput(&x, sc)
	right := sc.Floats(x.panels*nr*g.deep + product.Spill)
	direct := !g.Transposed && b.line == g.out[2]
	x.rows = min(g.keptRows(), x.end-x.first)
	if !direct {
		x.c = sc.Floats(g.lineStep()*x.rows*x.ldc + nr)
	}
	bias, biased := sc.Floats(g.blockRows()*nr), -1 // bias holds that of the block from biased on
	like := -1
	for i := 0; i < len(g.phases); {
		lead := &g.phases[i]
		end := i + 1 // the phases from i to end compute the same lines
		for end < len(g.phases) && g.phases[end].start[0] == lead.start[0] && g.phases[end].start[1] == lead.start[1] {
			end++
		}
		if x.at[0] >= lead.count[0] || x.at[1] >= lead.count[1] {
			i = end
			continue
		}
		if end-i < g.lineStep() {
			for r := range x.rows {
				for slot := range g.lineStep() {
					g.startRow(x.c[(slot*x.rows+r)*x.ldc:][:x.ldc], x.group*g.og+x.first+r)
				}
			}
		}
		for ; i < end; i++ {
			f := &g.phases[i]
			if f.like != like {
				g.packBand(right, copied, f, &x, product.Plain.KSplit(f.k))
				like = f.like
			}
			slot := 0
			if g.Transposed {
				slot = f.start[2]
			}
			for first := x.first; first < x.end; first += g.blockRows() {
				k := first / g.blockRows()
				rows := min(g.blockRows(), g.og-first)
				q := product.GemmArgs{M: rows, N: x.ldc, K: f.k, LDC: x.ldc}
				switch {
				case direct:
					q.C, q.N, q.LDC = g.Out[(x.n*g.Cout+x.group*g.og+first)*elementwise.Volume(g.out)+dot3(x.at,
						places(g.out)):],
						x.cols, elementwise.Volume(g.out)
				case g.Transposed:
					q.C = x.c[(slot*x.rows+first-x.first)*x.ldc:]
				default:
					q.C = x.c
				}
				g.addBias(&q, bias, x.group*g.og+first, biased != first)
				biased = first
				inner := sc.Mark()
				q.Tiles(s, sc, 0, 0, rows, 0, q.N,
					g.packed[g.packedAt(i, blocks)+(x.group*blocks+k)*(g.blockRows()*f.k+product.Spill):], right,
					x.panels, 0)
				sc.Release(inner)
				if !direct && !g.Transposed {
					g.writeLines(&x, f, first, rows, sc)
				}
				if !g.Transposed {
					g.finishBand(&x, first, rows)
				}
			}
		}
		if g.Transposed {
			g.writeLines(&x, lead, x.first, x.rows, sc)
		}
	}
	sc.Release(mark)
}

// finishBand applies the epilogue to the lines of a part for output channels [first, first+rows).
func (g *convolution) finishBand(x *bandPart, first, rows int) {
	for r := range rows {
		at := (x.n*g.Cout+x.group*g.og+first+r)*elementwise.Volume(g.out) + dot3(x.at, places(g.out))
		g.finishLines(at, x.wide, x.high)
	}
}

// startRow fills a row of results with the bias of output channel o, or zeros.
func (g *convolution) startRow(row []float32, o int) {
	if g.Bias == nil {
		clear(row)
		return
	}
	vec.Fill(row, g.Bias[o])
}

var oneRun = [2]int{} // a vector at the offset itself

// packBand packs the elements that a phase reads of a part's band as panels, in blocks of kb products.
func (g *convolution) packBand(dst, copied []float32, f *phase, x *bandPart, kb int) {
	s, b := g.p.Set, &g.band
	nr := product.On(s).NR
	places := g.at[g.cg*f.first:][:f.k]
	for v := 0; v < x.ldc; v += s.Lanes {
		from := min(v, (x.cols-1)/s.Lanes*s.Lanes) // past the last column, any element
		if !b.flat {
			from = from/b.line*b.pitch + from%b.line
		}
		panel := v / nr * nr
		width := min(nr, x.ldc-panel)
		for k := 0; k < f.k; k += kb {
			n := min(kb, f.k-k)
			vec.On(s).CopyRuns(dst[k*x.panels*nr+panel*n+v-panel:], width, copied[from:], places[k:k+n], f.most,
				oneRun[:], s.Lanes)
		}
	}
}

// writeLines writes the lines of a part for output channels [first, first+rows). A line has the elements of f,
// interleaved with those of the other phases that compute the same lines.
func (g *convolution) writeLines(x *bandPart, f *phase, first, rows int, sc *pool.Scratch) {
	s, b, step, size := g.p.Set, &g.band, g.lineStep(), g.out
	mark := sc.Mark()
	at := [3]int{f.start[0] + x.at[0]*f.every[0], 0, x.at[2] * step}
	n := min(x.wide*step, size[2]-at[2])
	apart := x.rows * x.ldc // distance from a phase to the next
	var line []float32
	vectors := (x.wide + s.Lanes - 1) / s.Lanes * s.Lanes
	if step > 2 && step <= s.Lanes {
		line = sc.Floats(vectors*step + s.Lanes)
	}
	for r := range rows {
		image := g.Out[(x.n*g.Cout+x.group*g.og+first+r)*elementwise.Volume(size):]
		for h := range min(x.high, f.count[1]-x.at[1]) {
			at[1] = f.start[1] + (x.at[1]+h)*f.every[1]
			dst, c := image[dot3(at, places(size)):][:n], x.c[r*x.ldc+h*b.line:]
			switch {
			case step == 1:
				copy(dst, c)
			case step == 2:
				vec.On(s).Zip(dst[:n/2*2], c[:n/2], c[apart:])
				if n%2 > 0 {
					dst[n-1] = c[n/2]
				}
			case line != nil:
				vec.On(s).Transpose(line, step, c, apart, step, vectors)
				copy(dst, line)
			default:
				for i := range dst {
					dst[i] = c[i%step*apart+i/step]
				}
			}
		}
	}
	sc.Release(mark)
}
