package kernels

func reverseOf(lanes int, f func(dst, src *float32, blocks int)) func(dst, src []float32) {
	return func(dst, src []float32) {
		dst = dst[:len(src)]
		whole := len(src) / lanes * lanes
		if whole > 0 {
			f(&dst[len(src)-whole], &src[0], whole/lanes)
		}
		reverseInGo(dst[:len(src)-whole], src[whole:])
	}
}

func pairOf(lanes int, f func(dst, src *float32, width, pairs int)) func(dst, panel []float32, width, n int) {
	return func(dst, panel []float32, width, n int) {
		if width*n == 0 {
			return
		}
		over := (width+lanes-1)/lanes*lanes - width
		_, _ = dst[width*n+over-1], panel[2*width*n+over-1]
		f(&dst[0], &panel[0], width, n)
	}
}

// tileConfig is the operand of LDTILECFG: eight tiles of 16 rows of 64 bytes.
var tileConfig = [64]byte{0: 1, 16: 64, 18: 64, 20: 64, 22: 64, 24: 64, 26: 64, 28: 64, 30: 64, 48: 16, 49: 16, 50: 16,
	51: 16, 52: 16, 53: 16, 54: 16, 55: 16}

func tilesAMX(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int) {
	if blocks*steps == 0 {
		panic("BUG: no tiles")
	}
	rows := blocks * tileSide
	_, _, _ = a[rows*steps*tileSide/2-1], b[steps*tileSide*tileSide/2-1], c[(rows-1)*ldc+tileSide-1]
	if init != nil {
		_ = init[(rows-1)*ldi+tileSide-1]
	}
	tilesBF16(&tileConfig[0], blocks, steps, &a[0], &b[0], &c[0], ldc, head(init), ldi)
}

func tileRowAMX(dst, src []float32, steps int) {
	if steps > 0 {
		_, _ = dst[(steps-1)*tileSide*tileSide/2+tileSide/2-1], src[steps*tileSide-1]
		tileRowBF16(&dst[0], &src[0], steps)
	}
}
