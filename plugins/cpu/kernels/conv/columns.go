package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions with channels first, as matrix products. The weights are the left operand. A column of the right one
// holds the elements of x for one element of the result.

// A task gathers up to panelsMost panels and up to columnsRoom floats, which stay in the L2 cache, but at least one
// panel.
const (
	columnsRoom = 1 << 18
	panelsMost  = 64
)

// blockRows returns the number of output channels of a block of packed weights. Several blocks are of about equal size.
func (g *convolution) blockRows() int {
	mr := product.On(g.p.Set).MR
	if g.Transposed || g.integers { // with panels of their own
		return 4 * mr
	}
	return max(1, pool.CeilDiv(g.og, max(1, pool.CeilDiv(g.og, 5*mr))))
}

// blockSize returns the distance of two blocks of packed weights.
func (g *convolution) blockSize() int { return g.blockRows()*g.k + product.Spill }

// mostPanels returns the maximum number of panels that a task gathers.
func (g *convolution) mostPanels() int {
	return min(max(1, columnsRoom/(product.On(g.p.Set).NR*g.k)), panelsMost)
}

// columns computes the phase.
func (g *convolution) columns() {
	p, s := g.p, g.p.Set
	nr := product.On(s).NR
	blocks := g.blocks()
	want := 4 * p.Threads()
	panels := (elementwise.Volume(g.count) + nr - 1) / nr
	g.wide = min(g.mostPanels(), max(4, (panels*g.N*g.Groups+want-1)/want))
	g.across = (panels + g.wide - 1) / g.wide
	g.wide *= nr
	g.chunks = min(blocks, (want+g.N*g.Groups*g.across-1)/(g.N*g.Groups*g.across))
	g.left = nil
	if g.Packed != nil || g.N*g.across > 1 {
		g.packLeft()
	} else { // each block is used once, so it is packed there
		g.order()
	}
	if p.Bad.Load() != 0 {
		return
	}
	p.Each(g.N*g.Groups*g.across*g.chunks, 1, (*convColumns)(g))
}

// convBlocks packs blocks of weights.
type convBlocks convolution

func (x *convBlocks) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	for t := lo; t < hi; t++ {
		g.packBlock(g.left[t*g.blockSize():], t, g.p.Scratch(worker))
	}
}

// packBlock packs block t of the weights of all groups.
func (g *convolution) packBlock(dst []float32, t int, sc *pool.Scratch) {
	m := t % g.blocks() * g.blockRows()
	rows := min(g.blockRows(), g.og-m)
	q := product.GemmArgs{M: g.og, K: g.k, A: g.weights[t/g.blocks()*g.og*g.k:], LDA: g.k}
	mark := sc.Mark()
	q.PackA(g.p.Set, sc, dst, 0, m, rows)
	sc.Release(mark)
	g.check(dst[:rows*g.k])
}

type convColumns convolution

func (x *convColumns) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	for t := lo; t < hi; t++ {
		rest := t / g.chunks
		g.block(rest/g.across/g.Groups, rest/g.across%g.Groups, rest%g.across*g.wide, t%g.chunks, worker)
	}
}

// block computes elements [m, m+wide) of image n, for a chunk of the output channels of a group.
func (g *convolution) block(n, group, m, chunk, worker int) {
	s, sc, area := g.p.Set, g.p.Scratch(worker), elementwise.Volume(g.count)
	nr := product.On(s).NR
	cols := min(g.wide, area-m)
	panels := (cols + nr - 1) / nr
	mark := sc.Mark()
	b := sc.Floats(panels*nr*g.k + product.Spill)
	if g.flat() {
		g.packFlat(b, &flatPart{n: n, first: m, total: cols, group: group, end: g.cg, across: panels * nr}, sc)
	} else {
		g.gatherColumns(b, n, group*g.cg, m, cols, panels, sc)
	}
	blocks := g.blocks()
	image := g.Out[(n*g.Cout+group*g.og)*elementwise.Volume(g.out):]
	ldc := elementwise.Volume(g.out)
	bias := sc.Floats(g.blockRows() * nr)
	var packed []float32
	if g.left == nil {
		packed = sc.Floats(g.blockSize())
	}
	for k := chunk * blocks / g.chunks; k < (chunk+1)*blocks/g.chunks; k++ {
		first := k * g.blockRows()
		rows := min(g.blockRows(), g.og-first)
		c := image[first*ldc+m:]
		q := product.GemmArgs{M: rows, N: cols, K: g.k, C: c, LDC: ldc, Wide: !g.flat()}
		g.addBias(&q, bias, group*g.og+first, true)
		if g.left == nil {
			g.packBlock(packed, group*blocks+k, sc)
		} else {
			packed = g.left[(group*blocks+k)*g.blockSize():]
		}
		inner := sc.Mark()
		q.Tiles(s, sc, 0, 0, rows, 0, cols, packed, b, panels, 0)
		sc.Release(inner)
		g.finishRows(n*ldc+m, cols, group*g.og+first, rows)
	}
	sc.Release(mark)
}

// addBias makes a product add the bias of output channels from o on. buf has blockRows*nr floats. It holds the bias
// already, unless fill is set.
func (g *convolution) addBias(q *product.GemmArgs, buf []float32, o int, fill bool) {
	if g.Bias == nil {
		return
	}
	nr := product.On(g.p.Set).NR
	for r := 0; fill && r < q.M; r++ {
		vec.Fill(buf[r*nr:][:nr], g.Bias[o+r])
	}
	q.Residual, q.LDR, q.Repeats = buf, nr, true
}

// segment is the elements [first, end) of a vector that lie in one line of the result. at is the index in x of a tap at
// 0 for the first.
type segment struct {
	first, end int
	at         [3]int
}

// gatherColumns packs what elements [m, m+cols) of image n read of channels [c0, c0+cg), as panels, with zeros outside
// of the image.
func (g *convolution) gatherColumns(dst []float32, n, c0, m, cols, panels int, sc *pool.Scratch) {
	s, taps, plane := g.p.Set, len(g.phaseTaps), elementwise.Volume(g.In)
	nr := product.On(s).NR
	kb, image, pixels := product.Plain.KSplit(g.k), g.X[(n*g.Cin+c0)*plane:], places(g.In)
	lanes := s.Lanes
	var segments [16]segment
	index := sc.Index[:]
	for v := 0; v < panels*nr; v += lanes { // a vector of elements
		parts := segments[:0]
		for i := v; i < min(v+lanes, cols); {
			at := g.pixel(m + i)
			n := min(g.count[2]-at[2], min(v+lanes, cols)-i)
			for k := range at {
				at[k] *= g.step[k]
			}
			parts = append(parts, segment{i - v, i - v + n, at})
			i += n
		}
		if len(parts) == 1 && parts[0].end == lanes && g.gatherPatches(dst, image, v, panels, &parts[0]) {
			continue
		}
		for t := range g.phaseTaps {
			tap := &g.phaseTaps[t]
			from := -1 // index in x, if the elements of the vector are contiguous
			if len(parts) == 1 && parts[0].end == lanes && g.step[2] == 1 {
				from = g.line(&parts[0], tap, &pixels)
				if x := parts[0].at[2] + tap.at[2]; x < 0 || x+lanes > g.In[2] {
					from = -1
				} else if from >= 0 {
					from += x
				}
			}
			if from < 0 {
				g.indexVector(index[:lanes], parts, tap, &pixels)
			}
			base := v % nr
			for k := 0; k < g.k; k += kb { // see KSplit
				size := min(kb, g.k-k)
				c := (k - t + taps - 1) / taps
				if t >= k {
					c = 0
				}
				rows := (k+size-t+taps-1)/taps - c
				if k+size <= t || rows <= 0 {
					continue
				}
				to := dst[k*panels*nr+v/nr*nr*size+(c*taps+t-k)*nr+base:]
				if from >= 0 {
					vec.On(s).CopyRows(to, taps*nr, image[c*plane+from:], plane, rows)
				} else {
					vec.On(s).GatherRows(to, taps*nr, image[c*plane:], plane, rows, index)
				}
			}
		}
	}
}

// indexVector sets where in x the elements of a vector lie that a tap reads; -1 for those outside of the image.
func (g *convolution) indexVector(index []int32, parts []segment, tap *tap, pixels *[3]int) {
	for i := range index {
		index[i] = -1
	}
	for i := range parts {
		p := &parts[i]
		line := g.line(p, tap, pixels)
		if line < 0 {
			continue
		}
		x, step := p.at[2]+tap.at[2], g.step[2]
		for j := p.first; j < p.end; j++ {
			if x >= 0 && x < g.In[2] {
				index[j] = int32(line + x)
			}
			x += step
		}
	}
}

// gatherPatches is gatherColumns for a vector of elements in one line, by transposes: taps along the width read
// adjacent elements of x. It returns false for kernels narrower than a vector, and if a tap is outside of the image.
func (g *convolution) gatherPatches(dst, image []float32, v, panels int, p *segment) bool {
	s, taps, wide, plane, pixels := g.p.Set, len(g.phaseTaps), g.Kernel[2], elementwise.Volume(g.In), places(g.In)
	nr := product.On(s).NR
	lanes, step := s.Lanes, g.step[2]
	if wide < lanes || g.Dilation[2] != 1 || g.Transposed {
		return false
	}
	if x := p.at[2] + g.phaseTaps[0].at[2]; x < 0 || x+(lanes-1)*step+wide > g.In[2] {
		return false
	}
	for t := 0; t < taps; t += wide {
		if g.line(p, &g.phaseTaps[t], &pixels) < 0 {
			return false
		}
	}
	kb := product.Plain.KSplit(g.k)
	for k := 0; k < g.k; k += wide { // the taps of a line of a channel
		tap := &g.phaseTaps[k%taps]
		from := image[k/taps*plane+g.line(p, tap, &pixels)+p.at[2]+tap.at[2]:]
		for at := 0; at < wide; at += lanes {
			i := min(at, wide-lanes)
			first, last := (k+i)/kb*kb, (k+i+lanes-1)/kb*kb // blocks of k; see KSplit
			if size := min(kb, g.k-first); first == last {
				vec.On(s).Transpose(dst[first*panels*nr+v/nr*nr*size+(k+i-first)*nr+v%nr:], nr, from[i:], step,
					lanes, lanes)
				continue
			}
			for j := i; j < i+lanes; j++ {
				first := (k + j) / kb * kb
				to := dst[first*panels*nr+v/nr*nr*min(kb, g.k-first)+(k+j-first)*nr+v%nr:][:lanes]
				for n := range to {
					to[n] = from[j+n*step]
				}
			}
		}
	}
	return true
}

// line returns where the line of x begins that a tap reads for a segment, or -1 if it is outside of the image.
func (g *convolution) line(p *segment, t *tap, pixels *[3]int) int {
	d, h := p.at[0]+t.at[0], p.at[1]+t.at[1]
	if d < 0 || d >= g.In[0] || h < 0 || h >= g.In[1] {
		return -1
	}
	return d*pixels[0] + h*pixels[1]
}
