package conv

import (
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// The elements of images with channels first that a result reads, packed as panels of an operand. They are read from a
// copy of some channels that includes the padding and separates pixels by the remainders of their positions by the
// stride, so that neighbours are adjacent: [channels, images, remainders, lines, pitch]. A tap is then a constant
// offset, and a line of the result is a run. Without padding and stride, x itself is read.

const (
	flatStride = 4       // maximum stride
	flatRoom   = 1 << 15 // about how many floats of the copy are packed at a time
)

// flat reports whether packFlat packs the operand of the convolution.
func (g *convolution) flat() bool {
	return !g.Transposed && !g.Last && g.In[0] == 1 && g.Kernel[0] == 1 && g.Pad[0] == 0 &&
		g.Stride[1] <= flatStride && g.Stride[2] <= flatStride
}

// flatPart describes a call of packFlat. It packs elements [first, first+total) of images from n on, counted over
// images, for channels [c, end) of a group.
type flatPart struct {
	n, first, total, group, c, end int

	// Panels are adjacent within each block of k. Each is as wide as rows of a left operand, or as columns of a right
	// one. A block has room for across elements.
	rows   bool
	across int
}

// width returns the width of the next panel if so many elements are left.
func (x *flatPart) width(s *isa.Set, left int) int {
	on := product.On(s)
	switch {
	case x.rows:
		return product.PanelHeight(s, left)
	case left <= on.Narrow.NR:
		return on.Narrow.NR
	}
	return on.NR
}

// flatCopy is the layout of the copy, or of x.
type flatCopy struct {
	images, h, w         int // the first line and column of the result that it serves
	lines, pitch         int
	image, channel, line int // distances
	remainders           [flatStride * flatStride][2]int
	kinds                int // number of remainders
	most                 int // largest offset of a tap
	vector               int // elements that are stored at a time
	split                int // see splitLines
}

// layOut chooses the layout of the copy for a part.
func (g *convolution) layOut(x *flatPart) (b flatCopy) {
	area, wide := elementwise.Volume(g.out), g.out[2]
	last := x.first + x.total - 1
	b.images = last/area + 1
	high := g.out[1]
	if b.images == 1 {
		if b.h = x.first / wide; b.h == last/wide {
			b.w, wide = x.first%wide, x.total
		}
		high = last/g.out[2] + 1 - b.h
	}
	b.lines, b.pitch = high+g.span[1]/g.Stride[1], wide+g.span[2]/g.Stride[2]
	for i := range g.taps {
		b.kind(g, &g.taps[i])
	}
	// Vectors of short lines are narrow, since stores across cache lines take long.
	for b.vector = 4; b.vector < g.p.Set.Lanes && b.vector < wide && (b.vector < 8 || wide > 12); {
		b.vector *= 2
	}
	b.line = b.pitch
	b.image = b.kinds * b.lines * b.pitch
	b.channel = b.images * b.image
	if g.Stride[2] == 2 {
		lines := min(g.In[1], b.lines*g.Stride[1])
		b.split = pool.CeilDiv(lines*g.In[2], 2*g.p.Set.Lanes) * g.p.Set.Lanes
	}
	return b
}

// kind returns the number of the remainders of a tap.
func (b *flatCopy) kind(g *convolution, t *tap) int {
	r := [2]int{(t.at[1] + g.Pad[1]) % g.Stride[1], (t.at[2] + g.Pad[2]) % g.Stride[2]}
	for i := range b.kinds {
		if b.remainders[i] == r {
			return i
		}
	}
	b.remainders[b.kinds] = r
	b.kinds++
	return b.kinds - 1
}

// places appends the offsets of the taps of some channels.
func (b *flatCopy) places(g *convolution, at []int, channels int) []int {
	first := len(at)
	b.most = (channels - 1) * b.channel
	for i := range g.taps {
		t := &g.taps[i]
		y, x := t.at[1]+g.Pad[1], t.at[2]+g.Pad[2]
		at = append(at, (b.kind(g, t)*b.lines+y/g.Stride[1])*b.line+x/g.Stride[2])
	}
	taps := at[first:]
	b.most += slices.Max(taps)
	for c := 1; c < channels; c++ {
		for _, k := range taps {
			at = append(at, k+c*b.channel)
		}
	}
	return at
}

// runs appends the runs of elements [m, m+n) of a part that are adjacent in the copy: their places among the elements
// and in the copy. A run is stored in whole vectors. The next run overwrites the elements stored past its end.
func (b *flatCopy) runs(out [3]int, runs []int, x *flatPart, m, n, width int) []int {
	area, lanes := elementwise.Volume(out), b.vector
	from := 0
	for i := 0; i < n; {
		pos := x.first + m + i
		h, w := pos%area/out[2], pos%out[2]
		end := min(n, i+out[2]-w)
		from = pos/area*b.image + (h-b.h)*b.line + w - b.w
		for ; i < end; i += lanes {
			runs = append(runs, i, from)
			from += lanes
		}
		i = end
	}
	// Past the last element, anything will do.
	last := len(runs)
	for i := runs[last-2] + lanes; i < width; i += lanes {
		runs = append(runs, i, runs[last-1])
	}
	return runs
}

// flatScratch returns what packFlat needs for parts of up to so many elements and images, also for smaller images, in
// bytes.
func (g *convolution) flatScratch(images, elements int) int64 {
	kinds := min(g.Stride[1], g.Kernel[1]) * min(g.Stride[2], g.Kernel[2])
	hy, hx := g.span[1]/g.Stride[1], g.span[2]/g.Stride[2]
	channel := images * (g.out[1] + hy) * (g.out[2] + hx)
	if images == 1 { // the first line and the last one may be incomplete
		channel = min(channel, elements*(1+hx)+(2+hy)*(g.out[2]+hx))
	}
	channel = min(channel, elements*(1+hx)*(1+hy))
	lanes, split := g.p.Set.Lanes, 0
	if g.Stride[2] == 2 {
		split = min(g.In[1]*g.In[2], 2*g.Stride[1]*(elements*(3+hx)+(2+hy)*(g.out[2]+hx+2))) + 2*lanes
	}
	return pool.FloatBytes(max(flatRoom, kinds*channel)+2*lanes, max(min(1, split)*flatRoom, split))
}

// packFlat packs a part.
func (g *convolution) packFlat(dst []float32, x *flatPart, sc *pool.Scratch) {
	b, plane := g.layOut(x), g.In[1]*g.In[2]
	c := x.c
	if g.Stride == [3]int{1, 1, 1} && !g.padded() { // vectors of the last channels may end past x
		end := min(x.end, g.Cin-x.group*g.cg-pool.CeilDiv(g.p.Set.Lanes, plane))
		d := b
		d.image, d.channel, d.line, d.h, d.w = g.Cin*plane, plane, g.In[2], 0, 0
		if c < end {
			g.packChannels(dst, x, &d, g.X[(x.n*g.Cin+x.group*g.cg+c)*plane:], c, end-c, sc)
			c = end
		}
	}
	if c == x.end {
		return
	}
	chunk := min(x.end-c, max(1, flatRoom/max(b.channel, b.split*2)))
	mark := sc.Mark()
	copied, halves := sc.Floats(chunk*b.channel+2*g.p.Set.Lanes), sc.Floats(chunk*b.split*2)
	clear(copied)
	for ; c < x.end; c += chunk {
		n := min(chunk, x.end-c)
		for i := range b.images {
			g.copyImage(copied[i*b.image:], halves, &b, x, i, c, n, sc)
		}
		g.packChannels(dst, x, &b, copied, c, n, sc)
	}
	sc.Release(mark)
}

// copyImage copies channels [c, c+n) of an image of a part. The padding is already there. halves is scratch memory.
func (g *convolution) copyImage(dst, halves []float32, b *flatCopy, x *flatPart, i, c, n int, sc *pool.Scratch) {
	sy, sx, plane := g.Stride[1], g.Stride[2], g.In[1]*g.In[2]
	src := g.X[((x.n+i)*g.Cin+x.group*g.cg+c)*plane:]
	split, top := splitting{apart: plane}, b.h*sy-g.Pad[1]
	low, high := max(0, top), min(g.In[1], top+b.lines*sy) // the lines that are read
	if low >= high {
		return
	}
	if sx == 2 {
		split = g.splitLines(halves, src, b, low*g.In[2], n)
		src = halves
	}
	sc.At = sc.At[:0]
	for j := range n {
		sc.At = append(sc.At, j*split.apart)
	}
	for kind := range b.kinds {
		r := b.remainders[kind]
		cut := g.cutLine(b.pitch, b.w*sx+r[1]-g.Pad[2], sx)
		y0, wide := top+r[0], cut.end-cut.before
		first, end := max(0, pool.CeilDiv(-y0, sy)), min(b.lines, floorDiv(g.In[1]-1-y0, sy)+1)
		if wide <= 0 || first >= end {
			continue
		}
		vector := 4
		for vector < g.p.Set.Lanes && 2*vector <= wide {
			vector *= 2
		}
		sc.Place = sc.Place[:0]
		for l := first; l < end; l++ {
			to, from := (kind*b.lines+l)*b.pitch+cut.before, (y0+l*sy)*g.In[2]+cut.from
			switch {
			case sx == 2:
				from -= low * g.In[2]
				from = from/2 + from%2*split.odd
			case sx > 2:
				g.copyEvery(dst[to:], src[from:], wide, n, b.channel, plane)
				continue
			}
			if wide < vector {
				for j := range n {
					copy(dst[j*b.channel+to:][:wide], src[j*split.apart+from:])
				}
				continue
			}
			for j := 0; j < wide; j += vector { // the last vector overlaps the one before
				at := min(j, wide-vector)
				sc.Place = append(sc.Place, to+at, from+at)
			}
		}
		if len(sc.Place) > 0 {
			vec.On(g.p.Set).CopyRuns(dst, b.channel, src, sc.At, sc.At[n-1], sc.Place, vector)
		}
	}
}

// copyEvery copies wide elements of a line of n channels. The elements are the stride apart.
func (g *convolution) copyEvery(dst, src []float32, wide, n, to, from int) {
	for j := range n {
		d, s := dst[j*to:][:wide], src[j*from:]
		for i := range d {
			d[i] = s[i*g.Stride[2]]
		}
	}
}

// A splitting is where even and odd elements of an image lie: those of channels are apart elements apart, and the odd
// ones odd elements after the even ones.
type splitting struct{ apart, odd int }

// splitLines copies the elements that are read of n channels of an image to dst, counted from place at of each channel.
// It copies whole vectors as far as x goes.
func (g *convolution) splitLines(dst, src []float32, b *flatCopy, at, n int) splitting {
	plane, parts := g.In[1]*g.In[2], n
	s := splitting{2 * b.split, b.split}
	if plane%2 == 0 && at == 0 && b.lines*g.Stride[1] >= g.In[1] { // all channels at once
		parts, s = 1, splitting{plane / 2, n * b.split}
	}
	odd := g.In[2]%2 > 0 // whether odd elements are read, and even ones
	even := odd
	for _, r := range b.remainders[:b.kinds] {
		if (r[1]+g.Pad[2])%2 > 0 {
			odd = true
		} else {
			even = true
		}
	}
	for j := range parts {
		if even {
			g.evens(dst[j*s.apart:][:s.odd], src[j*plane+at:])
		}
		if odd {
			g.evens(dst[j*s.apart+s.odd:][:s.odd], src[j*plane+at+1:])
		}
	}
	return s
}

// evens copies every second element, as far as they go.
func (g *convolution) evens(to, from []float32) {
	if n := (len(from) + 1) / 2; n <= len(to) {
		to = to[:n]
	}
	vec.On(g.p.Set).Evens(to, from)
}

// packChannels packs channels [c, c+n) of a part, which src holds.
func (g *convolution) packChannels(dst []float32, x *flatPart, b *flatCopy, src []float32, c, n int,
	sc *pool.Scratch) {
	taps := len(g.taps)
	kb := product.Plain.KSplit(g.k)
	sc.At = b.places(g, sc.At[:0], n)
	for m := 0; m < x.total; {
		width := x.width(g.p.Set, x.total-m)
		cols := min(width, x.total-m)
		sc.Place = b.runs(g.out, sc.Place[:0], x, m, cols, width)
		for k := c * taps; k < (c+n)*taps; {
			block := k / kb * kb
			size := min(kb, g.k-block)
			end := min(block+size, (c+n)*taps)
			to := dst[block*x.across+m*size+(k-block)*width:]
			g.copyRuns(to, width, src, sc.At[k-c*taps:end-c*taps], b, sc.Place)
			k = end
		}
		m += cols
	}
}

// copyRuns copies runs for each of several taps to rows of width elements. Elements that it stores past the end of a
// row are overwritten by the next row; the last rows end in time.
func (g *convolution) copyRuns(dst []float32, width int, src []float32, at []int, b *flatCopy, runs []int) {
	whole := max(0, len(at)-pool.CeilDiv(b.vector, width))
	vec.On(g.p.Set).CopyRuns(dst, width, src, at[:whole], b.most, runs, b.vector)
	for i, k := range at[whole:] {
		to, from := dst[(whole+i)*width:][:width], src[k:]
		for j := 0; j < len(runs); j += 2 {
			end := width
			if j+2 < len(runs) {
				end = runs[j+2]
			}
			copy(to[runs[j]:end], from[runs[j+1]:])
		}
	}
}
