package kernels

// squareTiles is tiles for one panel of columns and one block of k, by products of whole tiles: c is at row 0 of the block and
// the first of cols columns.
func (g *GemmArgs) squareTiles(s *isa, c, tile, a, b []float32, rows, cols, depth int, fresh bool, bias, residual []float32) {
	steps := depth / (tileSide / 2)
	whole := 0
	if cols == s.nr && steps > 0 {
		whole = rows / tileSide * tileSide
	}
	if whole > 0 {
		init, ldi := residual, g.LDR
		if !fresh {
			init, ldi = c, g.LDC
		}
		s.tiles(whole/tileSide, steps, a, b, c, g.LDC, init, ldi)
		for r := 0; r < whole && bias != nil; r += s.mr { // a product of depth 0
			s.gemm(min(s.mr, whole-r), 0, nil, nil, c[r*g.LDC:], g.LDC, true, bias, nil, 0)
		}
	}
	for r := whole; r < rows; r += tileSide {
		if steps > 0 {
			s.tiles(1, steps, a[r*depth:], b, tile, s.nr, nil, 0)
		} else {
			clear(tile[:tileSide*s.nr])
		}
		for i := range min(tileSide, rows-r) {
			var res []float32
			if residual != nil && fresh {
				res = residual[(r+i)*g.LDR:]
			}
			finishRow(c[(r+i)*g.LDC:][:cols], tile[i*s.nr:], !fresh, bias, res)
		}
	}
}
