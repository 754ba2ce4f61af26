package kernels

// setStencilsInGo gives a set loops in Go in place of the routines with which convolutions read images.
func (s *isa) setStencilsInGo() *isa {
	lanes := s.lanes
	s.gatherRows = func(dst []float32, ldd int, src []float32, lds, rows int, at []int32) {
		for i := range rows {
			d := dst[i*ldd : i*ldd+lanes]
			for j, k := range at[:lanes] {
				if d[j] = 0; k >= 0 {
					d[j] = src[i*lds+int(k)]
				}
			}
		}
	}
	s.copyAt = func(dst []float32, ldd int, src []float32, at []int, _ int) {
		for i, k := range at {
			d, from := dst[i*ldd:][:lanes], src[k:][:lanes]
			for j := range d {
				d[j] = from[j]
			}
		}
	}
	s.evens, s.zip = evensGeneric, zipGeneric
	s.stencil, s.stencilEvens, s.stencilEach = stencilGeneric, stencilEvensGeneric, stencilEachGeneric
	return s
}

func stencilGeneric(dst, src []float32, at []int, _ int, w []float32, bias float32) {
	for i := range dst {
		dst[i] = bias
	}
	for t, x := range w[:len(at)] {
		from := src[at[t]:][:len(dst)]
		for i, y := range from {
			dst[i] += x * y
		}
	}
}

func stencilEvensGeneric(dst, src []float32, at []int, _ int, w []float32, bias float32) {
	for i := range dst {
		dst[i] = bias
	}
	for t, x := range w[:len(at)] {
		from := src[at[t]:][:2*len(dst)]
		for i := range dst {
			dst[i] += x * from[2*i]
		}
	}
}

func stencilEachGeneric(dst, src []float32, at []int, w []float32, place []int, bias []float32) {
	copy(dst, bias[:len(dst)])
	for t, k := range at {
		from, by := src[k:][:len(dst)], w[place[t]:][:len(dst)]
		for i, y := range from {
			dst[i] += by[i] * y
		}
	}
}

func evensGeneric(dst, src []float32) {
	for i := range dst {
		dst[i] = src[2*i]
	}
}

func zipGeneric(dst, a, b []float32) {
	for i, x := range a {
		dst[2*i], dst[2*i+1] = x, b[i]
	}
}
