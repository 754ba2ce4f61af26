package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Several small images: each worker computes the convolution of some of them. In a chain of convolutions it then reads
// what it has stored itself. Fetching a cache line that another core has stored takes about as long as thirty products
// of vectors.

const (
	// Least number of elements of a channel. With fewer, reading the weights takes much of the time, so it is faster
	// if workers read different ones.
	ownElements = 9
	// Maximum number of products that a worker computes. With more, a worker that begins late would take long.
	ownProducts = 1 << 26
)

// byImage reports whether images computes the convolution.
func (g *convolution) byImage() bool {
	if g.Packed == nil || g.p.Threads() == 1 || g.Groups < 1 {
		return false
	}
	g.cg, g.og, g.out = g.Cin/g.Groups, g.Cout/g.Groups, g.OutSize()
	if !g.ownImages() {
		return false
	}
	g.reach()
	return g.kept()
}

// ownImages reports whether images may compute the convolution, once its weights are packed.
func (g *convolution) ownImages() bool {
	threads := g.p.Threads()
	if g.N < threads || g.N%threads != 0 && g.N < 4*threads || g.Last || g.Transposed || g.In[0] != 1 {
		return false
	}
	area := elementwise.Volume(g.out)
	return area >= ownElements &&
		pool.CeilDiv(g.N, threads)*area*g.Cout*(g.Cin/g.Groups)*elementwise.Volume(g.Kernel) <= ownProducts
}

// kept reports whether Packed has the weights that the convolution needs.
func (g *convolution) kept() bool {
	switch k := g.Packed; {
	case g.byChannel():
		return !g.byPixel() || *k.forPixels(g) != nil
	case g.mixed():
		return true
	case g.inPatches(): // of all images at once
		return false
	case g.byWinograd():
		return k.winograd != nil
	case g.fewElements():
		return k.right != nil
	default:
		return k.left != nil
	}
}

// images divides the images among the workers.
func (g *convolution) images() {
	g.p.Each(g.p.Threads(), 1, (*convImages)(g))
}

type convImages convolution

func (x *convImages) Do(lo, hi, worker int) {
	g, threads := (*convolution)(x), x.p.Threads()
	first, end := lo*g.N/threads, hi*g.N/threads
	own := g.Args
	own.N = end - first
	own.X = g.X[first*g.Cin*elementwise.Volume(g.In):][:own.N*g.Cin*elementwise.Volume(g.In)]
	size := g.Cout * elementwise.Volume(g.out)
	own.Out = g.Out[first*size:][:own.N*size]
	own.Epilogue = g.from(first * size)
	Convolve(g.p.Alone(worker), &own)
}

// addImages adds what images needs to the memory that the other ways need.
func (g *Args) addImages(p *pool.Pool, r pool.Size) pool.Size {
	threads := p.Threads()
	if threads == 1 || g.N < threads || g.Last || g.Transposed {
		return r
	}
	own := *g
	own.N = pool.CeilDiv(g.N, threads)
	one := own.ScratchSize(p.Alone(0))
	return r.With(pool.Size{Alone: one.Shared, Worker: one.Worker, Other: r.Other + int64(threads)*one.Other})
}
