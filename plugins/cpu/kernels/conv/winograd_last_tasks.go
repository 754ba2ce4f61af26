package conv

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

const tileFloats = int(unsafe.Sizeof(winogradTile{}) / 4)

// winogradLastWork is what a worker keeps from a task to the next.
type winogradLastWork struct {
	in    winogradIn
	out   winogradOut
	now   lastTiles
	own   [2]lastRun
	tiles []winogradTile
	made  []float32 // the transformed tiles
	apart int       // floats from an element of all tiles to the next

	// The chunk whose tiles made has.
	of          *winogradLast
	turn, chunk int

	products convolution // for routines in Go
}

// winogradLastTasks computes chunks of tiles and parts of the channels of the result.
type winogradLastTasks winogradLast

func (x *winogradLastTasks) Do(lo, hi, worker int) {
	w := (*winogradLast)(x)
	sc, tasks, units := w.p.Scratch(worker), w.chunks*w.parts, w.N*w.units
	k := pool.Own[winogradLastWork](sc)
	for t := lo; t < hi; t++ {
		mark := sc.Mark()
		w.see(t*units/tasks, (t+1)*units/tasks)
		chunk, part := t/w.parts, t%w.parts
		first, end := chunk*w.tiles/w.chunks, (chunk+1)*w.tiles/w.chunks
		w.transform(k, chunk, first, end, sc)
		for b := part * w.blocks / w.parts; b < (part+1)*w.blocks/w.parts; b++ {
			w.block(k, b, sc)
		}
		if w.parts == 1 {
			w.finishTiles(first, end)
		}
		sc.Release(mark)
	}
}

// see finds the magnitudes of units of pixels, counted over images.
func (w *winogradLast) see(first, end int) {
	area, line := elementwise.Volume(w.In), w.seenLine()
	for u := first; u < end; u++ {
		at := u % w.units * winogradSeen
		x := w.X[(u/w.units*area+at)*w.Cin:][:min(winogradSeen, area-at)*w.Cin]
		winogradLastOn(w.p.Set).seen(w.seen[u*line:][:line], x, w.Cin)
	}
}

// transform transforms the tiles of a chunk, unless the worker has done so for another part of the channels.
func (w *winogradLast) transform(k *winogradLastWork, chunk, first, end int, sc *pool.Scratch) {
	lanes := w.p.Set.Lanes
	made := sc.Floats(winogradParts * (w.most*w.ldd + product.Spill))
	tiles := pool.ElementsOf[winogradTile](pool.BytesOf(sc.Floats(tileFloats * w.most)))[:end-first]
	if k.of == w && k.turn == w.turn && k.chunk == chunk && &k.made[0] == &made[0] && &k.tiles[0] == &tiles[0] {
		return
	}
	k.of, k.turn, k.chunk, k.made, k.tiles = w, w.turn, chunk, made, tiles
	k.apart = len(tiles)*w.ldd + product.Spill
	w.listTiles(tiles, first)
	vectors := pool.CeilDiv(w.Cin, lanes)
	k.in = winogradIn{tiles: uintptr(unsafe.Pointer(&tiles[0])), count: len(tiles), x: address(w.X),
		zeros: address(w.zeros), dst: address(made), apart: 4 * k.apart, ldd: 4 * w.ldd, vectors: vectors,
		mask: lastOn(w.p.Set).mask(w.Cin - (vectors-1)*lanes)}
	winogradLastOn(w.p.Set).in(w, k)
}

// block computes a block of channels of the result for the tiles of a chunk.
func (w *winogradLast) block(k *winogradLastWork, b int, sc *pool.Scratch) {
	on, lanes := lastOn(w.p.Set), w.p.Set.Lanes
	first, end := b*w.vectors/w.blocks, (b+1)*w.vectors/w.blocks
	width := (end - first) * lanes
	apart := len(k.tiles)*width + product.Spill
	mark := sc.Mark()
	products := sc.Floats(winogradParts * apart)
	line := 4 * lanes * w.Cin // bytes of the weights of a vector for an element of tiles
	t := lastTiles{zeros: address(w.zeros), bias: address(w.zeros), taps: 1, lines: 1, k: w.Cin,
		ldw: winogradParts * line, ldd: 4 * width, mask: on.mask(lanes)}
	g := &k.products // what routines in Go read
	g.p, g.last.x, g.packed, g.Out, g.biases = w.p, k.made, w.Packed.winograd, products, w.zeros
	runs := splitRun(k.own[:0], len(k.tiles), w.high)
	for i := range winogradParts {
		m := 0
		for _, r := range runs {
			k.now = t
			k.now.count, k.now.xStep = r.count, 4*r.pixels*w.ldd
			k.now.x = address(k.made[i*k.apart+m*w.ldd:])
			k.now.w = address(w.Packed.winograd) + uintptr((first*winogradParts+i)*line)
			k.now.dst = address(products[i*apart+m*width:])
			on.tile(g, &k.now, w.list[:], r.pixels, end-first)
			m += r.count * r.pixels
		}
	}
	k.out = winogradOut{tiles: uintptr(unsafe.Pointer(&k.tiles[0])), count: len(k.tiles), src: address(products),
		apart: 4 * apart, lds: 4 * width, vectors: end - first, mask: on.mask(min(lanes, w.Cout-(end-1)*lanes)),
		bias: address(w.biases[first*lanes:]), dst: address(w.Out[first*lanes:]), line: 4 * w.out[2] * w.Cout,
		pixel: 4 * w.Cout, does: w.last.does}
	if w.last.does&doesAddend != 0 {
		k.out.addend = address(w.Addend[first*lanes:])
	}
	if w.last.does&doesResidual != 0 {
		k.out.residual = address(w.Residual[first*lanes:])
	}
	winogradLastOn(w.p.Set).out(w, k)
	sc.Release(mark)
}

// finishTiles applies what tiles do not apply of the epilogue to the pixels of tiles [first, end).
func (w *winogradLast) finishTiles(first, end int) {
	if !w.rest.any() {
		return
	}
	across, high, wide := w.size[2], w.out[1], w.out[2]
	for t := first; t < end; {
		line, column := t/across, t%across // lines are counted over images
		n := min(across-column, end-t)
		y := line % w.size[1] * 2
		at := ((line/w.size[1]*high+y)*wide + 2*column) * w.Cout
		for i := range min(2, high-y) {
			w.finish(at+i*wide*w.Cout, min(2*n, wide-2*column)*w.Cout)
		}
		t += n
	}
}
