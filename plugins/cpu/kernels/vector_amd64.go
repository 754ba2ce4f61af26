package kernels

// Adapters of the generated elementwise routines, which take whole vectors.

func binariesOf(lanes int, add, sub, mul, div, max, min func(dst, a, b *float32, blocks int)) [binaryCount]func(dst, a, b []float32) {
	fs := binaryGeneric()
	for op, f := range map[BinaryOp]func(dst, a, b *float32, blocks int){Add: add, Sub: sub, Mul: mul, Div: div, Max: max, Min: min} {
		rest := fs[op]
		fs[op] = func(dst, a, b []float32) {
			dst, b = dst[:len(a)], b[:len(a)]
			n := len(a) / lanes
			if n > 0 {
				f(&dst[0], &a[0], &b[0], n)
			}
			if n *= lanes; n < len(a) {
				rest(dst[n:], a[n:], b[n:])
			}
		}
	}
	return fs
}

func comparesOf(lanes int, eq, ne, lt, le, gt, ge func(dst *uint8, a, b *float32, blocks int)) [compareCount]func(dst []uint8, a, b []float32) {
	fs := compareGeneric()
	for op, f := range map[CompareOp]func(dst *uint8, a, b *float32, blocks int){Eq: eq, Ne: ne, Lt: lt, Le: le, Gt: gt, Ge: ge} {
		rest := fs[op]
		fs[op] = func(dst []uint8, a, b []float32) {
			dst, b = dst[:len(a)], b[:len(a)]
			n := len(a) / lanes
			if n > 0 {
				f(&dst[0], &a[0], &b[0], n)
			}
			if n *= lanes; n < len(a) {
				rest(dst[n:], a[n:], b[n:])
			}
		}
	}
	return fs
}

func chooseOf(lanes int, f func(dst *float32, cond *uint8, t, f *float32, blocks int)) func(dst []float32, cond []uint8, t, f []float32) {
	return func(dst []float32, cond []uint8, yes, no []float32) {
		dst, yes, no = dst[:len(cond)], yes[:len(cond)], no[:len(cond)]
		n := len(cond) / lanes
		if n > 0 {
			f(&dst[0], &cond[0], &yes[0], &no[0], n)
		}
		if n *= lanes; n < len(cond) {
			chooseGeneric(dst[n:], cond[n:], yes[n:], no[n:])
		}
	}
}
