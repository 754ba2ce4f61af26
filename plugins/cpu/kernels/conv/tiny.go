package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/vec"
)

// Depthwise convolutions of images of a few pixels with channels first. Most taps fall outside of such images, so only
// those inside are listed, for each pixel of the result. A pixel is computed for many channels at a time, because a
// call for each vector of channels would take longer than the sums.

const (
	tinyImage  = 16 // maximum number of pixels of an image
	tinyResult = 9  // maximum number of pixels of a result; 16 took as long as lines of pixels
	tinyBlocks = 16 // vectors of channels that are computed at a time
)

// tiny reports whether tinyPixels computes a convolution for which byPixel is true.
func (g *convolution) tiny() bool {
	return elementwise.Volume(g.In) <= tinyImage && elementwise.Volume(g.out) <= tinyResult && g.pixelBlocks() > 1
}

// tinyWide returns the distance of two pixels of the copies of a worker.
func (g *convolution) tinyWide() int { return min(tinyBlocks, g.pixelBlocks()) * g.p.Set.Lanes }

// tinyRoom returns the number of floats of a copy of n pixels.
func (g *convolution) tinyRoom(n int) int {
	lanes := g.p.Set.Lanes
	return pool.CeilDiv(n, lanes)*lanes*g.tinyWide() + lanes
}

// tinyScratch returns the bytes that a worker needs, also for smaller images.
func (g *convolution) tinyScratch() int64 {
	in, out := min(elementwise.Volume(g.In), tinyImage), min(elementwise.Volume(g.out), tinyResult)
	return pool.FloatBytes(g.tinyRoom(in), g.tinyRoom(out), g.p.Set.Lanes*(in+1), g.p.Set.Lanes*(out+1))
}

// tinyImages computes the convolution. Its weights are in packed.
func (g *convolution) tinyImages() {
	channels := g.pixelBlocks() * g.p.Set.Lanes
	g.biases = g.p.Shared.Floats(channels)
	clear(g.biases[copy(g.biases, g.Bias):])
	g.listInside(g.tinyWide(), channels)
	each := g.p.Set.Lanes * len(g.at)
	g.p.Share(g.N*g.pixelBlocks(), 1+pool.Grain/max(1, each), (*convTiny)(g))
}

// listInside sets tapped to the taps inside of the image of each pixel of the result. A tapLine begins at from in at
// and places. These hold where the taps read the image, whose pixels are wide floats apart, and the weights, whose taps
// are channels floats apart.
func (g *convolution) listInside(wide, channels int) {
	g.tapped, g.at, g.places = g.tapped[:0], g.at[:0], g.places[:0]
	strides := places(g.In)
	for m := range elementwise.Volume(g.out) {
		at, l := g.phases[0].pixel(m), tapLine{from: len(g.at)}
		for k := range g.taps {
			if from, inside := g.source(at, &g.taps[k]); inside {
				g.at, g.places = append(g.at, dot3(from, strides)*wide), append(g.places, k*channels)
			}
		}
		l.taps = len(g.at) - l.from
		g.tapped = append(g.tapped, l)
	}
}

// convTiny computes blocks of channels, counted over all images.
type convTiny convolution

func (x *convTiny) Do(lo, hi, worker int) {
	g := (*convolution)(x)
	sc, lanes, blocks, wide := g.p.Scratch(worker), g.p.Set.Lanes, g.pixelBlocks(), g.tinyWide()
	in, out := elementwise.Volume(g.In), elementwise.Volume(g.out)
	image, made := sc.Floats(g.tinyRoom(in)), sc.Floats(g.tinyRoom(out))
	edge, back := sc.Floats(lanes*(in+1)), sc.Floats(lanes*(out+1))
	for t, n := lo, 0; t < hi; t += n {
		o := t % blocks * lanes
		n = min(hi-t, blocks-t%blocks, tinyBlocks)
		rows := min(n*lanes, g.Cout-o)
		g.turnBlocks(image, edge, (t/blocks*g.Cin+o)*in, rows)
		for m := range g.tapped {
			l := &g.tapped[m]
			to := made[m*wide:][:n*lanes]
			if l.taps == 0 {
				copy(to, g.biases[o:])
				continue
			}
			vec.On(g.p.Set).StencilEach(to, image, g.at[l.from:][:l.taps], g.packed[o:], g.places[l.from:][:l.taps],
				g.biases[o:])
		}
		first := (t/blocks*g.Cout + o) * out
		g.turnBack(g.Out[first:][:rows*out], made, back)
		g.finish(first, rows*out)
	}
}

// turnBlocks transposes so many channels of x, which begin at index first, to pixels. edge is scratch memory.
func (g *convolution) turnBlocks(dst, edge []float32, first, channels int) {
	s, in, wide := g.p.Set, elementwise.Volume(g.In), g.tinyWide()
	cols := pool.CeilDiv(in, s.Lanes) * s.Lanes
	for c := 0; c < channels; c += s.Lanes {
		rows := min(s.Lanes, channels-c)
		src := g.X[first+c*in:]
		if len(src) < (rows-1)*in+cols {
			copy(edge, src[:rows*in])
			src = edge
		}
		vec.On(s).Transpose(dst[c:], wide, src, in, rows, cols)
	}
}

// turnBack transposes pixels to channels. What it stores past the end of a channel is overwritten by the next one. back
// is scratch memory for the last ones.
func (g *convolution) turnBack(dst, made, back []float32) {
	s, out, wide := g.p.Set, elementwise.Volume(g.out), g.tinyWide()
	for c := 0; len(dst) > 0; c += s.Lanes {
		n := min(len(dst), s.Lanes*out)
		to := dst
		if len(dst) < n+s.Lanes || n < s.Lanes*out {
			to = back
		}
		// The last pixels come first, because elements written past the end of a channel are then overwritten.
		for i := (out - 1) / s.Lanes * s.Lanes; i >= 0; i -= s.Lanes {
			vec.On(s).Transpose(to[i:], out, made[i*wide+c:], wide, min(s.Lanes, out-i), s.Lanes)
		}
		if len(dst) < n+s.Lanes || n < s.Lanes*out {
			copy(dst[:n], back)
		}
		dst = dst[n:]
	}
}
