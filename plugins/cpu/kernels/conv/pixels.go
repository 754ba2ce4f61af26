package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Depthwise convolutions of small images with channels first. Lines of such images are shorter than vectors, or not
// much longer. So vectors hold a pixel of several channels: the channels are transposed, with padding around the image,
// and the result is transposed back. With few taps, transposing larger images takes longer than it saves: 3x3 on 56x56
// took 1.3 times as long as by lines, 5x5 on 56x56 0.8 times and 3x3 on 40x40 0.8 times.
const (
	pixelLine  = 64      // maximum number of elements of a line of the result
	mostPixels = 1 << 12 // maximum number of elements of a channel, with padding
	fewPixels  = 1 << 11 // the same with fewer than manyTaps taps
	manyTaps   = 25
)

// byPixel reports whether pixels computes a convolution for which byChannel is true.
func (g *convolution) byPixel() bool {
	most := fewPixels
	if elementwise.Volume(g.Kernel) >= manyTaps {
		most = mostPixels
	}
	return !g.Last && g.og == 1 && vec.On(g.p.Set).StencilPixels != nil && g.Cout >= g.p.Set.Lanes/2 &&
		g.out[2] <= pixelLine && elementwise.Volume(g.In) <= most && elementwise.Volume(g.padded3()) <= most
}

// padded3 returns the size of the part of the padded image that is read.
func (g *convolution) padded3() (size [3]int) {
	for i := range size {
		size[i] = (g.out[i]-1)*g.Stride[i] + g.span[i] + 1
	}
	return size
}

// pixelBlocks returns the number of vectors that the channels of an image take.
func (g *convolution) pixelBlocks() int { return pool.CeilDiv(g.Cout, g.p.Set.Lanes) }

// pixelWeights returns the number of floats of the packed weights.
func (g *convolution) pixelWeights() int {
	return g.pixelBlocks() * g.p.Set.Lanes * elementwise.Volume(g.Kernel)
}

// pixelScratch returns the bytes that a worker needs, also for smaller images.
func (g *convolution) pixelScratch() int64 {
	lanes := g.p.Set.Lanes
	in, out := min(elementwise.Volume(g.In), mostPixels), min(elementwise.Volume(g.out), mostPixels)
	return pool.FloatBytes(lanes*min(elementwise.Volume(g.padded3()), mostPixels), lanes*(in+lanes), lanes*(in+1),
		lanes*(out+lanes), lanes*(out+1), lanes, elementwise.Volume(g.Kernel))
}

// pixels computes the convolution.
func (g *convolution) pixels() {
	p, lanes := g.p, g.p.Set.Lanes
	p.Shared.Reset()
	g.packPixels()
	if p.Bad.Load() != 0 {
		return
	}
	if g.tiny() {
		g.tinyImages()
		return
	}
	strides := places(g.placedSize())
	g.at = g.at[:0]
	for i := range g.taps {
		t := g.taps[i].at
		for k := range t {
			t[k] -= g.low[k]
		}
		g.at = append(g.at, dot3(t, strides)*lanes)
	}
	g.listTapLines()
	each := lanes * elementwise.Volume(g.out) * len(g.taps)
	p.Share(g.N*g.pixelBlocks(), 1+pool.Grain/each, (*convPixels)(g))
}

// A tapLine is a line of the result. It is computed from the first taps that are in at, from place from of the image,
// and from the weights from place weights on.
type tapLine struct{ from, taps, weights int }

// flatImage reports whether images have one plane. Then lines of taps outside of the image are left out. In other
// convolutions, copies of images have lines of padding.
func (g *convolution) flatImage() bool { return g.In[0] == 1 && g.Kernel[0] == 1 && g.Pad[0] == 0 }

// placedSize returns the size of the copy of an image.
func (g *convolution) placedSize() [3]int {
	size := g.padded3()
	if g.flatImage() {
		size[1] = max(1, min(g.In[1], size[1]-g.Pad[1]))
	}
	return size
}

// listTapLines sets tapped.
func (g *convolution) listTapLines() {
	lanes, strides := g.p.Set.Lanes, places(g.placedSize())
	g.tapped = g.tapped[:0]
	for d := range g.out[0] {
		for h := range g.out[1] {
			l := tapLine{from: dot3([3]int{d * g.Stride[0], h * g.Stride[1], 0}, strides) * lanes, taps: len(g.taps)}
			if g.flatImage() {
				first, last := g.tapLines(h)
				y := h*g.Stride[1] - g.Pad[1] + first*g.Dilation[1]
				l = tapLine{from: y * strides[1] * lanes, taps: (last - first) * g.Kernel[2],
					weights: first * g.Kernel[2] * lanes}
			}
			g.tapped = append(g.tapped, l)
		}
	}
}

// packPixels sets packed to the weights [blocks, taps, lanes], or [taps, blocks, lanes] for tiny images. It stores 1 in
// Bad if they cannot be used.
func (g *convolution) packPixels() {
	p, kept, lanes, taps := g.p, g.Packed, g.p.Set.Lanes, elementwise.Volume(g.Kernel)
	block, step := taps*lanes, lanes // distances
	if g.tiny() {
		block, step = lanes, g.pixelBlocks()*lanes
	}
	if kept == nil {
		g.packed = p.Shared.Floats(g.pixelWeights())
	} else {
		to := kept.forPixels(g)
		if *to != nil {
			g.packed = *to
			g.refuse()
			return
		}
		g.packed = make([]float32, g.pixelWeights())
		*to = g.packed
	}
	clear(g.packed)
	row := p.Shared.Floats(taps)
	for o := range g.Cout {
		w := g.Weight.Row(p.Set, o*taps, taps, row)
		g.check(w)
		for t, x := range w {
			g.packed[o/lanes*block+t*step+o%lanes] = x
		}
	}
	if kept != nil {
		kept.bad = kept.bad || p.Bad.Load() != 0
	}
}

// convPixels computes blocks of channels, counted over all images.
type convPixels convolution

func (x *convPixels) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	s, sc, taps := g.p.Set, g.p.Scratch(worker), elementwise.Volume(g.Kernel)
	lanes, in, out, size := s.Lanes, elementwise.Volume(g.In), elementwise.Volume(g.out), g.placedSize()
	transpose, blocks := vec.On(s).Transpose, g.pixelBlocks()
	placed := sc.Floats(lanes * elementwise.Volume(size))
	turned, edge := sc.Floats(lanes*(in+lanes)), sc.Floats(lanes*(in+1))
	made, back := sc.Floats(lanes*(out+lanes)), sc.Floats(lanes*(out+1))
	bias := sc.Floats(lanes)
	g.clearPadding(placed, size)
	clear(bias)
	for t := lo; t < hi; t++ {
		n, o := t/blocks, t%blocks*lanes
		rows := min(lanes, g.Cout-o)
		image := placed
		switch first := (n*g.Cin + o) * in; {
		case size == g.In && (g.Pad == [3]int{} || g.flatImage() && g.Pad[2] == 0):
			image = turned
			g.turn(turned, edge, first, rows)
		case g.flatImage() && g.In[2]%lanes == 0 && g.Pad[2]+g.In[2] <= size[2]:
			for h := range size[1] {
				transpose(placed[(h*size[2]+g.Pad[2])*lanes:], lanes, g.X[first+h*g.In[2]:], in, rows, g.In[2])
			}
		default:
			g.turn(turned, edge, first, rows)
			g.placeImage(placed, turned, size)
		}
		if g.Bias != nil {
			copy(bias, g.Bias[o:o+rows])
		}
		g.pixelSums(made, image, g.packed[o*taps:][:lanes*taps], bias)
		dst := g.Out[(n*g.Cout+o)*out:][:rows*out]
		to, direct := back, out%lanes == 0 && rows == lanes
		if direct {
			to = dst
		}
		// The last pixels come first, because elements written past the end of their lines are then overwritten.
		for i := (out - 1) / lanes * lanes; i >= 0; i -= lanes {
			transpose(to[i:], out, made[i*lanes:], lanes, min(lanes, out-i), lanes)
		}
		if !direct {
			copy(dst, back)
		}
		g.finish((n*g.Cout+o)*out, rows*out)
	}
}

// pixelSums computes the pixels of a block of channels.
func (g *convolution) pixelSums(dst, image, w, bias []float32) {
	stencil, lanes := vec.On(g.p.Set).StencilPixels, g.p.Set.Lanes
	wide, step := g.out[2]*lanes, g.Stride[2]*lanes
	for i := range g.tapped {
		l := &g.tapped[i]
		to := dst[i*wide:][:wide]
		if l.taps == 0 {
			for j := 0; j < wide; j += lanes {
				copy(to[j:], bias)
			}
			continue
		}
		stencil(to, image[l.from:], g.at[:l.taps], g.at[l.taps-1], w[l.weights:], bias, step)
	}
}

// turn transposes channels of x, which begin at index first, to pixels [in, lanes]. edge is scratch memory.
func (g *convolution) turn(dst, edge []float32, first, rows int) {
	s, in := g.p.Set, elementwise.Volume(g.In)
	cols := pool.CeilDiv(in, s.Lanes) * s.Lanes
	src := g.X[first:]
	if len(src) < (rows-1)*in+cols {
		copy(edge, src[:rows*in])
		src = edge
	}
	vec.On(s).Transpose(dst, s.Lanes, src, in, rows, cols)
}

// clearPadding clears the padding of a copy of an image.
func (g *convolution) clearPadding(dst []float32, size [3]int) {
	if !g.flatImage() {
		clear(dst)
		return
	}
	lanes := g.p.Set.Lanes
	first, end, pitch := min(g.Pad[2], size[2])*lanes, min(g.Pad[2]+g.In[2], size[2])*lanes, size[2]*lanes
	for ; len(dst) >= pitch; dst = dst[pitch:] {
		clear(dst[:first])
		clear(dst[end:pitch])
	}
}

// placeImage copies the pixels of an image to their places between the padding.
func (g *convolution) placeImage(dst, pixels []float32, size [3]int) {
	lanes, pad := g.p.Set.Lanes, g.Pad
	if g.flatImage() {
		pad[1] = 0
	}
	wide, line, strides := min(g.In[2], size[2]-pad[2])*lanes, g.In[2]*lanes, places(size)
	if wide <= 0 {
		return
	}
	for d := range min(g.In[0], size[0]-pad[0]) {
		to, from := dot3([3]int{d + pad[0], pad[1], pad[2]}, strides)*lanes, d*g.In[1]*line
		for range min(g.In[1], size[1]-pad[1]) {
			copy(dst[to:to+wide], pixels[from:])
			to, from = to+strides[1]*lanes, from+line
		}
	}
}
