package conv

import (
	"math"
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// lastTiles describes tiles of the result of a convolution with channels last: runs of adjacent pixels by some vectors
// of output channels. Routines in assembly change it. Distances and places in lists are in bytes. The slices of the
// convolution keep the addresses valid. They are numbers, since a routine moves them past the ends of these slices.
type lastTiles struct {
	x, zeros uintptr
	// For each tap: where its weights are, and where each pixel reads x, or padding.
	list                         uintptr
	taps, count, listStep, xStep int // the steps are from a tile to the next
	k                            int // channels of x that a tap reads
	w                            uintptr
	ldw                          int // from the weights of a vector of channels to the next; not for depthwise ones
	bias, dst                    uintptr
	ldd                          int
	addend, residual             uintptr
	does                         int     // what comes after the sums
	mask                         uintptr // of the last vector: see lastRoutines
	// The same tiles of several lines: the steps are from the end of a line to the next line. each is count again.
	lines, each, listBack, xLine, dstLine int
	left, cursor                          int // of the routine
}

// Bits of lastTiles.does.
const (
	doesAddend = 1 << iota
	doesRelu
	doesResidual
	doesSums = 1<<iota | doesAddend // adds the elements of the result, which are the addend, too
)

// padding is the place of a pixel outside of x. The sum of it and an address is negative.
const padding = math.MinInt

// lastRoutines compute tiles.
type lastRoutines struct {
	sums, vectors int // of a tile, at most
	// tile computes tiles of so many pixels, at most lastPixels, and vectors of channels; each does so for depthwise
	// convolutions.
	tile, each func(g *convolution, t *lastTiles, list []int, pixels, vectors int)
	// mask returns lastTiles.mask for so many channels of the last vector.
	mask func(channels int) uintptr
}

const lastPixels = 12 // maximum number of pixels of a tile

var lastTable isa.Table[lastRoutines]

func init() {
	lastTable.Add(isa.Generic, func() *lastRoutines {
		return &lastRoutines{sums: 16, vectors: 2, tile: (*convolution).lastTile, each: (*convolution).lastEach,
			mask: func(channels int) uintptr { return uintptr(channels) }}
	})
}

// lastOn returns the routines of a set. They are empty if the set has none.
func lastOn(s *isa.Set) *lastRoutines { return lastTable.On(s) }

func address(s []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }

// within returns the index in s of the element at an address.
func within(s []float32, at uintptr) int { return (int(at) - int(address(s))) / 4 }

// lastTile computes tiles in Go.
func (g *convolution) lastTile(t *lastTiles, list []int, pixels, vectors int) {
	lanes, x, w := g.p.Set.Lanes, g.last.x, g.packed[within(g.packed, t.w):]
	g.eachPixel(t, list, pixels, vectors, func(sums []float32, at, from int) {
		for c := range t.k {
			v := float32(0)
			if from >= 0 {
				v = x[from+c]
			}
			for o := range sums {
				sums[o] += v * w[at+o/lanes*t.ldw/4+c*lanes+o%lanes]
			}
		}
	})
}

// lastEach computes tiles of a depthwise convolution in Go.
func (g *convolution) lastEach(t *lastTiles, list []int, pixels, vectors int) {
	x, w := g.last.x, g.packed[within(g.packed, t.w):]
	g.eachPixel(t, list, pixels, vectors, func(sums []float32, at, from int) {
		for o := range sums {
			v := float32(0)
			if from >= 0 {
				v = x[from+o]
			}
			sums[o] += v * w[at+o]
		}
	})
}

// eachPixel calls add for each tap of each pixel of tiles, with the pixel's sums, the index of the weights and that of
// x, which is -1 for padding.
func (g *convolution) eachPixel(t *lastTiles, list []int, pixels, vectors int, add func(sums []float32, at, from int)) {
	width := (vectors-1)*g.p.Set.Lanes + int(t.mask)
	x, out := within(g.last.x, t.x), within(g.Out, t.dst)
	for i := range t.count * t.lines {
		if i > 0 && i%t.count == 0 {
			x, out = x+t.xLine/4, out+t.dstLine/4
		}
		entries := list[i%t.count*t.listStep/8:]
		for r := range pixels {
			sums := g.Out[out:][:width]
			if t.does&doesSums != doesSums {
				copy(sums, g.biases[within(g.biases, t.bias):])
			}
			for k := range t.taps {
				from, e := -1, entries[k*(pixels+1):]
				if e[r+1] != padding {
					from = x + e[r+1]/4
				}
				add(sums, e[0]/4, from)
			}
			for o := range sums {
				if t.does&doesSums == doesAddend {
					sums[o] += g.Addend[out+o]
				}
				if t.does&doesRelu != 0 {
					sums[o] = max(sums[o], 0)
				}
				if t.does&doesResidual != 0 {
					sums[o] += g.Residual[out+o]
				}
			}
			out += t.ldd / 4
		}
		x += t.xStep / 4
	}
}
