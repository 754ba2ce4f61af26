package conv

import (
	"slices"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Convolutions whose groups have one channel of x (depthwise). A matrix product would have one row only. Instead they
// add up shifted images, tap by tap.

const (
	channelStride = 4       // maximum stride
	channelExtent = 16      // maximum number of elements that a kernel covers along an axis
	channelTaps   = 256     // maximum number of taps
	channelBand   = 1 << 14 // about how many elements of an image a task copies
	channelLine   = 1 << 12 // maximum number of elements of a line that it copies
)

// byChannel reports whether channels computes the convolution.
func (g *convolution) byChannel() bool {
	if g.Transposed || g.cg != 1 || g.Last && g.og != 1 || elementwise.Volume(g.Kernel) > channelTaps {
		return false
	}
	for i := range 3 {
		if g.Dilation[i]*(g.Kernel[i]-1) >= channelExtent || g.Stride[i] > channelStride {
			return false
		}
	}
	return true
}

// channels computes a convolution whose groups have one channel of x.
func (g *convolution) channels() {
	p, taps := g.p, elementwise.Volume(g.Kernel)
	p.Shared.Reset()
	if g.weights = g.Weight.Floats; g.weights == nil {
		g.weights = p.Shared.Floats(g.Cout * taps)
		g.Weight.Row(p.Set, 0, g.Cout*taps, g.weights)
	}
	g.check(g.weights[:g.Cout*taps])
	if p.Bad.Load() != 0 {
		return
	}
	if g.Last {
		g.packed = p.Shared.Floats(g.Cout * taps) // [taps, Cout]
		for o := range g.Cout {
			for t, w := range g.weights[o*taps : (o+1)*taps] {
				g.packed[t*g.Cout+o] = w
			}
		}
		g.bias = pool.Sized(g.bias, g.Cout)
		clear(g.bias)
		copy(g.bias, g.Bias)
		p.Share(g.N*g.out[0]*g.out[1], 1+pool.Grain/(g.out[2]*g.Cout), (*convLines)(g))
		return
	}
	if g.byLine() {
		g.alongLines()
		return
	}
	b := g.channelBands()
	g.at = g.at[:0]
	for i := range g.taps {
		g.at = append(g.at, b.tap(g, i))
	}
	p.Share(g.N*g.Cout*b.tasks(g), 1+pool.Grain/(b.high*b.wide*taps), (*convBands)(g))
}

// convLines computes lines of the result with channels last. It counts lines over images, depth and height.
type convLines convolution

func (x *convLines) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, c := g.p.Set, g.p.Scratch(worker), g.Cout
	for t := lo; t < hi; t++ {
		n, d, h := t/g.out[1]/g.out[0], t/g.out[1]%g.out[0], t%g.out[1]
		image := g.X[n*elementwise.Volume(g.In)*c:]
		for w := range g.out[2] {
			sc.At, sc.Place = sc.At[:0], sc.Place[:0]
			for k := range g.taps {
				if from, inside := g.source([3]int{d, h, w}, &g.taps[k]); inside {
					sc.At, sc.Place = append(sc.At, dot3(from, places(g.In))*c), append(sc.Place, k*c)
				}
			}
			vec.On(s).StencilEach(g.Out[(t*g.out[2]+w)*c:][:c], image, sc.At, g.packed, sc.Place, g.bias)
		}
		g.finish(t*g.out[2]*c, g.out[2]*c)
	}
}

// A band is the rectangle of one depth of a channel of the result that a task computes, and the layout of its copy of
// x. The copy includes the padding, so taps need no checks. It is an array [planes, line remainder, column remainder,
// lines, pitch]. Line remainders are those of positions in x by the stride, column remainders by the stride divided by
// step.
type band struct {
	high, wide   int // elements of the result
	step         int // distance of the elements that a tap reads for adjacent results
	lines, pitch int // lines of the copy for each pair of remainders, and elements of a line
	line         int // columns of a product from a line to the next: whole vectors, unless flat is set
	// lines are too short for vectors; results of several lines are computed at once, with unused elements between
	flat bool
}

// channelBands returns the size of the bands of a channel.
func (g *convolution) channelBands() (b band) {
	b.step = 1
	if g.Stride[2]%2 == 0 { // see vec.Routines.StencilEvens
		b.step = 2
	}
	b.wide = min(g.out[2], channelLine/g.Stride[2])
	b.high = min(g.out[1], max(1, channelBand/(b.wide*g.Stride[1]*g.Stride[2])))
	b.lines = b.high + g.span[1]/g.Stride[1]
	lanes := g.p.Set.Lanes
	b.pitch = b.wide
	if b.flat = b.wide < 4*lanes; !b.flat {
		b.pitch = (b.wide + lanes - 1) / lanes * lanes
	}
	b.pitch = b.step * (b.pitch + g.span[2]/g.Stride[2])
	return b
}

// remainders returns the number of column remainders.
func (b *band) remainders(g *convolution) int { return g.step[2] / b.step }

// size returns the number of elements of the copy.
func (b *band) size(g *convolution) int {
	return g.planes * g.step[1] * b.remainders(g) * b.lines * b.pitch
}

// bandScratch returns the bytes that a worker needs for bands, also for smaller results.
func (g *convolution) bandScratch() int64 {
	sh, sw, lanes := g.Stride[1], g.Stride[2], g.p.Set.Lanes
	wide, high := min(g.out[2], channelLine/sw), min(g.out[1], channelBand/(sh*sw))
	tall, broad := g.span[1]/sh, g.span[2]/sw+lanes
	made := min(high*wide, channelBand/(sh*sw)) + high*broad
	return pool.FloatBytes(g.Kernel[0]*sh*sw*(made+tall*(wide+broad))+sw*(wide+broad+2*lanes), made+2*lanes)
}

// tasks returns the number of bands of a channel.
func (b *band) tasks(g *convolution) int {
	return g.grid[0] * ((g.grid[1] + b.high - 1) / b.high) * ((g.grid[2] + b.wide - 1) / b.wide)
}

// place returns the index in the copy of line r of a plane, at its columns with the given remainder.
func (b *band) place(g *convolution, plane, r, remainder int) int {
	sh, sw := g.step[1], b.remainders(g)
	return (((plane*sh+r%sh)*sw+remainder)*b.lines + r/sh) * b.pitch
}

// tap returns the index in the copy at which the elements of tap i begin.
func (b *band) tap(g *convolution, i int) int {
	t := g.taps[i].at
	for k := range t {
		t[k] -= g.low[k]
	}
	n := b.remainders(g)
	return b.place(g, t[0]/g.apart, t[1], t[2]%n) + t[2]/n
}

type convBands convolution

func (x *convBands) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, b, taps := g.p.Set, g.p.Scratch(worker), g.channelBands(), elementwise.Volume(g.Kernel)
	across := (g.out[2] + b.wide - 1) / b.wide
	down := (g.out[1] + b.high - 1) / b.high
	stencil, apart := vec.On(s).Stencil, b.pitch/b.step // apart is the distance of lines of results if b is flat
	if b.step == 2 {
		stencil = vec.On(s).StencilEvens
	}
	room := (b.high*apart + s.Lanes) / s.Lanes * s.Lanes
	most := slices.Max(g.at)
	mark := sc.Mark()
	copied, made := sc.Floats(b.size(g)+b.pitch+2*b.step*s.Lanes), sc.Floats(room)
	for t := lo; t < hi; t++ {
		w0, rest := t%across*b.wide, t/across
		h0, d := rest%down*b.high, rest/down%g.out[0]
		channel := rest / down / g.out[0] // counted over all images
		o := channel % g.Cout
		high, wide := min(b.high, g.out[1]-h0), min(b.wide, g.out[2]-w0)
		g.copyBand(copied, &b, channel/g.Cout*g.Cin+o/g.og, d, h0, w0, sc)
		weights, bias := g.weights[o*taps:(o+1)*taps], float32(0)
		if g.Bias != nil {
			bias = g.Bias[o]
		}
		first := ((channel*g.out[0]+d)*g.out[1]+h0)*g.out[2] + w0
		if b.flat {
			n := ((high-1)*apart + wide + s.Lanes - 1) / s.Lanes * s.Lanes
			stencil(made[:n], copied, g.at, most, weights, bias)
			for h := range high {
				copy(g.Out[first+h*g.out[2]:][:wide], made[h*apart:])
			}
			g.finishLines(first, wide, high)
			continue
		}
		n := (wide + s.Lanes - 1) / s.Lanes * s.Lanes
		for h := range high {
			dst := g.Out[first+h*g.out[2]:]
			if across == 1 && h+1 < high && n <= 2*wide { // elements that spill into the next line are then overwritten
				stencil(dst[:n], copied[h*b.pitch:], g.at, most, weights, bias)
				continue
			}
			stencil(made[:n], copied[h*b.pitch:], g.at, most, weights, bias)
			copy(dst[:wide], made)
		}
		g.finishLines(first, wide, high)
	}
	sc.Release(mark)
}

// copyBand copies the elements that the band at depth d, line h0 and column w0 reads of a channel, with padding outside
// of the image.
func (g *convolution) copyBand(dst []float32, b *band, channel, d, h0, w0 int, sc *pool.Scratch) {
	sh, sw := g.step[1], b.remainders(g)
	plane := g.X[channel*elementwise.Volume(g.In):][:elementwise.Volume(g.In)]
	for remainder := range sw {
		cut := g.cutLine(b.pitch, w0*g.step[2]+g.low[2]+remainder, sw)
		for a := range g.planes {
			z := d*g.step[0] + g.low[0] + a*g.apart
			for rest := range sh {
				to := dst[b.place(g, a, rest, remainder):][:b.lines*b.pitch]
				y := h0*sh + g.low[1] + rest
				for ; len(to) > 0; to = to[b.pitch:] {
					if z < 0 || z >= g.In[0] || y < 0 || y >= g.In[1] {
						vec.Fill(to[:b.pitch], g.fill)
					} else {
						g.copyLine(to[:b.pitch], plane[(z*g.In[1]+y)*g.In[2]:][:g.In[2]], &cut, sw, sc)
					}
					y += sh
				}
			}
		}
	}
}

// A lineCut says which elements of a copied line are inside of the image: those from before to end. The first of them
// is element from of the image's line.
type lineCut struct{ before, end, from int }

// cutLine cuts a line of n elements, which reads every step-th element of the image from index x on.
func (g *convolution) cutLine(n, x, step int) lineCut {
	before := min(max(0, (-x+step-1)/step), n)
	return lineCut{before, max(before, min((g.In[2]-x+step-1)/step, n)), x + before*step}
}

// copyLine copies every step-th element of a line, with padding outside of the line.
func (g *convolution) copyLine(dst, line []float32, cut *lineCut, step int, sc *pool.Scratch) {
	vec.Fill(dst[:cut.before], g.fill)
	vec.Fill(dst[cut.end:], g.fill)
	if cut.end == cut.before {
		return
	}
	to, from := dst[cut.before:cut.end], line[cut.from:]
	switch step {
	case 1:
		copy(to, from)
		return
	case 2:
		// the routine reads pairs, so perhaps one element after the line
		vec.On(g.p.Set).Evens(to, from[:min(2*len(to), cap(from))])
		return
	}
	s, vectors := g.p.Set, len(to)/g.p.Set.Lanes
	for i := range sc.Index {
		sc.Index[i] = int32(i * step)
	}
	vec.On(s).GatherRows(to, s.Lanes, from, s.Lanes*step, vectors, sc.Index[:])
	for i := vectors * s.Lanes; i < len(to); i++ {
		to[i] = from[i*step]
	}
}
