package kernels

import (
	"fmt"
	"math"
	"slices"
)

// Tile is a shape of the tiled matrix product: how many sums a workgroup computes, and how its invocations share them.
//
// The 32 invocations that run together on most devices (a subgroup) form a block of LanesM x 32/LanesM; a workgroup has BlocksM x BlocksN blocks.
// Within a block many invocations need the same operands, so one read of workgroup memory serves them all.
type Tile struct {
	BlocksM, BlocksN int
	LanesM           int
	TM, TN           int // rows and columns per invocation, multiples of four
	Depth            int // values of K in workgroup memory at a time
	Splits           int // parts of K, each summed by a different workgroup; 0 or 1: K is not split
	// Rate is the speed of a fully occupied device with such tiles, measured on an NVIDIA H200 in TFLOP/s. Only the ratio to other tiles matters.
	Rate float64
}

// LanesN: see LanesM.
func (t Tile) LanesN() int { return 32 / t.LanesM }

// TileM and TileN are the rows and columns of the result that a workgroup computes.
func (t Tile) TileM() int { return t.BlocksM * t.LanesM * t.TM }

// TileN: see TileM.
func (t Tile) TileN() int { return t.BlocksN * t.LanesN() * t.TN }

// Threads is the number of invocations in a workgroup.
func (t Tile) Threads() int { return 32 * t.BlocksM * t.BlocksN }

// pad is the number of vectors between groups of four values of K in workgroup memory. Eight invocations store at a time, and each should store to a
// different bank (one vector wide).
func (t Tile) pad() int { return 8 / (t.Depth / 4) }

// bytes is an upper bound of the workgroup memory in bytes.
func (t Tile) bytes() int { return 4*t.Depth*(t.TileM()+t.TileN()) + 2*t.Depth/4*t.pad()*16 }

func (t Tile) String() string { return fmt.Sprintf("%dx%d", t.TileM(), t.TileN()) }

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
		out = append(out, pass{Index: len(out), First: first, A: first < a, B: last > a, All: last == first+t.Threads(), UnitsA: a, Units: all})
	}
	return out
}

// tiles lists the shapes of tiled products. The last one fits every device.
var tiles = []Tile{
	{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 8, TN: 12, Depth: 16, Rate: 47},   // 128x192
	{BlocksM: 2, BlocksN: 2, LanesM: 4, TM: 8, TN: 12, Depth: 16, Rate: 46},   // 64x192
	{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 8, TN: 8, Depth: 16, Rate: 45},    // 128x128
	{BlocksM: 2, BlocksN: 4, LanesM: 4, TM: 12, TN: 4, Depth: 16, Rate: 43.5}, // 96x128
	{BlocksM: 4, BlocksN: 1, LanesM: 4, TM: 8, TN: 8, Depth: 16, Rate: 43},    // 128x64
	{BlocksM: 4, BlocksN: 2, LanesM: 4, TM: 4, TN: 4, Depth: 16, Rate: 32},    // 64x64
}

// Tiles returns the shapes of tiled products.
func Tiles() []Tile { return slices.Clone(tiles) }

// WebGPU does not report the number of processors. Tiles are chosen for a large GPU. On a smaller one each processor computes more tiles, and the
// choice matters less.
const (
	processors      = 132
	busyInvocations = 160 // invocations that keep a processor's multipliers busy
)

// The cost of adding partial sums: a dispatch in seconds, and memory traffic in bytes per second.
const (
	sumTime = 2.5e-6
	sumRate = 3e12
)

// seconds estimates the time of a product. A processor computes one tile at a time, so the time depends on the busiest processor.
func (t Tile) seconds(p product) float64 {
	parts := max(t.Splits, 1)
	most := ceilDiv(max(t.groups(p)*parts, 1), processors)
	sums := float64(most*t.TileM()*t.TileN()) * max(1, float64(busyInvocations)/float64(most*t.Threads()))
	s := 2 * sums * float64(max(p.k, 1)) / float64(parts) / (t.Rate * 1e12 / processors)
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
	best, least := tiles[len(tiles)-1], math.Inf(1)
	for _, t := range tiles {
		if time := t.seconds(p); t.bytes() <= l.WorkgroupStorage && time < least {
			best, least = t, time
		}
	}
	return best
}

// leastPart is the least number of values of K in a part. Splitting K takes memory, so it must reduce the estimated time to splitGain of the original.
const (
	leastPart = 256
	splitGain = 0.95
)

// chooseSplit is like chooseTile, but may also split K.
func chooseSplit(p product, l Limits) Tile {
	best := chooseTile(p, l)
	if l.Tile != nil {
		return best
	}
	least := best.seconds(p) * splitGain
	for _, t := range tiles {
		for t.Splits = 2; t.Splits <= 8 && p.k >= t.Splits*leastPart; t.Splits++ {
			if time := t.seconds(p); t.bytes() <= l.WorkgroupStorage && time < least {
				best, least = t, time
			}
		}
	}
	return best
}
