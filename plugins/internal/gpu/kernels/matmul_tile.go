package kernels

import (
	"fmt"
	"math"
	"slices"
)

// Tile is a shape of the tiled matrix product: how many sums a workgroup computes, and how its invocations share them.
//
// The 32 invocations that run together on most devices (a subgroup) form a block of LanesM x 32/LanesM; a workgroup has
// BlocksM x BlocksN blocks. Within a block many invocations need the same operands, so one read of workgroup memory
// serves them all.
type Tile struct {
	BlocksM, BlocksN int
	LanesM           int
	TM, TN           int // rows and columns per invocation, multiples of four
	Depth            int // values of K in workgroup memory at a time
	Splits           int // parts of K, each summed by a different workgroup; 0 or 1: K is not split
	// Matrices means that the sums of a block lie in matrices (see Limits). LanesM, TM and TN then only say how large a
	// block is.
	Matrices bool
	// Rate is the speed of a fully occupied device with such tiles, measured on an NVIDIA H200 in TFLOP/s. Only the
	// ratio to other tiles matters. Alone is the part of this rate that a processor reaches with a single workgroup:
	// fewer invocations hide less latency.
	Rate, Alone float64
	// Dense tiles are not for convolutions, which need more registers for the addresses of patches.
	Dense bool
}

// LanesN: see LanesM.
func (t Tile) LanesN() int { return 32 / t.LanesM }

// TileM and TileN are the rows and columns of the result that a workgroup computes.
func (t Tile) TileM() int { return t.BlocksM * t.LanesM * t.TM }

// TileN: see TileM.
func (t Tile) TileN() int { return t.BlocksN * t.LanesN() * t.TN }

// Threads is the number of invocations in a workgroup.
func (t Tile) Threads() int { return 32 * t.BlocksM * t.BlocksN }

// BlockM and BlockN are the rows and columns of a block.
func (t Tile) BlockM() int { return t.LanesM * t.TM }

// BlockN: see BlockM.
func (t Tile) BlockN() int { return t.LanesN() * t.TN }

// rows is the number of steps in which a block finishes its sums: a row of matrices in each, or of each invocation's
// sums.
func (t Tile) rows() int {
	if t.Matrices {
		return t.BlockM() / 8
	}
	return t.TM
}

// pad is the number of vectors between groups of four values of K in workgroup memory. Eight invocations store at a
// time, and each should store to a different bank (one vector wide).
func (t Tile) pad() int { return 8 / (t.Depth / 4) }

// bytes is an upper bound of the workgroup memory in bytes.
func (t Tile) bytes() int {
	if t.Matrices {
		b := t.Depth * line(t.TileN())
		return 16 * (t.vectorsA() + b)
	}
	return 4*t.Depth*(t.TileM()+t.TileN()) + 2*t.Depth/4*t.pad()*16
}

// line is the number of vectors from one value of K to the next in workgroup memory, of a tile with matrices. One of
// them is padding, so that the rows of a matrix lie in different banks.
func line(rows int) int { return rows/4 + 1 }

// vectorsA is the number of vectors in workgroup memory for A in a tile with matrices. Later a row of matrices of each
// block lies there.
func (t Tile) vectorsA() int {
	return max(t.Depth*line(t.TileM()), t.BlocksM*t.BlocksN*8*t.BlockN()/4)
}

// String returns the sizes of the tile and of an invocation's part of it: 128x96/8x12.
func (t Tile) String() string { return fmt.Sprintf("%dx%d/%dx%d", t.TileM(), t.TileN(), t.TM, t.TN) }

// groups returns the number of workgroups for a product.
func (t Tile) groups(p product) int {
	return ceilDiv(p.m, t.TileM()) * ceilDiv(p.n, t.TileN()) * p.matrix
}

// loops is Shader.Loops for sums of k products.
func (t Tile) loops(k int) int {
	return loop(maxRank, 0) + loop(ceilDiv(k, t.Depth), 0) + loop(t.TM, 0)
}

// pass is a round in which each invocation fetches at most one unit: four rows of an operand by four values of K.
type pass struct {
	Index         int
	First         int  // unit that invocation 0 fetches
	A, B          bool // some invocations fetch units of this operand
	All           bool // each invocation fetches a unit
	UnitsA, Units int  // UnitsA: units of A; Units: units of A and B
}

// Passes lists the rounds in which the invocations fetch Depth values of K. Units of A come first.
func (t Tile) Passes() (out []pass) {
	a, all := t.TileM()*t.Depth/16, (t.TileM()+t.TileN())*t.Depth/16
	for first := 0; first < all; first += t.Threads() {
		last := min(first+t.Threads(), all)
		out = append(
			out, pass{Index: len(out), First: first, A: first < a, B: last > a, All: last == first+t.Threads(),
				UnitsA: a, Units: all})
	}
	return out
}

// tiles lists the shapes of tiled products. The last one fits every device.
var tiles = []Tile{
	{BlocksM: 2, BlocksN: 2, LanesM: 8, TM: 8, TN: 12, Depth: 16, Rate: 47.9, Alone: 0.85, Dense: true}, // 128x96
	{BlocksM: 2, BlocksN: 2, LanesM: 4, TM: 8, TN: 12, Depth: 16, Rate: 47.8, Alone: 0.85},              // 64x192
	{BlocksM: 4, BlocksN: 1, LanesM: 4, TM: 12, TN: 8, Depth: 16, Rate: 47.6, Alone: 0.85, Dense: true}, // 192x64
	// 128x128, for 128 invocations
	{BlocksM: 4, BlocksN: 1, LanesM: 4, TM: 8, TN: 16, Depth: 16, Rate: 47.2, Alone: 0.55, Dense: true},
	{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 8, TN: 12, Depth: 16, Rate: 46.5, Alone: 1}, // 128x192
	// 128x128, for 256
	{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 8, TN: 8, Depth: 16, Rate: 45.3, Alone: 1},
	{BlocksM: 4, BlocksN: 1, LanesM: 4, TM: 8, TN: 8, Depth: 16, Rate: 43.4, Alone: 0.85}, // 128x64
	{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 4, TN: 4, Depth: 16, Rate: 36.5, Alone: 1},    // 64x64
}

// matrixTiles are the shapes for devices with matrices. A block has 4x4 matrices, fewer sums than in other tiles,
// because the matrices of A and B take registers, too. As long as no shape has been timed, there is only one, and its
// rate only serves to decide about Splits.
var matrixTiles = []Tile{
	{BlocksM: 2, BlocksN: 2, LanesM: 4, TM: 8, TN: 4, Depth: 16, Rate: 43, Alone: 0.85, Matrices: true}, // 64x64
}

// Tiles returns the shapes of tiled products.
func Tiles() []Tile { return slices.Clone(tiles) }

// MatrixTiles returns the shapes of tiled products of devices with matrices.
func MatrixTiles() []Tile { return slices.Clone(matrixTiles) }

// tiles returns the shapes that a device can use.
func (l Limits) tiles() []Tile {
	if l.Matrices {
		return matrixTiles
	}
	return tiles
}

// WebGPU does not report the number of processors. Tiles are chosen for a large GPU. On a smaller one each processor
// computes more tiles, and the choice matters less.
const (
	processors = 132
	stepTime   = 7e-7 // seconds that the fetches and barriers of a step of Depth values of K take at least
	edgeRate   = 0.99 // of the rate, if rows or columns end within a tile: then more addresses are computed one by one
)

// The cost of adding partial sums: a dispatch in seconds, and memory traffic in bytes per second.
const (
	sumTime = 3.5e-6
	sumRate = 3e12
)

// seconds estimates the time of a product. It depends on the processor with most tiles. Two workgroups share a
// processor, so the last of an odd number is alone.
func (t Tile) seconds(p product) float64 {
	parts := max(t.Splits, 1)
	most := ceilDiv(max(t.groups(p)*parts, 1), processors)
	tiles := float64(most)
	if most%2 == 1 {
		tiles += 1/t.Alone - 1
	}
	rate := t.Rate * 1e12 / processors
	if p.m%t.TileM() > 0 {
		rate *= edgeRate
	}
	if p.n%t.TileN() > 0 {
		rate *= edgeRate
	}
	steps := float64(max(p.k, 1)) / float64(parts*t.Depth)
	s := steps * max(2*tiles*float64(t.TileM()*t.TileN()*t.Depth)/rate, stepTime)
	if parts > 1 {
		s += sumTime + 4*float64(p.m)*float64(p.n)*float64(2*parts+1)/sumRate
	}
	return s
}

// chooseTile returns the shape with the least estimated time. In p, sizes that are not static are 0.
func chooseTile(p product, l Limits) Tile {
	if l.Tile != nil {
		return *l.Tile
	}
	all := l.tiles()
	best, least := all[len(all)-1], math.Inf(1)
	for _, t := range all {
		if time := t.seconds(p); t.fits(p, l) && time < least {
			best, least = t, time
		}
	}
	return best
}

// fits reports whether the device has the memory for such tiles, and the product allows them.
func (t Tile) fits(p product, l Limits) bool {
	return t.bytes() <= l.WorkgroupStorage && !(t.Dense && p.patches)
}

// leastPart is the least number of values of K in a part. Splitting K takes memory, so it must reduce the estimated
// time to splitGain of the original.
const (
	leastPart = 64
	splitGain = 0.95
	mostParts = 8
)

// chooseSplit is like chooseTile, but may also split K, into at most most parts.
func chooseSplit(p product, l Limits, most int) Tile {
	best := chooseTile(p, l)
	if l.Tile != nil {
		return best
	}
	least := best.seconds(p) * splitGain
	for _, t := range l.tiles() {
		for t.Splits = 2; t.Splits <= most && p.k >= t.Splits*leastPart; t.Splits++ {
			if time := t.seconds(p); t.fits(p, l) && time < least {
				best, least = t, time
			}
		}
	}
	return best
}
