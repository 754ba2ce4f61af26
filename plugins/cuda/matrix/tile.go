package matrix

import (
	"fmt"
	"slices"
)

// Tile is a shape of the product kernel: a block computes M x N sums. Operands are staged in shared memory in parts of
// depth values of K.
type Tile struct {
	M, N   int // M is 64 for each 128 threads; N is a multiple of 64
	Stages int // parts of K in shared memory
	// Warpgroup means wgmma, which four warps execute together and which reads both operands from shared memory. It
	// needs compute capability 9.0; otherwise each warp multiplies matrices of 16x8 with mma.
	Warpgroup bool
	// Rate is the speed of a full device with such tiles, measured on an NVIDIA H200 in TFLOP/s. Only the ratio to
	// other tiles matters.
	Rate float64
	// Blocks is the number of blocks that share a processor.
	Blocks int
	// PingPong means that a block has many tiles: see product_pingpong.go. Warpgroup is set, and M is 128.
	PingPong bool
}

// depth is the number of values of K in a stage: a row of 128 bytes, in which eight units of 16 bytes are permuted.
const depth = 64

func (t Tile) threads() int {
	if t.PingPong {
		return pingPongThreads
	}
	return 2 * t.M
}

func (t Tile) stage() int { return (t.M + t.N) * 2 * depth }

// shared is the shared memory in bytes, with what is needed to begin at a multiple of 1024.
func (t Tile) shared() int {
	n := t.Stages*t.stage() + 1024
	if t.PingPong {
		n += (t.Stages + 1) * barrierBytes
	}
	return n
}

// String returns the sizes: 128x256x4, or 128x192x5p for PingPong.
func (t Tile) String() string {
	s := fmt.Sprintf("%dx%dx%d", t.M, t.N, t.Stages)
	if t.PingPong {
		s += "p"
	}
	return s
}

// groups returns the number of tiles of count products of m x n.
func (t Tile) groups(m, n, count int) int { return ceilDiv(m, t.M) * ceilDiv(n, t.N) * count }

// blocks returns the number of blocks that compute these tiles.
func (t Tile) blocks(d Device, m, n, count int) int {
	tiles := t.groups(m, n, count)
	if t.PingPong {
		return min(tiles, d.Processors)
	}
	return tiles
}

var (
	warpTiles = []Tile{
		{M: 128, N: 128, Stages: 3, Rate: 400, Blocks: 2},
		{M: 64, N: 128, Stages: 4, Rate: 330, Blocks: 2},
		{M: 64, N: 64, Stages: 4, Rate: 250, Blocks: 3},
	}
	warpgroupTiles = []Tile{
		{M: 128, N: 256, Stages: 4, Warpgroup: true, Rate: 570, Blocks: 1},
		{M: 192, N: 128, Stages: 5, Warpgroup: true, Rate: 590, Blocks: 1},
		{M: 128, N: 192, Stages: 5, Warpgroup: true, Rate: 580, Blocks: 1},
		{M: 128, N: 128, Stages: 3, Warpgroup: true, Rate: 520, Blocks: 2},
		{M: 64, N: 128, Stages: 4, Warpgroup: true, Rate: 400, Blocks: 2},
		{M: 64, N: 64, Stages: 4, Warpgroup: true, Rate: 280, Blocks: 3},
	}
)

// pingPongTiles are for large products with few values of K, of which the others lose much to the beginnings and the
// ends of their tiles. The first has more sums for each byte that it loads, the second more stages.
var pingPongTiles = []Tile{
	{M: 128, N: 192, Stages: 5, Warpgroup: true, PingPong: true, Rate: 680, Blocks: 1},
	{M: 128, N: 128, Stages: 7, Warpgroup: true, PingPong: true, Rate: 700, Blocks: 1},
}

// mostTurns is the largest K for which tiles of pingPongTiles are faster: on an NVIDIA H200, they were at 768 and 1024,
// and were slower at 4096.
const mostTurns = 1536

// lostDepth is the time that a tile of the other kinds takes to begin and to end, in values of K. Their rates are those
// of a large K. On an NVIDIA H200, 128x192x5 reached 375 TFLOP/s at a K of 768, 420 at 1024 and 537 at 3072.
const lostDepth = 320.

// deepTiles are for products with few rows, whose time is that of reading weights. One block on a processor has as many
// bytes on their way as three of 64x64x4.
var deepTiles = []Tile{{M: 64, N: 64, Stages: 8, Warpgroup: true, Rate: 280, Blocks: 1}}

// TermTiles returns the shapes for products of terms, nil if fma is as fast: as far as is known on all but capability
// 9.0. They have fewer blocks on a processor than others, because sums take twice as many registers.
func (d Device) TermTiles() (out []Tile) {
	if d.Capability != 90 {
		return nil
	}
	for _, t := range d.tiles() {
		if t.M*t.N == 128*128 {
			t.Stages, t.Blocks, t.Rate = 5, 1, 450
		}
		if t.N <= 192 && t.shared() <= d.Shared {
			out = append(out, t)
		}
	}
	return out
}

// Tiles returns all shapes that a device can use, including those made for other devices.
func (d Device) Tiles() []Tile {
	out := d.tiles()
	if d.Capability == 90 {
		out = slices.Concat(out, d.turnTiles(), d.fewRowTiles(), warpTiles)
	}
	return out
}

// turnTiles returns the shapes of which a block has many.
func (d Device) turnTiles() (out []Tile) {
	for _, t := range pingPongTiles {
		if d.Capability == 90 && t.shared() <= d.Shared {
			out = append(out, t)
		}
	}
	return out
}

// fewRowTiles returns the shapes that only products with few rows use.
func (d Device) fewRowTiles() (out []Tile) {
	for _, t := range deepTiles {
		if d.Capability == 90 && t.shared() <= d.Shared {
			out = append(out, t)
		}
	}
	return out
}

// tiles returns the shapes for a device, nil if it has no suitable units.
func (d Device) tiles() []Tile {
	var out []Tile
	list := warpTiles
	switch {
	case d.Capability < 80:
		return nil
	case d.Capability == 90:
		list = warpgroupTiles
	}
	for _, t := range list {
		if t.shared() <= d.Shared {
			out = append(out, t)
		}
	}
	return out
}

// choose returns the tile of a list with the least estimated time for count products of m x n, and that time: it is
// that of the processor with the most blocks, for each value of K, in a unit that Device.Processors and Tile.Rate
// define.
func (d Device) choose(list []Tile, m, n, count int) (best Tile, least float64) {
	if d.Tile != nil && !d.Tile.PingPong {
		return *d.Tile, 0
	}
	for _, t := range list {
		// a block that is alone on a processor has all of its rate if no other block fits, and otherwise somewhat more
		// than its share
		slots := d.Processors * t.Blocks
		blocks := t.groups(m, n, count)
		rounds := float64(blocks / slots)
		if rest := blocks % slots; rest > 0 {
			share := ceilDiv(rest, d.Processors)
			part := float64(share) / float64(t.Blocks)
			if share < t.Blocks {
				part = min(1, part*1.3)
			}
			rounds += part
		}
		if seconds := rounds * float64(t.M*t.N*t.Blocks) / t.Rate; best.M == 0 || seconds < least {
			best, least = t, seconds
		}
	}
	return best, least
}
