package product

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// splitTileConfig configures the tiles for groups of 16 values and of 32: tiles 0 to 2 are for activations, 3 and 4 for
// sums, 6 and 7 for weights. Tile 5 is not used.
var splitTileConfig = [2][64]byte{
	{0: 1, 16: 32, 18: 32, 20: 32, 22: 64, 24: 64, 26: 64, 28: 64, 30: 64, 48: 16, 49: 16, 50: 16, 51: 16, 52: 16,
		53: 16, 54: 8, 55: 8},
	TileConfig,
}

// splitAMX has the routines for AMX.
var splitAMX = splitRoutines{
	rows: func(dst, sums, src []float32, ld, rows, steps, group int) uint32 {
		if rows == 0 || steps == 0 {
			return 0
		}
		_, _, _ = dst[splitA(32*steps)-1], sums[32*steps/group*splitSide-1], src[(rows-1)*ld+32*steps-1]
		if group == 16 {
			return splitRows16(&dst[0], &sums[0], &src[0], ld, rows, steps)
		}
		return splitRows32(&dst[0], &sums[0], &src[0], ld, rows, steps)
	},
	pairs: func(dst []float32, step int, src []float32, each int) {
		n := len(src) / each
		if n == 0 || each%splitSide != 0 {
			panic("BUG: no whole groups of weights")
		}
		_ = dst[(n-1)*step+2*each-1]
		widenPairs(&dst[0], 4*step, &src[0], each/splitSide, n)
	},
	multiply: func(r splitProduct) {
		n := r.groups * splitSide
		_, _, _ = r.a[splitA(r.groups*r.group)-1], r.sums[n-1], r.b[n*r.panels*r.group/2-1]
		_, _, _ = r.scale[n*r.panels-1], r.c[(splitSide-1)*r.ldc+splitSide*r.panels-1], r.room[splitRoom(r.panels)-1]
		if r.panels%2 != 0 || n*r.panels == 0 {
			panic("BUG: no pairs of panels")
		}
		config, resume := &splitTileConfig[r.group/16-1][0], 0
		if r.resume {
			resume = 1
		}
		room := (*byte)(unsafe.Pointer(&r.room[0]))
		f := splitTiles[r.group/16-1][0]
		if r.low != nil {
			_ = r.low[n*r.panels-1]
			f = splitTiles[r.group/16-1][1]
		}
		f(config, room, r.panels/2, r.groups, &r.a[0], &r.sums[0], &r.b[0], &r.scale[0], isa.Head(r.low), &r.c[0],
			4*r.ldc,
			resume)
	},
}

type splitTilesAsm = func(config, room *byte, pairs, groups int, a, sums, b, scale, low, c *float32, ldc, resume int)

// splitTiles is indexed by the size of groups, 16 or 32, and by whether the format has lows (see integerFormat).
var splitTiles = [2][2]splitTilesAsm{{splitTiles16, splitTiles16Low}, {splitTiles32, splitTiles32Low}}
