package product

import "math"

// partsAMX has the routines for AMX.
var partsAMX = partRoutines{
	rows: func(dst []float32, plane int, src []float32, ld, rows, steps int) float32 {
		const area = TileSide * TileSide / 2
		if rows == 0 || steps == 0 {
			return 0
		}
		_, _ = dst[2*plane+(steps-1)*area+rows*TileSide/2-1], src[(rows-1)*ld+steps*TileSide-1]
		return math.Float32frombits(partsRows(&dst[0], 4*plane, &src[0], 4*ld, rows, steps))
	},
	pairs: func(dst []float32, plane int, src []float32, ld, n int) float32 {
		if n == 0 {
			return 0
		}
		_, _ = dst[2*plane+n*TileSide-1], src[(2*n-1)*ld+TileSide-1]
		return math.Float32frombits(partsPairs(&dst[0], 4*plane, &src[0], 4*ld, n))
	},
	halves: func(dst []float32, src []uint16, ld, n int) float32 {
		if n == 0 {
			return 0
		}
		_, _ = dst[n*TileSide-1], src[(2*n-1)*ld+TileSide-1]
		return math.Float32frombits(halvesPairs(&dst[0], &src[0], 2*ld, n))
	},
	largest: func(src []float32) float32 {
		if len(src) < 16 {
			return 0
		}
		return math.Float32frombits(largestHalf(&src[0], len(src)/16))
	},
}
